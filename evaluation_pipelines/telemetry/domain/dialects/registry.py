"""All agent programs and span sources, in the order in which they are tried."""

from evaluation_pipelines.telemetry.domain.dialects import (
    claude_code,
    cline,
    codex,
    copilot,
    gemini,
    genai,
    opencode,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.frameworks import FRAMEWORKS, LANGSMITH
from evaluation_pipelines.telemetry.domain.dialects.libraries import Library
from evaluation_pipelines.telemetry.domain.dialects.openinference import OPENINFERENCE
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.span_source import SpanSource
from evaluation_pipelines.telemetry.domain.dialects.transcript import (
    Transcript,
    transcript_dialect,
)
from evaluation_pipelines.telemetry.domain.dialects.vercel_ai import VERCEL_AI

PROGRAMS: tuple[AgentProgram, ...] = (
    claude_code.PROGRAM,
    codex.PROGRAM,
    gemini.GEMINI,
    gemini.QWEN,
    opencode.PROGRAM,
    cline.PROGRAM,
    # Any of those may also send events of the GenAI conventions.
    copilot.CHAT,
    copilot.CLI,
    genai.PROGRAM,
)
DIALECTS: tuple[Dialect, ...] = tuple(
    program.logs for program in PROGRAMS if program.logs is not None
)

_SPANS_OF_PROGRAMS = tuple(program.spans for program in PROGRAMS if program.spans is not None)
_SPANS_OF_LIBRARIES = (OPENINFERENCE, LANGSMITH, VERCEL_AI, *FRAMEWORKS)
SPAN_SOURCES: tuple[SpanSource, ...] = (
    *_SPANS_OF_PROGRAMS,
    *_SPANS_OF_LIBRARIES,
    genai.OTHERS,
)
TRANSCRIPT_READERS: tuple[type[Transcript], ...] = tuple(
    program.transcripts for program in PROGRAMS if program.transcripts is not None
)
TRANSCRIPT_TITLES = tuple(program.title for program in PROGRAMS if program.transcripts is not None)
TRANSCRIPT_DIALECTS: tuple[Dialect, ...] = tuple(
    transcript_dialect(reader.source_cli) for reader in TRANSCRIPT_READERS
)

SOURCE_CLIS = tuple(dict.fromkeys(dialect.source_cli for dialect in DIALECTS))
"""Agent programs, as the column ``source_cli`` names them."""

LIBRARIES: dict[str, Library] = {
    name: library for source in SPAN_SOURCES for name, library in source.libraries.items()
}
"""Name for ``agent-config`` -> library that sends spans."""

SETTINGS = {
    program.name: program.settings
    for program in PROGRAMS
    if program.name is not None and program.settings is not None
} | {name: library.settings for name, library in LIBRARIES.items()}
"""Name of an agent for ``agent-config`` -> what makes its settings files."""

SESSION_KEYS = (
    tuple(
        dict.fromkeys(
            key
            for source in (*_SPANS_OF_LIBRARIES, *_SPANS_OF_PROGRAMS, genai.OTHERS)
            if source is not VERCEL_AI
            for key in source.session
        )
    )
    + VERCEL_AI.session
)
"""Attributes of spans with the id of a session, the most reliable first.

Vercel's SDK sends whatever its users put there, so its attributes are last.
"""

SPAN_CONTENT = tuple(dict.fromkeys(name for source in SPAN_SOURCES for name in source.content))
"""Prefixes of attributes of spans with content, history or descriptions of tools."""
