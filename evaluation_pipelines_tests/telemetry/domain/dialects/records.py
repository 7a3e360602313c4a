"""Builders of synthetic records that are recognized by their scope."""

import json
from typing import Any

from evaluation_pipelines_tests.world import NOON_NS, SESSION, attributes, request


def record(name: str | None, body: str = "It happened.", **values: object) -> dict[str, Any]:
    """Return a log record at noon; ``__`` in a key is a dot, an attribute of None is omitted."""
    named = {key.replace("__", "."): value for key, value in values.items()}
    sent = {"session.id": SESSION, "event.name": name, **named}
    return {
        "timeUnixNano": str(NOON_NS),
        "observedTimeUnixNano": str(NOON_NS),
        "body": {"stringValue": body},
        "attributes": attributes({k: v for k, v in sent.items() if v is not None}),
    }


def sent_by(scope: str, *records: dict[str, Any], **resource: object) -> bytes:
    """Return one line with records of a scope."""
    named = {key.replace("__", "."): value for key, value in resource.items()}
    return json.dumps(request(records, named, scope)).encode() + b"\n"
