"""Telemetry without the records of what was forgotten: OTLP of any signal, as JSON or protobuf."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from evaluation_pipelines import times
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, names_forgotten
from evaluation_pipelines.telemetry.domain.joined import pieces_of
from evaluation_pipelines.telemetry.domain.organizations import NO_ORGANIZATION
from evaluation_pipelines.telemetry.domain.subagents import TRACE

_LONGEST_ID = 512
_REMEMBERED = 100_000
_RESOURCES = tuple(
    name
    for signal in ("Logs", "Spans", "Metrics")
    for name in (f"resource{signal}", f"resource_{signal.lower()}")
)
_TIMES = ("timeUnixNano", "time_unix_nano", "startTimeUnixNano", "start_time_unix_nano")
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRACE_ID = re.compile("[0-9a-f]{32}")
_RECORD = 3
"""Depth of a record: request, resource, scope, record."""


class Pruner:
    """Takes records out; ``organization`` is the one of the file, if its path names one."""

    def __init__(self, forgotten: Forgotten, organization: str | None = None) -> None:
        self._forgotten, self._organization = forgotten, organization
        self._known = lru_cache(_REMEMBERED)(self._looked_up)  # hashes take most of the time

    def line(self, text: bytes) -> bytes | None:
        """Return a line or document without what was forgotten; None if nothing of it is left.

        A line that has nothing of it is returned as it is. What is not JSON is taken out if it
        names anything that was forgotten.
        """
        try:
            return self._json(text)
        except _NOT_JSON:
            pieces = [piece for _, piece in pieces_of(text)]
        kept = [self._piece(piece) for piece in pieces]
        if kept == pieces:
            return text
        return b"\n".join(piece for piece in kept if piece is not None) or None

    def _piece(self, text: bytes) -> bytes | None:
        """Return a document of a line, or what is broken in it, pruned by itself."""
        try:
            return self._json(text)
        except _NOT_JSON:
            is_named = names_forgotten(text.decode(errors="replace"), self._forgotten)
            return None if is_named else text

    def _json(self, text: bytes) -> bytes | None:
        document = msgspec.json.decode(text)
        kept = self._pruned(document, 0)
        if kept is document:
            return text
        return None if kept is None else msgspec.json.encode(kept)

    def _pruned(self, node: Any, depth: int, resource: Any = None) -> Any:
        """Return what is left of a request, resource, scope or record, or of a list of them.

        It is the same object if nothing was taken out, and None if nothing is left.
        """
        if isinstance(node, list):
            kept = [self._pruned(child, depth, resource) for child in node]
            is_same = all(old is new for old, new in zip(node, kept, strict=True))
            return node if is_same else [child for child in kept if child is not None]
        lists = _lists(node, depth)
        if depth == _RECORD or (depth == 0 and not lists):
            return None if self.is_gone(node, resource) else node
        inner = node.get("resource") if depth == 1 and lists else resource
        left = {name: self._pruned(value, depth + 1, inner) for name, value in lists.items()}
        if all(left[name] is value for name, value in lists.items()):
            return node
        return {**node, **left} if any(left.values()) else None

    def is_gone(self, record: Any, resource: Any = None) -> bool:
        """Return True if a record, or its resource, has a value of what was forgotten."""
        time = _time_of(record)
        organization = self._organization or _organization([resource, record]) or NO_ORGANIZATION
        return self._forgotten.has_organization(organization, time) or any(
            self._names(organization, value, time)
            for value in {*_strings(record), *_strings(resource)}
            if len(value) <= _LONGEST_ID
        )

    def _names(self, organization: str, value: str, time: datetime | None) -> bool:
        is_session, is_id = self._known(organization, value)
        return is_session or (is_id and self._forgotten.has_id(value, time))

    def _looked_up(self, organization: str, value: str) -> tuple[bool, bool]:
        """Return whether a text is a forgotten session, and whether it is a forgotten id."""
        has_session = self._forgotten.has_session
        names = (value, f"{TRACE}{value}") if _TRACE_ID.fullmatch(value) else (value,)
        is_session = any(has_session(of, name) for of in (organization, None) for name in names)
        return is_session, self._forgotten.has_id(value)

    def message(self, content: bytes) -> bytes | None:
        """Return a request in protobuf without what was forgotten; None if nothing of it is left.

        One that has nothing of it, or is no request, is returned as it is. Requests of all signals
        have their records at the same place, so the message of logs reads all; unknown fields stay.
        """
        # Slow to import, and most telemetry is JSON.
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        try:
            request = ExportLogsServiceRequest.FromString(content)
        except DecodeError:
            return content
        number = 0
        for entry in list(request.resource_logs):
            resource = MessageToDict(entry.resource)
            for scope in list(entry.scope_logs):
                records = scope.log_records
                gone = [
                    record
                    for record in records
                    if self.is_gone(_read_as_any_signal(record), resource)
                ]
                for record in gone:
                    records.remove(record)
                number += len(gone)
                if gone and not records:
                    entry.scope_logs.remove(scope)
            if not entry.scope_logs:
                request.resource_logs.remove(entry)
        if not number:
            return content
        return request.SerializeToString() if request.resource_logs else None


def _lists(node: Any, depth: int) -> dict[str, list[Any]]:
    """Return the lists of what is below a request, resource or scope."""
    if not isinstance(node, dict) or depth == _RECORD:
        return {}
    return {
        name: value
        for name, value in node.items()
        if isinstance(value, list)
        and (name in _RESOURCES if depth == 0 else name not in ("resource", "scope"))
    }


def _read_as_any_signal(record: Any) -> dict[str, Any]:
    """Return a record read as one of logs, with the same read as a span and as a metric."""
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    content, read = record.SerializeToString(), MessageToDict(record)
    for kind in (Span, Metric):
        with suppress(DecodeError):
            of_kind = kind.FromString(content)
            read[kind.__name__] = MessageToDict(of_kind)
            read[kind.__name__] |= {"id": of_kind.trace_id.hex()} if kind is Span else {}
    return dict(read)


def _strings(content: Any) -> Iterator[str]:
    """Yield all texts of a value, names of fields left out."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _organization(content: Any) -> str | None:
    """Return the value of the last attribute ``organization.id``, wherever it is."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("key") == "organization.id":
                return next(_strings(value.get("value")), None)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return None


def _time_of(record: Any) -> datetime | None:
    if not isinstance(record, dict):
        return None
    sent: Any = next((record[name] for name in _TIMES if record.get(name)), None)
    sent_us = times.from_nanoseconds(sent)
    return None if sent_us is None else _EPOCH + timedelta(microseconds=sent_us)
