"""OTLP log requests as JSON: typed decoding of one line.

Both encodings that exist are read: the one of the SDKs (integers as numbers) and the one of a
collector (64-bit integers as strings, empty fields left out). A line whose envelope is sound but
that holds a broken record yields the good records and a defect for each broken one.
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

    ``body`` is an AnyValue as a dictionary, or what somebody sent instead.
    """

    attributes: list[KeyValue] | None = None
    body: Any = None
    time_unix_nano: Any = None
    observed_time_unix_nano: Any = None
    event_name: Any = None


class Scope(msgspec.Struct, gc=False):
    """The instrumentation scope: which library wrote the records."""

    name: str | None = None
    version: str | None = None


class ScopeLogs(msgspec.Struct, gc=False, rename="camel"):
    """The records of one scope."""

    log_records: list[LogRecord] | None = None
    scope: Scope | None = None


class Resource(msgspec.Struct, gc=False):
    """What the process says of itself."""

    attributes: list[KeyValue] | None = None


class ResourceLogs(msgspec.Struct, gc=False, rename="camel"):
    """The scopes of one resource.

    ``first_record`` is the place of its first record in the line, where records before it are
    missing because they were broken.
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
        """How many of the keys of metrics and traces the line has."""
        signals = (self.resource_metrics, self.resource_spans)
        return sum(signal is not msgspec.UNSET for signal in signals)


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a line, or one record of it (``record_index``), could not be read."""

    reason: str
    record_index: int | None = None


class MalformedLineError(ValueError):
    """The line as a whole cannot be read; the message says why."""


_DECODER = msgspec.json.Decoder(Line)


def decode_line(line: bytes) -> tuple[list[Line], list[Defect]]:
    """Decode one line (or one whole document) of JSON.

    Args:
        line: The bytes without the final newline.

    Returns:
        The requests in it (several when it is an array) and a defect for each broken record.

    Raises:
        MalformedLineError: It is not UTF-8, not JSON, or not an object or array of objects.
    """
    try:
        return [_DECODER.decode(line)], []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(line)


def is_complete_json(text: bytes) -> bool:
    """Whether ``text`` is one whole JSON object or array; no proper prefix of one is."""
    try:
        msgspec.json.decode(text, type=dict | list)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def is_cut_json(text: bytes) -> bool:
    """Whether ``text`` is the beginning of a JSON document whose end is still missing."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return "truncated" in str(error)
    except RecursionError:
        return False
    return False


def _decode_leniently(line: bytes) -> tuple[list[Line], list[Defect]]:
    """Decode what the typed decoder refuses, keeping every record that can be kept."""
    requests = parse_leniently(line)
    defects: list[Defect] = []
    places = count()
    return [_convert(request, places, defects) for request in requests], defects


def parse_leniently(line: bytes) -> list[dict[str, Any]]:
    """The objects of a line: one, or those of an array.

    The standard library also reads NaN, numbers out of range and the halves of surrogate pairs
    that JavaScript leaves when it cuts a text; the halves become question marks.

    Raises:
        MalformedLineError: It is not UTF-8, not JSON, or not an object or array of objects.
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


def _convert(request: dict[str, Any], places: Iterator[int], defects: list[Defect]) -> Line:
    kept: list[ResourceLogs] = []
    # The place is asked for last: `zip` takes one from each in turn.
    for (resource, scope, record), index in zip(records_of(request), places, strict=False):
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
    """Resource, scope and log record as sent, in the order of the line."""
    for resource_logs in _children(request, "resourceLogs"):
        resource = resource_logs.get("resource") if isinstance(resource_logs, dict) else None
        for scope_logs in _children(resource_logs, "scopeLogs"):
            scope = scope_logs.get("scope") if isinstance(scope_logs, dict) else None
            for record in _children(scope_logs, "logRecords"):
                yield resource, scope, record


def _children(parent: Any, key: str) -> list[Any]:
    """The list under ``key``; anything else there stands as one (broken) child of its own."""
    if not isinstance(parent, dict):
        return [parent]
    child = parent.get(key)
    if child is None:
        return []
    return child if isinstance(child, list) else [child]


def only_records(line: bytes, places: Collection[int]) -> bytes:
    """An OTLP request with those records of a line that stand at some places, counted from 0.

    Each keeps its resource and scope. Of everything else in the line there is nothing.

    Raises:
        MalformedLineError: The line as a whole cannot be read, or has no record at one of them.
    """
    records = [found for request in parse_leniently(line) for found in records_of(request)]
    if missing := [place for place in places if place >= len(records)]:
        raise MalformedLineError(f"holds no record {missing[0]}, only {len(records)}")
    chosen = [_alone(*records[place]) for place in sorted(places)]
    return json.dumps({"resourceLogs": chosen}).encode()


def _alone(resource: Any, scope: Any, record: Any) -> dict[str, Any]:
    return {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": [record]}]}
