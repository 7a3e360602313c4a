"""Records as the JavaScript SDK holds them, converted to OTLP.

Gemini CLI (``outfile``) and Copilot Chat (file exporter) write the objects of the SDK as JSON, one
after another: log records, spans and metrics in one file. Private fields differ between versions of
the SDK: ``body`` or ``_body``, attributes of a resource as an object or as pairs.
"""

from typing import Any

_NANOSECONDS = 10**9


def as_request(document: Any) -> dict[str, Any]:
    """Return a record of the SDK as an OTLP request; any other object as it is.

    Of a span or metrics only the signal is kept. What is no object becomes one broken record.
    """
    if not isinstance(document, dict):
        return {"resourceLogs": [document]}
    if "hrTime" in document:
        return {"resourceLogs": [_resource_logs(document)]}
    if "scopeMetrics" in document:
        return {"resourceMetrics": []}
    is_span = "startTime" in document and {"spanContext", "_spanContext", "kind"} & document.keys()
    return {"resourceSpans": []} if is_span else document


def time_of(document: Any) -> str | None:
    """Return the time of a log record of the SDK, as a text; None for anything else."""
    return str(document["hrTime"]) if isinstance(document, dict) and "hrTime" in document else None


def _resource_logs(record: dict[str, Any]) -> dict[str, Any]:
    resource, scope = _either(record, "resource"), _either(record, "instrumentationScope")
    fields = {
        "timeUnixNano": _nanoseconds(record["hrTime"]),
        "observedTimeUnixNano": _nanoseconds(record.get("hrTimeObserved")),
        "eventName": _either(record, "eventName"),
        "body": _value(_either(record, "body")),
        "attributes": _pairs(_either(record, "attributes")),
    }
    return {
        "resource": {"attributes": _pairs(_resource_attributes(resource))},
        "scopeLogs": [
            {
                "scope": {"name": scope.get("name")} if isinstance(scope, dict) else None,
                "logRecords": [fields],
            }
        ],
    }


def _either(parent: dict[str, Any], name: str) -> Any:
    """Return a field under its public or private name."""
    return parent.get(name, parent.get(f"_{name}"))


def _resource_attributes(resource: Any) -> Any:
    """Return the attributes of a resource; in a list of pairs the first of a name counts."""
    if not isinstance(resource, dict):
        return None
    pairs = resource.get("_rawAttributes")
    if not isinstance(pairs, list):
        return _either(resource, "attributes")
    named = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    return {str(name): value for name, value in reversed(named)}


def _nanoseconds(time: Any) -> Any:
    """Return ``[seconds, nanoseconds]`` as one number; what is none stays, and is counted."""
    is_pair = isinstance(time, list) and len(time) == 2 and all(type(n) is int for n in time)
    return str(time[0] * _NANOSECONDS + time[1]) if is_pair else time


def _pairs(attributes: Any) -> Any:
    if not isinstance(attributes, dict):
        return attributes
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    """Return a value as an AnyValue."""
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": value}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
        case dict():
            return {"kvlistValue": {"values": _pairs(value)}}
    return {"stringValue": value}
