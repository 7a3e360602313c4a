"""All dialects and sources of spans, in the order in which they are tried."""

from evaluation_pipelines.telemetry.domain.dialects.claude_code import (
    CLAUDE_CODE,
    CLAUDE_CODE_SPANS,
)
from evaluation_pipelines.telemetry.domain.dialects.cline import CLINE
from evaluation_pipelines.telemetry.domain.dialects.codex import CODEX, CODEX_SPANS
from evaluation_pipelines.telemetry.domain.dialects.copilot import COPILOT_CHAT, COPILOT_CLI
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.frameworks import FRAMEWORKS, LANGSMITH
from evaluation_pipelines.telemetry.domain.dialects.gemini_cli import GEMINI_CLI, GEMINI_CLI_SPANS
from evaluation_pipelines.telemetry.domain.dialects.genai import GENAI, OTHERS
from evaluation_pipelines.telemetry.domain.dialects.libraries import Library
from evaluation_pipelines.telemetry.domain.dialects.opencode import OPENCODE
from evaluation_pipelines.telemetry.domain.dialects.openinference import OPENINFERENCE
from evaluation_pipelines.telemetry.domain.dialects.qwen_code import QWEN_CODE
from evaluation_pipelines.telemetry.domain.dialects.span_source import SpanSource
from evaluation_pipelines.telemetry.domain.dialects.vercel_ai import VERCEL_AI

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
SPAN_SOURCES: tuple[SpanSource, ...] = (
    CLAUDE_CODE_SPANS,
    CODEX_SPANS,
    OPENINFERENCE,
    LANGSMITH,
    VERCEL_AI,
    *FRAMEWORKS,
    COPILOT_CLI,
    GEMINI_CLI_SPANS,
    OTHERS,
)

SOURCE_CLIS = tuple(dict.fromkeys(dialect.source_cli for dialect in DIALECTS))
"""Agent programs, as the column ``source_cli`` names them."""

LIBRARIES: dict[str, Library] = {
    name: library for source in SPAN_SOURCES for name, library in source.libraries.items()
}
"""Name for ``agent-config`` -> library that sends spans."""

PROGRAMS = {
    dialect.program: dialect.settings
    for dialect in DIALECTS
    if dialect.program is not None and dialect.settings is not None
} | {name: library.settings for name, library in LIBRARIES.items()}
"""Name of an agent for ``agent-config`` -> what makes its files of settings."""

SESSION_KEYS = tuple(
    dict.fromkeys(
        key
        for source in sorted(SPAN_SOURCES, key=lambda source: source is VERCEL_AI)
        for key in source.session
    )
)
"""Attributes of spans with the id of a session, the most reliable first.

Vercel's SDK sends whatever its users put there, so its attributes are last.
"""

SPAN_CONTENT = tuple(dict.fromkeys(name for source in SPAN_SOURCES for name in source.content))
"""Prefixes of attributes of spans with content, history or descriptions of tools."""
