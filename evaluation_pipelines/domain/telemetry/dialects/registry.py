"""All dialects that are understood, in the order in which they are asked."""

from evaluation_pipelines.domain.telemetry.dialects.claude_code import CLAUDE_CODE
from evaluation_pipelines.domain.telemetry.dialects.dialect import Dialect

DIALECTS: tuple[Dialect, ...] = (CLAUDE_CODE,)
