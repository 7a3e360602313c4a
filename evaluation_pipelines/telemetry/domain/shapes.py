"""Group records by shape.

An agent program writes few kinds of records with the same scope, name and attributes. Values that
depend on these are computed once per shape instead of once per record, and attributes are converted
column by column (see ``events.py``).
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
from evaluation_pipelines.telemetry.domain.columns import SHARED_COLUMNS, map_attributes
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row
from evaluation_pipelines.telemetry.domain.identity import content_id
from evaluation_pipelines.telemetry.domain.otlp import LogRecord, Resource

_IDENTITY = ("service_name", "service_version", "organization_id", "session_id")
_MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Origin:
    """Position of a line."""

    file_id: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Producer:
    """Process that sent a record: columns from its resource, and the other attributes.

    ``identity`` is a hash that distinguishes processes with equal records.
    """

    columns: Row
    rest: dict[str, Any]
    identity: bytes

    @classmethod
    def of(cls, resource: Resource | None) -> "Producer":
        """Map the attributes of a resource to columns."""
        values = read_attributes(resource.attributes if resource else None)
        found = map_attributes({key: [value] for key, value in values.items()}, SHARED_COLUMNS, 1)
        columns = {name: value for name, (value,) in found.columns.items() if value is not None}
        return cls(columns, found.rests[0], content_id(*map(columns.get, _IDENTITY)))


@dataclass(slots=True)
class Producers:
    """Producers of a batch, cached: most lines come from a known one."""

    _known: dict[tuple[str, ...], Producer] = field(default_factory=dict)

    def of(self, resource: Resource | None) -> Producer:
        """Return the producer of a resource."""
        pairs = (resource and resource.attributes) or ()
        values = plain_attributes(pairs)
        if not all(isinstance(value, str) for value in values):
            return Producer.of(resource)  # equal values of other types may differ (1 == 1.0)
        described = (*[pair.key for pair in pairs], *values)
        producer = self._known.get(described)
        if producer is None:
            producer = self._known[described] = Producer.of(resource)
        return producer


ShapeRecord = tuple[int, Producer, Origin, Any, Any, Any, list[Any]]
"""A record without the values of its shape: number in the batch, producer, origin, time and
observed time as sent, Python value of the body, and values of the attributes.
"""


@dataclass(slots=True)
class Shape:
    """Records of one scope and name whose attributes have the same keys in the same order.

    ``name`` is as sent; ``dialect`` is None for records that no dialect recognizes.
    """

    scope: str
    name: str
    dialect: Dialect | None
    keys: tuple[str, ...]
    records: list[ShapeRecord] = field(default_factory=list)

    @property
    def bare_name(self) -> str:
        """Name without the prefix of its dialect."""
        return self.name.removeprefix(self.dialect.name_prefix) if self.dialect else self.name


@dataclass(slots=True)
class _ShapesOfKeys:
    """Shapes whose attributes have the same keys; ``name_index`` is the index of the name."""

    keys: tuple[str, ...]
    name_index: int | None
    shapes: dict[tuple[str, str, str | None], Shape] = field(default_factory=dict)


@dataclass(slots=True)
class Shapes:
    """All shapes of the records of a batch."""

    dialects: Sequence[Dialect]
    _by_keys: dict[tuple[str, ...], _ShapesOfKeys] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Shape]:
        for same_keys in self._by_keys.values():
            yield from same_keys.shapes.values()

    def add(
        self, number: int, producer: Producer, origin: Origin, scope: str, record: LogRecord
    ) -> Shape:
        """Add a record to its shape, and return the shape."""
        pairs = record.attributes or ()
        keys = tuple([pair.key for pair in pairs])
        values = plain_attributes(pairs)
        same_keys = self._by_keys.get(keys)
        if same_keys is None:
            same_keys = self._by_keys[keys] = _ShapesOfKeys(keys, _last_index("event.name", keys))
        name = None if same_keys.name_index is None else values[same_keys.name_index]
        if name is None and record.event_name is not None:
            name = _convention_name(record.event_name)
        if not isinstance(name, str):
            name = None
        body = plain_value(record.body)
        # Event names are never sentences and never longer than this.
        is_word = isinstance(body, str) and len(body) <= _MAX_NAME_LENGTH and " " not in body
        word = body if is_word else ""
        shape = same_keys.shapes.get((scope, word, name))
        if shape is None:
            shape = self._shape(scope, word, name, keys)
            same_keys.shapes[scope, word, name] = shape
        times = record.time_unix_nano, record.observed_time_unix_nano
        shape.records.append((number, producer, origin, *times, body, values))
        return shape

    def _shape(self, scope: str, body: str, name: str | None, keys: tuple[str, ...]) -> Shape:
        """Return the event name as sent, otherwise the body if it is a single word."""
        word = text(body) or ""
        sent = text(name)
        event_name = sent[:_MAX_NAME_LENGTH] if sent else word
        dialect = next((d for d in self.dialects if d.recognizes(scope, event_name, word)), None)
        return Shape(scope, event_name, dialect, keys)


def _convention_name(event_name: Any) -> str | None:
    """Return a top-level ``eventName`` of the GenAI conventions, which send no other name.

    Others are ignored: Codex sends a source location in it.
    """
    is_convention = isinstance(event_name, str) and event_name.startswith("gen_ai.")
    return event_name if is_convention else None


def _last_index(name: str, keys: tuple[str, ...]) -> int | None:
    found = [index for index, key in enumerate(keys) if key == name]
    return found[-1] if found else None
