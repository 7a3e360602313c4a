"""All dialects, in the order in which they are tried."""

from evaluation_pipelines.telemetry.domain.dialects.claude_code import CLAUDE_CODE
from evaluation_pipelines.telemetry.domain.dialects.cline import CLINE
from evaluation_pipelines.telemetry.domain.dialects.codex import CODEX
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.gemini_cli import GEMINI_CLI
from evaluation_pipelines.telemetry.domain.dialects.genai import COPILOT_CHAT, GENAI
from evaluation_pipelines.telemetry.domain.dialects.opencode import OPENCODE
from evaluation_pipelines.telemetry.domain.dialects.qwen_code import QWEN_CODE

DIALECTS: tuple[Dialect, ...] = (
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    QWEN_CODE,
    OPENCODE,
    CLINE,
    # Any of those may also send events of the GenAI conventions.
    COPILOT_CHAT,
    GENAI,
)

SOURCE_CLIS = tuple(dict.fromkeys(dialect.source_cli for dialect in DIALECTS))
"""Agent programs, as the column ``source_cli`` names them."""

PROGRAMS = {
    dialect.program: dialect.settings
    for dialect in DIALECTS
    if dialect.program is not None and dialect.settings is not None
}
"""Name of an agent program for ``agent-config`` -> what makes its files of settings."""
