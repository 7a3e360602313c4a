"""What is known of an agent program: documents, doctor and ``agent-config`` iterate over it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.setup import Receiver, SettingsFile
from evaluation_pipelines.telemetry.domain.dialects.span_source import SpanSource
from evaluation_pipelines.telemetry.domain.dialects.transcript import Transcript


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AgentProgram:
    """One agent program.

    Attributes:
        title: Its name.
        versions: Versions whose telemetry was read.
        name: Its name for ``agent-config``; None if its settings are not known.
        logs: Rules for its log records; None if it sends none.
        spans: Rules for its spans; None if it sends none.
        transcripts: Reader of its transcripts; None if they are not read.
        settings: Returns the settings files that make it send telemetry to a receiver.
        prompts_switch: Setting that makes it send prompt text; None if there is no such setting.
        parameters_switch: The same for tool call parameters.
        transcript_hook: Returns the settings file that makes it send transcripts to a receiver.
        slash_command: Returns the file of its command that scores sessions, given the folder of
            telemetry as a word of a shell, or None if users have to name a file.
        set_by: Setting to switch its telemetry on, in Markdown.
        notes: Facts for its users, in Markdown.
        sends: Condition (``yes``, ``if logged``, ``priced``, ...; in parentheses if it was not seen
            in real telemetry) -> names ``<event>.<column>`` that are sent then. Others never are.
    """

    title: str
    versions: str = ""
    name: str | None = None
    logs: Dialect | None = None
    spans: SpanSource | None = None
    transcripts: type[Transcript] | None = None
    settings: Callable[[Receiver], list[SettingsFile]] | None = None
    prompts_switch: str | None = None
    parameters_switch: str | None = None
    transcript_hook: Callable[[Receiver], SettingsFile] | None = None
    slash_command: Callable[[str | None], SettingsFile] | None = None
    set_by: str = ""
    notes: str = ""
    sends: Mapping[str, str] | None = None
