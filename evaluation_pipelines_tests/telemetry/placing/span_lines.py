"""Requests of spans as an agent program with the GenAI conventions sends them."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evaluation_pipelines_tests.world import any_value

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY_S = 86_400


@dataclass(frozen=True)
class SpanSent:
    """A span, with times in seconds after noon of the first day."""

    trace: str
    span: str
    parent: str | None
    operation: str
    start: float
    end: float
    session: str | None = None
    extra: tuple[tuple[str, Any], ...] = ()
    link: str | None = None

    def json(self) -> dict[str, Any]:
        """Return it as OTLP."""
        names = {"chat": "chat m", "execute_tool": "execute_tool Read"}
        attributes: dict[str, Any] = {"gen_ai.operation.name": self.operation, **dict(self.extra)}
        if self.session is not None:
            attributes["gen_ai.conversation.id"] = self.session
        if self.operation == "chat":
            used = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
            attributes |= {"gen_ai.request.model": "gpt-5.1", **used}
        if self.operation == "execute_tool":
            attributes |= {"gen_ai.tool.name": "Read", "gen_ai.tool.call.id": f"call-{self.span}"}
        sent: dict[str, Any] = {
            "traceId": hexadecimal(self.trace, 32),
            "spanId": hexadecimal(self.span, 16),
            "name": names.get(self.operation, self.operation),
            "startTimeUnixNano": nanoseconds(self.start),
            "endTimeUnixNano": nanoseconds(self.end),
            "attributes": [{"key": k, "value": any_value(v)} for k, v in attributes.items()],
        }
        if self.parent is not None:
            sent["parentSpanId"] = hexadecimal(self.parent, 16)
        if self.link is not None:
            sent["links"] = [{"traceId": hexadecimal(self.link, 32), "spanId": "ab" * 8}]
        return sent


def hexadecimal(name: str, length: int) -> str:
    """Return an id for a name."""
    return name.encode().hex().ljust(length, "0")


def trace_session(trace: str) -> str:
    """Return the session id of a trace that names none."""
    return f"trace:{hexadecimal(trace, 32)}"


def nanoseconds(second: float) -> str:
    """Return a time as sent."""
    return str(int(NOON.timestamp() * 10**9) + int(second * 10**9))


def line(*spans: SpanSent, resource: dict[str, Any] | None = None) -> bytes:
    """Return one export request."""
    attributes = {"service.name": "agent", **(resource or {})}
    entry = {
        "resource": {
            "attributes": [{"key": k, "value": any_value(v)} for k, v in attributes.items()]
        },
        "scopeSpans": [
            {"scope": {"name": "pydantic-ai"}, "spans": [span.json() for span in spans]}
        ],
    }
    return json.dumps({"resourceSpans": [entry]}).encode() + b"\n"


def turn(
    trace: str, start: float, session: str | None = None, *, named: str = "root"
) -> list[SpanSent]:
    """Return a turn: an agent, two requests and a tool. ``named`` has the session: root or all.

    The tool asks a sub-agent, whose spans have a session of their own.
    """
    inner = session if named == "all" else None
    own = f"sub-{trace}"
    return [
        SpanSent(trace, f"{trace}a", None, "invoke_agent", start, start + 60, session, _ASKED),
        SpanSent(trace, f"{trace}b", f"{trace}a", "chat", start + 1, start + 2, inner),
        SpanSent(trace, f"{trace}c", f"{trace}a", "execute_tool", start + 3, start + 40, inner),
        SpanSent(trace, f"{trace}d", f"{trace}c", "invoke_agent", start + 4, start + 39, own),
        SpanSent(trace, f"{trace}e", f"{trace}d", "chat", start + 5, start + 6, own),
        SpanSent(trace, f"{trace}f", f"{trace}a", "chat", start + 41, start + 42, inner),
    ]


_ASKED = (
    (
        "gen_ai.input.messages",
        json.dumps([{"role": "user", "parts": [{"type": "text", "content": "do it"}]}]),
    ),
)
