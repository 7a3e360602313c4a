"""``python -m evaluation_pipelines.settings`` prints ``docs/settings.md``."""

import sys

from evaluation_pipelines.settings.table import settings_markdown

sys.stdout.write(settings_markdown())
