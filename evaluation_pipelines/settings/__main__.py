"""``python -m evaluation_pipelines.settings`` prints the table of the README."""

import sys

from evaluation_pipelines.settings.table import settings_markdown

sys.stdout.write(f"{settings_markdown()}\n")
