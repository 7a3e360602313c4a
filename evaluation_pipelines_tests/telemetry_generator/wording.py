"""How an agent words what happens in a session: log records as it sends them.

Each method gives the log records of one thing that happened. Durations are in milliseconds.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines_tests.telemetry_generator.otlp import iso_time

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one API call; ``input_tokens`` does not count cached ones."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    thought_tokens: int


class Wording(ABC):
    """One agent program, one session."""

    source_cli: str
    scope: str
    service: str
    model: str
    session_key = "session.id"
    person: tuple[str, str] | None = None
    """Attribute and value that tell who runs it."""
    team: str | None = None

    can_refuse = True
    counts_thoughts_as_output = True
    logs_results = False
    """Results of calls and replies are logged: it is known which calls were wasted."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    def begin(self, _time_ms: int) -> list[Record]:
        """The session begins; most programs do not say so."""
        return []

    @abstractmethod
    def prompt(self, time_ms: int) -> list[Record]:
        """The user asks for something; the text is not logged."""

    @abstractmethod
    def answer(self, time_ms: int, tokens: Tokens) -> list[Record]:
        """The model answers."""

    @abstractmethod
    def call(self, time_ms: int, number: int, duration_ms: int, *, fails: bool) -> list[Record]:
        """A shell command comes back; one that fails exits with 2."""

    def reply(self, _time_ms: int, _used: list[int]) -> list[Record]:
        """The agent answers the prompt, by the results of some calls; most log no text of it."""
        return []

    def refuse(self, _time_ms: int, _number: int) -> list[Record]:
        """The user refuses a call."""
        return []

    def _record(self, name: str, time_ms: int, **values: object) -> Record:
        """``__`` in a key stands for a dot."""
        named = {key.replace("__", "."): value for key, value in values.items()}
        sent = {
            self.session_key: self.session_id,
            "event.name": name,
            "event.timestamp": iso_time(time_ms),
            **named,
        }
        return {
            "timeUnixNano": f"{time_ms}000000",
            "observedTimeUnixNano": f"{time_ms}000000",
            "body": {"stringValue": f"{name} of a made-up session."},
            "attributes": self._attributes(sent),
        }

    def _attributes(self, values: dict[str, Any]) -> list[Record]:
        return [{"key": key, "value": _value(value)} for key, value in values.items()]


def as_line(wording: Wording, records: list[Record]) -> bytes:
    """A request with the records of one session."""
    named = {"service.name": wording.service}
    named |= dict([wording.person]) if wording.person else {}
    named |= {"team.id": wording.team} if wording.team else {}
    resource = {
        "attributes": [{"key": key, "value": _value(value)} for key, value in named.items()]
    }
    is_span = "spanId" in records[0]
    signal, kind = ("Spans", "spans") if is_span else ("Logs", "logRecords")
    inner = {"scope": {"name": wording.scope}, kind: records}
    request = {f"resource{signal}": [{"resource": resource, f"scope{signal}": [inner]}]}
    return json.dumps(request, separators=(",", ":")).encode()


def _value(value: object) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": str(value)}
