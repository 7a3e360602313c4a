"""OTLP log requests as JSON: typed decoding of one line, and selection of its records.

Both encodings are read: that of the SDKs (integers as numbers) and that of the collector (64-bit
integers as strings, empty fields omitted). A line with a sound envelope and a broken record yields
the good records and a defect for each broken one.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from evaluation_pipelines.telemetry.domain.attributes import KeyValue


class LogRecord(msgspec.Struct, gc=False, rename="camel"):
    """One log record. Times are nanoseconds as sent: a number, a decimal string, or absent.

    ``body`` is an AnyValue as a dictionary, or whatever was sent instead.
    """

    attributes: list[KeyValue] | None = None
    body: Any = None
    time_unix_nano: Any = None
    observed_time_unix_nano: Any = None
    event_name: Any = None


class Scope(msgspec.Struct, gc=False):
    """Instrumentation scope: the library that wrote the records."""

    name: str | None = None
    version: str | None = None


class ScopeLogs(msgspec.Struct, gc=False, rename="camel"):
    """Records of one scope."""

    log_records: list[LogRecord] | None = None
    scope: Scope | None = None


class Resource(msgspec.Struct, gc=False):
    """Resource: attributes of the process."""

    attributes: list[KeyValue] | None = None


class ResourceLogs(msgspec.Struct, gc=False, rename="camel"):
    """Scopes of one resource.

    ``first_record`` is the index of its first record in the line if records before it are missing
    because they were broken.
    """

    scope_logs: list[ScopeLogs] | None = None
    resource: Resource | None = None
    first_record: int | None = msgspec.field(default=None, name="(place)")  # never sent


class Line(msgspec.Struct, gc=False):
    """One line of a landing file: an OTLP request of any signal, or an attribution line."""

    resource_logs: list[ResourceLogs] | None = msgspec.field(default=None, name="resourceLogs")
    resource_metrics: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="resourceMetrics"
    )
    resource_spans: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="resourceSpans"
    )
    session_id: Any = None
    masque: Any = None
    donned_at: Any = None
    doffed_at: Any = None

    @property
    def other_signals(self) -> int:
        """Number of keys of metrics and traces in the line."""
        signals = (self.resource_metrics, self.resource_spans)
        return sum(signal is not msgspec.UNSET for signal in signals)


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a line, or one record of it (``record_index``), could not be read."""

    reason: str
    record_index: int | None = None


class MalformedLineError(ValueError):
    """The whole line cannot be read."""


_DECODER = msgspec.json.Decoder(Line)


def decode_line(line: bytes) -> tuple[list[Line], list[Defect]]:
    """Decode one line (or one whole document) of JSON.

    Args:
        line: Bytes without the final newline.

    Returns:
        Its requests (several for an array) and a defect for each broken record.

    Raises:
        MalformedLineError: The line is not UTF-8, not JSON, or not an object or array of objects.
    """
    try:
        return [_DECODER.decode(line)], []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(line)


def is_complete_json(text: bytes) -> bool:
    """Return True if ``text`` is a complete JSON object or array.

    A proper prefix of one is never complete.
    """
    try:
        msgspec.json.decode(text, type=dict | list)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def is_truncated_json(text: bytes) -> bool:
    """Return True if ``text`` is the beginning of an incomplete JSON document."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return "truncated" in str(error)
    except RecursionError:
        return False
    return False


def _decode_leniently(line: bytes) -> tuple[list[Line], list[Defect]]:
    """Decode what the typed decoder rejects, keeping every good record."""
    requests = parse_leniently(line)
    defects: list[Defect] = []
    indices = count()
    return [_convert(request, indices, defects) for request in requests], defects


def parse_leniently(line: bytes) -> list[dict[str, Any]]:
    """Return the objects of a line: one, or those of an array.

    The standard library also reads NaN, numbers out of range and unpaired surrogates, which
    JavaScript leaves when it truncates a text; surrogates become question marks.

    Raises:
        MalformedLineError: The line is not UTF-8, not JSON, or not an object or array of objects.
    """
    try:
        document = json.loads(line.decode("utf-8"))
        text = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        document = json.loads(text)
    except UnicodeDecodeError as error:
        raise MalformedLineError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise MalformedLineError("nested too deeply") from error
    except ValueError as error:
        raise MalformedLineError(f"not JSON: {error}") from error
    requests = document if isinstance(document, list) else [document]
    if not all(isinstance(request, dict) for request in requests):
        raise MalformedLineError("not an OTLP request: expected a JSON object")
    return requests


def _convert(request: dict[str, Any], indices: Iterator[int], defects: list[Defect]) -> Line:
    kept: list[ResourceLogs] = []
    # `indices` comes last: `zip` stops at the end of the records before it takes an index.
    for (resource, scope, record), index in zip(records_of(request), indices, strict=False):
        logs = {"scope": scope, "logRecords": [record]}
        try:
            one = msgspec.convert({"resource": resource, "scopeLogs": [logs]}, ResourceLogs)
            one.first_record = index
            kept.append(one)
        except msgspec.ValidationError as error:
            defects.append(Defect(f"not an OTLP log record: {error}", index))
    present = msgspec.Raw(b"null")
    return Line(
        resource_logs=kept if "resourceLogs" in request else None,
        resource_metrics=present if "resourceMetrics" in request else msgspec.UNSET,
        resource_spans=present if "resourceSpans" in request else msgspec.UNSET,
        session_id=request.get("session_id"),
        masque=request.get("masque"),
        donned_at=request.get("donned_at"),
        doffed_at=request.get("doffed_at"),
    )


def records_of(request: dict[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield resource, scope and log record as sent, in the order of the line."""
    for resource_logs in _children(request, "resourceLogs"):
        resource = resource_logs.get("resource") if isinstance(resource_logs, dict) else None
        for scope_logs in _children(resource_logs, "scopeLogs"):
            scope = scope_logs.get("scope") if isinstance(scope_logs, dict) else None
            for record in _children(scope_logs, "logRecords"):
                yield resource, scope, record


def _children(parent: Any, key: str) -> list[Any]:
    """Return the list under ``key``; any other value becomes one (broken) child."""
    if not isinstance(parent, dict):
        return [parent]
    child = parent.get(key)
    if child is None:
        return []
    return child if isinstance(child, list) else [child]


def select_records(line: bytes, indices: Collection[int]) -> bytes:
    """Return an OTLP request with the records at some indices of a line, counted from 0.

    Each record keeps its resource and scope; everything else is omitted.

    Raises:
        MalformedLineError: The line cannot be read, or has no record at one of the indices.
    """
    records = [found for request in parse_leniently(line) for found in records_of(request)]
    if missing := [index for index in indices if index >= len(records)]:
        raise MalformedLineError(f"has no record {missing[0]}, only {len(records)}")
    chosen = [_single_record(*records[index]) for index in sorted(indices)]
    return json.dumps({"resourceLogs": chosen}).encode()


def _single_record(resource: Any, scope: Any, record: Any) -> dict[str, Any]:
    return {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": [record]}]}
