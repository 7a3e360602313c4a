"""Rows of the table ``otel_logs`` as lines of OTLP JSON.

The ClickHouse exporter of the OpenTelemetry Collector writes all attributes as texts: numbers and
booleans as they are spelled, arrays and key-value lists as JSON. They stay texts here: a dialect
knows which column an attribute is for, and converts what a text spells. A record without a time
has its observed time in ``Timestamp``. Other exporters write arrays and key-value lists as OTLP
encodes them, and these are decoded.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from evaluation_pipelines.telemetry.domain.attributes import AnyValue
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS

HASH_BYTES = 16

_UNTIMED = tuple(each.name_prefix for each in DIALECTS if not each.sends_time)
"""Beginnings of the names of records that have no time of their own."""

_LIST = '{"values":['
_KINDS = {field.encode_name for field in msgspec.structs.fields(AnyValue)}

_encode = msgspec.json.Encoder().encode


class _List(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An array or key-value list as OTLP encodes it in JSON."""

    values: list[dict[str, Any]]


class OtelLogRow(msgspec.Struct, gc=False):
    """One row. ``time_ns`` orders it; ``sent_ns`` is its Timestamp, 0 if it has none.

    Attributes are pairs of name and text.
    """

    time_ns: int
    sent_ns: int
    trace_id: str
    span_id: str
    severity_text: str
    body: str
    scope_name: str
    scope_version: str
    event_name: str
    resource: list[tuple[str, str]]
    attributes: list[tuple[str, str]]


def otlp_line(row: OtelLogRow) -> bytes:
    """Return a row as one line; attributes are sorted by name, which the exporter does not do."""
    is_untimed = dict(row.attributes).get("event.name", "").startswith(_UNTIMED)
    time = "observedTimeUnixNano" if is_untimed else "timeUnixNano"
    record: dict[str, Any] = {time: str(max(row.sent_ns, 0))}
    texts = {
        "severityText": row.severity_text,
        "eventName": row.event_name,
        "traceId": row.trace_id,
        "spanId": row.span_id,
    }
    record |= {name: value for name, value in texts.items() if value}
    if row.body:
        record["body"] = _value(row.body)
    record["attributes"] = _pairs(row.attributes)
    scope = {"name": row.scope_name, "version": row.scope_version}
    resource_logs = {
        "resource": {"attributes": _pairs(row.resource)},
        "scopeLogs": [
            {
                "scope": {name: value for name, value in scope.items() if value},
                "logRecords": [record],
            }
        ],
    }
    return _encode({"resourceLogs": [resource_logs]}) + b"\n"


def row_hash(line: bytes) -> bytes:
    """Return the identity of a row: a row that is met again has the same line."""
    return hashlib.blake2b(line, digest_size=HASH_BYTES).digest()


def _pairs(attributes: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    ordered = sorted(attributes, key=lambda pair: pair[0])
    return [{"key": key, "value": _value(text)} for key, text in ordered]


def _value(text: str) -> dict[str, Any]:
    """Return a text, or the array or key-value list that it encodes, as OTLP's JSON."""
    if text.startswith(_LIST):
        try:
            sent = msgspec.json.decode(text, type=_List)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            if all("key" in each for each in sent.values) and sent.values:
                return {"kvlistValue": {"values": sent.values}}
            if all(each.keys() <= _KINDS for each in sent.values):
                return {"arrayValue": {"values": sent.values}}
    return {"stringValue": text}
