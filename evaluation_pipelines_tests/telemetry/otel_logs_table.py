"""The table of the collector's ClickHouse exporter, filled with telemetry as it fills it."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from evaluation_pipelines.storage.clickhouse import ClickHouse
from evaluation_pipelines.telemetry.domain.otlp import LogRecord, decode_line

CREATE = """
create table {name} (
    Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    TimestampTime DateTime DEFAULT toDateTime(Timestamp),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    TraceFlags UInt8,
    SeverityText LowCardinality(String) CODEC(ZSTD(1)),
    SeverityNumber UInt8,
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    Body String CODEC(ZSTD(1)),
    ResourceSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion LowCardinality(String) CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    LogAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    EventName String CODEC(ZSTD(1)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_log_attr_key mapKeys(LogAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_body Body TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 8
) engine = MergeTree
partition by toDate(TimestampTime)
primary key (ServiceName, TimestampTime)
order by (ServiceName, TimestampTime, Timestamp)
settings index_granularity = 8192, ttl_only_drop_parts = 1
"""
"""As the exporter creates it, without some of its indexes."""

_MAP = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    [
        ("Timestamp", pa.timestamp("ns", "UTC")),
        *((name, pa.string()) for name in ("TraceId", "SpanId", "ServiceName", "Body")),
        ("ResourceAttributes", _MAP),
        *((name, pa.string()) for name in ("ScopeName", "ScopeVersion")),
        ("LogAttributes", _MAP),
        ("EventName", pa.string()),
    ]
)


def create(clickhouse: ClickHouse, name: str = "otel_logs") -> None:
    clickhouse.run(CREATE.format(name=name))


def export(clickhouse: ClickHouse, lines: Iterable[bytes], name: str = "otel_logs") -> int:
    """Insert the log records of OTLP lines as the exporter does; return how many."""
    rows = [row for line in lines for row in exported_rows(line)]
    clickhouse.insert_arrow(name, pa.Table.from_pylist(rows, schema=_SCHEMA))
    return len(rows)


def exported_rows(line: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows of one OTLP request; a record without a time has its observed time."""
    requests, defects = decode_line(line)
    assert not defects
    for resource_logs in (log for one in requests for log in one.resource_logs or ()):
        resource = resource_logs.resource
        of_resource = _texts(resource and resource.attributes)
        for scope_logs in resource_logs.scope_logs or ():
            scope = scope_logs.scope
            for record in scope_logs.log_records or ():
                yield {
                    "Timestamp": _time_ns(record),
                    "TraceId": "",
                    "SpanId": "",
                    "ServiceName": dict(of_resource).get("service.name", ""),
                    "Body": _text(_body(record.body)),
                    "ResourceAttributes": of_resource,
                    "ScopeName": (scope and scope.name) or "",
                    "ScopeVersion": (scope and scope.version) or "",
                    "LogAttributes": _texts(record.attributes),
                    "EventName": record.event_name or "",
                }


def _time_ns(record: LogRecord) -> int:
    return int(record.time_unix_nano or 0) or int(record.observed_time_unix_nano or 0)


def _body(body: Any) -> dict[str, Any]:
    return body if isinstance(body, dict) else {}


def _texts(pairs: Any) -> list[tuple[str, str]]:
    """Return attributes as the exporter writes them; its maps are not sorted by name."""
    found = [(pair.key, _text(_sent(pair.value))) for pair in pairs or ()]
    return found[::-1]


def _sent(value: Any) -> dict[str, Any]:
    """Return the one field of a value that is set."""
    named = {_camel(name): getattr(value, name) for name in value.__struct_fields__}
    return {name: inner for name, inner in named.items() if inner is not None}


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def _text(value: Mapping[str, Any]) -> str:
    """Return the text of a value as the collector's ``AsString`` does."""
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, str):
        return plain
    if isinstance(plain, float):
        return str(int(plain)) if plain.is_integer() and abs(plain) < 1e21 else repr(plain)
    return json.dumps(plain, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _plain(value: Mapping[str, Any]) -> Any:
    kind: str
    inner: Any
    kind, inner = next(iter(value.items()), ("", None))
    match kind:
        case "intValue":
            return int(inner)
        case "doubleValue":
            return float(inner)
        case "bytesValue":
            return base64.b64encode(base64.b64decode(inner)).decode()
        case "arrayValue":
            return [_plain(value) for value in inner.get("values") or ()]
        case "kvlistValue":
            return {value["key"]: _plain(value["value"]) for value in inner.get("values") or ()}
    return inner
