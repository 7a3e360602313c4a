"""Sessions in a row each, told in the telemetry that an agent sends.

The pipeline reads them as it reads genuine telemetry.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

SESSION = "11111111-2222-4333-8444-555555555555"
NOON_NS = 1_780_315_200_000_000_000
"""2026-06-01T12:00:00Z in nanoseconds since 1970 (20 605.5 days * 86 400 s)."""


def any_value(value: object) -> dict[str, Any]:
    """An OTLP AnyValue as a collector writes it: integers as strings."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    return {"stringValue": str(value)}


def attributes(values: Mapping[str, object]) -> list[dict[str, Any]]:
    """A list of OTLP attributes."""
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def claude(name: str, second: float = 0, **values: object) -> dict[str, Any]:
    """A Claude Code log record ``second`` seconds after noon; ``__`` in a key stands for a dot."""
    time = str(NOON_NS + round(second * 1000) * 1_000_000)
    named = {key.replace("__", "."): value for key, value in values.items() if value is not None}
    sent = {"session.id": SESSION, "event.name": name, **named}
    return {
        "timeUnixNano": time,
        "observedTimeUnixNano": time,
        "body": {"stringValue": f"claude_code.{name}"},
        "attributes": attributes({k: v for k, v in sent.items() if v != ""}),
    }


def request(
    records: Sequence[Mapping[str, Any]],
    resource: Mapping[str, object] | None = None,
    scope: str = "com.anthropic.claude_code.events",
) -> dict[str, Any]:
    """One export request."""
    given = {"service.name": "claude-code", **(resource or {})}
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": attributes(given)},
                "scopeLogs": [{"scope": {"name": scope}, "logRecords": list(records)}],
            }
        ]
    }


def line(*records: Mapping[str, Any], **resource: object) -> bytes:
    """One line of a landing file, with its newline; ``__`` in a key stands for a dot."""
    named = {key.replace("__", "."): value for key, value in resource.items()}
    return json.dumps(request(records, named)).encode() + b"\n"


DAY_S = 86_400


def session(
    name: str,
    second: float = 0,
    *,
    calls: Sequence[str] = ("Read",),
    prompt: str | None = None,
    request: Mapping[str, object] | None = None,
    call: Mapping[str, object] | None = None,
    every_s: float = 1,
    **resource: object,
) -> bytes:
    """One line: a session of a prompt and tool calls, ``every_s`` seconds apart.

    Args:
        name: Its id.
        second: Of the prompt, after noon.
        calls: Names of tools; the call of one that ends in ``!`` fails.
        prompt: Text of the prompt.
        request: Attributes of an answered request after the calls.
        call: More attributes of each call.
        every_s: Seconds between two records.
        resource: Attributes of the resource; ``__`` stands for a dot.
    """
    records = [claude("user_prompt", second, session__id=name, prompt=prompt)]
    for number, tool in enumerate(calls, 1):
        outcome = {"tool_name": tool.removesuffix("!"), "success": str(tool[-1:] != "!").lower()}
        sent = {"session__id": name, **outcome, **(call or {})}
        records.append(claude("tool_result", second + number * every_s, **sent))
    if request is not None:
        last = second + (len(calls) + 1) * every_s
        records.append(claude("api_request", last, **({"session__id": name} | dict(request))))
    return line(*records, **resource)
