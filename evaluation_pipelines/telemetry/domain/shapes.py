"""Records of the same shape, put side by side.

An agent program writes the same few kinds of records over and over: the same scope, name and
attributes. What follows from these alone is found out once for each shape and not for each record,
and what is done to an attribute is done to all its values at once, see ``events.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    plain_attributes,
    plain_value,
    read_attributes,
    text,
)
from evaluation_pipelines.telemetry.domain.columns import SHARED_COLUMNS, sort_attributes
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row
from evaluation_pipelines.telemetry.domain.identity import content_id
from evaluation_pipelines.telemetry.domain.otlp import LogRecord, Resource

_IDENTITY = ("service_name", "service_version", "organization_id", "session_id")
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line stands."""

    file_id: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Producer:
    """The process that sent a record: what its resource says in columns, and the rest.

    ``identity`` is a hash that tells processes apart whose records are equal.
    """

    columns: Row
    rest: dict[str, Any]
    identity: bytes

    @classmethod
    def of(cls, resource: Resource | None) -> "Producer":
        """Sort the attributes of a resource."""
        values = read_attributes(resource.attributes if resource else None)
        found = sort_attributes({key: [value] for key, value in values.items()}, SHARED_COLUMNS, 1)
        columns = {name: value for name, (value,) in found.columns.items() if value is not None}
        return cls(columns, found.rests[0], content_id(*map(columns.get, _IDENTITY)))


@dataclass(slots=True)
class Producers:
    """The producers of a batch: most lines come from one that was seen before."""

    _known: dict[tuple[str, ...], Producer] = field(default_factory=dict)

    def of(self, resource: Resource | None) -> Producer:
        """The producer that a resource describes."""
        pairs = (resource and resource.attributes) or ()
        values = plain_attributes(pairs)
        if not all(isinstance(value, str) for value in values):
            return Producer.of(resource)  # unlike texts, other values may be equal and not the same
        described = (*[pair.key for pair in pairs], *values)
        producer = self._known.get(described)
        if producer is None:
            producer = self._known[described] = Producer.of(resource)
        return producer


Sighting = tuple[int, Producer, Origin, Any, Any, Any, list[Any]]
"""A record without what its shape says: its number among the records of the batch, who sent it,
where it stands, time and observed time as sent, its plain body, and its attributes' plain values.
"""


@dataclass(slots=True)
class Shape:
    """Records of one scope and name whose attributes have the same keys in the same order.

    ``name`` is as sent; ``dialect`` is None for records of a program that is not understood.
    """

    scope: str
    name: str
    dialect: Dialect | None
    keys: tuple[str, ...]
    records: list[Sighting] = field(default_factory=list)

    @property
    def bare_name(self) -> str:
        """The name without the prefix of its dialect."""
        return self.name.removeprefix(self.dialect.name_prefix) if self.dialect else self.name


@dataclass(slots=True)
class _Namesakes:
    """Shapes whose attributes have the same keys; ``name_index`` is where the name stands."""

    keys: tuple[str, ...]
    name_index: int | None
    shapes: dict[tuple[str, str, str | None], Shape] = field(default_factory=dict)


@dataclass(slots=True)
class Shapes:
    """All shapes of the records of a batch."""

    dialects: Sequence[Dialect]
    _by_keys: dict[tuple[str, ...], _Namesakes] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Shape]:
        for namesakes in self._by_keys.values():
            yield from namesakes.shapes.values()

    def add(
        self, number: int, producer: Producer, origin: Origin, scope: str, record: LogRecord
    ) -> Shape:
        """Put a record to those of its shape; gives the shape."""
        pairs = record.attributes or ()
        keys = tuple([pair.key for pair in pairs])
        values = plain_attributes(pairs)
        namesakes = self._by_keys.get(keys)
        if namesakes is None:
            namesakes = self._by_keys[keys] = _Namesakes(keys, _last_index("event.name", keys))
        name = None if namesakes.name_index is None else values[namesakes.name_index]
        if name is None and record.event_name is not None:
            name = _convention_name(record.event_name)
        if not isinstance(name, str):
            name = None
        body = plain_value(record.body)
        # The name of an event is never a sentence, nor longer than this.
        is_word = isinstance(body, str) and len(body) <= _LONGEST_NAME and " " not in body
        word = body if is_word else ""
        shape = namesakes.shapes.get((scope, word, name))
        if shape is None:
            shape = self._shape(scope, word, name, keys)
            namesakes.shapes[scope, word, name] = shape
        times = record.time_unix_nano, record.observed_time_unix_nano
        shape.records.append((number, producer, origin, *times, body, values))
        return shape

    def _shape(self, scope: str, body: str, name: str | None, keys: tuple[str, ...]) -> Shape:
        """The name of an event is the one sent, else its body when it is a word."""
        word = text(body) or ""
        sent = text(name)
        told = sent[:_LONGEST_NAME] if sent else word
        dialect = next((d for d in self.dialects if d.recognises(scope, told, word)), None)
        return Shape(scope, told, dialect, keys)


def _convention_name(event_name: Any) -> str | None:
    """A top-level ``eventName`` of the GenAI conventions, whose instrumentations send no other.

    Any other means nothing: Codex writes a source location there.
    """
    is_told = isinstance(event_name, str) and event_name.startswith("gen_ai.")
    return event_name if is_told else None


def _last_index(wanted: str, keys: tuple[str, ...]) -> int | None:
    found = [index for index, key in enumerate(keys) if key == wanted]
    return found[-1] if found else None
