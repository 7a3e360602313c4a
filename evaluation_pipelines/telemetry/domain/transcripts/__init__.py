"""Transcripts of agent programs: their places and readers."""

from collections.abc import Callable
from dataclasses import dataclass

from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.transcripts.claude_code import (
    ClaudeCodeTranscript,
    claude_code_session,
)
from evaluation_pipelines.telemetry.domain.transcripts.codex import CodexTranscript
from evaluation_pipelines.telemetry.domain.transcripts.copilot_cli import (
    CopilotTranscript,
)
from evaluation_pipelines.telemetry.domain.transcripts.gemini_family import (
    GeminiTranscript,
    QwenTranscript,
)
from evaluation_pipelines.telemetry.domain.transcripts.opencode import OpenCodeTranscript
from evaluation_pipelines.telemetry.domain.transcripts.transcript import (
    OF_FIRST_LINE,
    TRANSCRIPT,
    LineKind,
    Transcript,
    TranscriptHead,
    transcript_dialect,
)

__all__ = [
    "OF_FIRST_LINE",
    "PROGRAMS",
    "TRANSCRIPT",
    "TRANSCRIPT_DIALECTS",
    "LineKind",
    "Transcript",
    "TranscriptHead",
    "TranscriptProgram",
]


@dataclass(frozen=True, slots=True)
class TranscriptProgram:
    """An agent program that keeps transcripts.

    Attributes:
        reader: Makes records of a file.
        variable: Environment variable with the folder of the program.
        home: That folder without the variable, in the home folder.
        patterns: Files of the folder, as ``fnmatch`` takes them. ``*`` matches slashes, too,
            if the first one follows a slash.
        top: Number of folders between that folder and those with all files of a session.
        session_of: Returns the session of a path, None if only the lines name it.
        has_store: Its files are a store of sessions, see ``opencode_store``. Its reader knows by
            its context what it has read.
    """

    reader: type[Transcript]
    variable: str
    home: str
    patterns: tuple[str, ...]
    top: int = 0
    session_of: Callable[[str], str | None] = lambda path: None  # noqa: ARG005
    has_store: bool = False

    @property
    def source_cli(self) -> str:
        """Name of the program in the column ``source_cli``."""
        return self.reader.program


PROGRAMS = (
    TranscriptProgram(
        reader=ClaudeCodeTranscript,
        session_of=claude_code_session,
        variable="CLAUDE_CONFIG_DIR",
        home=".claude",
        patterns=("projects/*.jsonl",),
        top=2,
    ),
    TranscriptProgram(
        reader=CodexTranscript,
        variable="CODEX_HOME",
        home=".codex",
        patterns=("sessions/*rollout-*.jsonl", "archived_sessions/*rollout-*.jsonl"),
        top=4,
    ),
    TranscriptProgram(
        reader=GeminiTranscript,
        variable="GEMINI_CLI_HOME",
        home=".gemini",
        patterns=("tmp/*/chats/*.jsonl", "tmp/*/chats/*.json"),
        top=3,
    ),
    TranscriptProgram(
        reader=QwenTranscript,
        variable="QWEN_HOME",
        home=".qwen",
        patterns=("projects/*/chats/*.jsonl",),
        top=3,
    ),
    TranscriptProgram(
        reader=CopilotTranscript,
        variable="COPILOT_HOME",
        home=".copilot",
        patterns=("session-state/*/events.jsonl",),
        top=2,
    ),
    TranscriptProgram(
        reader=OpenCodeTranscript,
        variable="XDG_DATA_HOME",
        home=".local/share",
        patterns=("opencode/opencode*.db", "opencode/storage/session/*.json"),
        has_store=True,
    ),
)

TRANSCRIPT_DIALECTS: tuple[Dialect, ...] = tuple(
    transcript_dialect(program.source_cli) for program in PROGRAMS
)
