"""Telemetry without the records of what was forgotten: OTLP as JSON, of any signal."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from evaluation_pipelines import times
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, names_forgotten
from evaluation_pipelines.telemetry.domain.joined import pieces_of
from evaluation_pipelines.telemetry.domain.organizations import NO_ORGANIZATION

_LONGEST_ID = 512
_MOST_REMEMBERED = 100_000
_RESOURCES = tuple(
    name
    for signal in ("Logs", "Spans", "Metrics")
    for name in (f"resource{signal}", f"resource_{signal.lower()}")
)
_TIMES = ("timeUnixNano", "time_unix_nano", "startTimeUnixNano", "start_time_unix_nano")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pruner:
    """Takes records out; ``organization`` is the one of the file, if its path names one."""

    forgotten: Forgotten
    organization: str | None = None
    _others: set[tuple[str, str]] = field(default_factory=set, init=False, repr=False)
    """Organization and text that are neither: hashes take most of the time."""

    def line(self, text: bytes) -> bytes | None:
        """Return a line or document without what was forgotten; None if nothing of it is left.

        A line that has nothing of it is returned as it is. What is not JSON is taken out if it
        names anything that was forgotten.
        """
        try:
            return self._json(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pieces = [piece for _, piece in pieces_of(text)]
        kept = [self._piece(piece) for piece in pieces]
        if kept == pieces:
            return text
        return b"\n".join(piece for piece in kept if piece is not None) or None

    def _piece(self, text: bytes) -> bytes | None:
        """Return a document of a line, or what is broken in it, pruned by itself."""
        try:
            return self._json(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            named = names_forgotten(text.decode(errors="replace"), self.forgotten)
            return None if named else text

    def _json(self, text: bytes) -> bytes | None:
        document = msgspec.json.decode(text)
        kept = self._document(document)
        if kept is document:
            return text
        return None if kept is None else msgspec.json.encode(kept)

    def _document(self, document: Any) -> Any:
        """Return the same object if nothing of it is taken out; None if nothing is left."""
        if isinstance(document, list):
            return _kept_list(document, [self._document(each) for each in document])
        names = [name for name in _RESOURCES if _is_list(document, name)]
        if not names:
            return None if self.is_gone(document) else document
        lists = {
            name: _kept_list(document[name], [self._resource(each) for each in document[name]])
            for name in names
        }
        return _with_lists(document, lists)

    def _resource(self, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        resource = entry.get("resource")
        lists = {
            name: _kept_list(value, [self._scope(each, resource) for each in value])
            for name, value in entry.items()
            if name != "resource" and isinstance(value, list)
        }
        return _with_lists(entry, lists)

    def _scope(self, scope: Any, resource: Any) -> Any:
        if not isinstance(scope, dict):
            return scope
        lists = {
            name: [each for each in value if not self.is_gone(each, resource)]
            for name, value in scope.items()
            if name != "scope" and isinstance(value, list)
        }
        return _with_lists(scope, lists)

    def is_gone(self, record: Any, resource: Any = None) -> bool:
        """Return True if a record, or its resource, has a value of what was forgotten."""
        time = _time_of(record)
        organization = (
            self.organization or _organization(record) or _organization(resource)
        ) or NO_ORGANIZATION
        return self.forgotten.has_organization(organization, time) or any(
            self._names(organization, value, time)
            for value in {*_strings(record), *_strings(resource)}
            if len(value) <= _LONGEST_ID
        )

    def _names(self, organization: str, value: str, time: datetime | None) -> bool:
        """Return True if a text is a forgotten session or id."""
        if (organization, value) in self._others:
            return False
        if self.forgotten.has_session(organization, value) or self.forgotten.has_session(
            None, value
        ):
            return True
        if self.forgotten.has_id(value):
            return self.forgotten.has_id(value, time)
        if len(self._others) >= _MOST_REMEMBERED:
            self._others.clear()
        self._others.add((organization, value))
        return False


def _kept_list(before: list[Any], after: list[Any]) -> list[Any]:
    """Return what is left of a list; the same list if all of it is."""
    is_same = all(old is new for old, new in zip(before, after, strict=True))
    return before if is_same else [each for each in after if each is not None]


def _with_lists(before: dict[str, Any], lists: dict[str, list[Any]]) -> Any:
    """Return an object with other lists; None if records were taken out and none is left."""
    if all(before[name] == value for name, value in lists.items()):
        return before
    return {**before, **lists} if any(lists.values()) else None


def _is_list(document: Any, name: str) -> bool:
    return isinstance(document, dict) and isinstance(document.get(name), list)


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
    """Return the value of the attribute ``organization.id``, wherever it is."""
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
