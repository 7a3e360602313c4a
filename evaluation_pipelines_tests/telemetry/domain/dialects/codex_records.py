"""Codex log records as they are sent, and the events they become."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from evaluation_pipelines_tests.telemetry.domain.reading import read_one
from evaluation_pipelines_tests.world import attributes, request

SESSION = "01a1fff0-ebc1-77e3-9175-5bc0b19c74f5"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SCOPE = "codex_otel.log_only"


def codex(name: str, second: float = 0, **values: object) -> dict[str, Any]:
    """Return a log record ``second`` seconds after noon; ``__`` in a key is a dot."""
    named = {key.replace("__", "."): value for key, value in values.items() if value is not None}
    time = NOON + timedelta(seconds=second)
    sent = {
        "event.name": f"codex.{name}",
        "event.timestamp": f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z",
        "conversation.id": SESSION,
        "model": "gpt-5.5",
        **named,
    }
    return {
        "timeUnixNano": "0",
        "observedTimeUnixNano": "1780315200500000000",
        "severityNumber": 9,
        "eventName": "event otel/src/events/session_telemetry.rs:925",
        "attributes": attributes({k: v for k, v in sent.items() if v != ""}),
    }


def codex_line(*records: dict[str, Any], scope: str = SCOPE, **resource: object) -> bytes:
    named = {key.replace("__", "."): value for key, value in resource.items()}
    sent = {"service.name": "codex_exec", "service.version": "0.169.0", **named}
    return json.dumps(request(records, sent, scope)).encode() + b"\n"


def codex_event(name: str, **values: object) -> dict[str, Any]:
    return read_one(codex_line(codex(name, 0, **values)))
