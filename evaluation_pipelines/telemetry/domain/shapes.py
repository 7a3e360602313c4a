"""Group records by shape, and map their attributes to columns.

An agent program writes few kinds of records with the same scope, name and attributes (a shape).
Values that depend on these are computed once per shape instead of once per record, and attributes
are converted column by column (see ``events.py``). A table maps each attribute to a column and a
conversion. If several attributes map to one column, the first in the table counts, whatever their
order in the record, which a collector may change.

Counts of ingest: every line and every record is in exactly one of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from itertools import chain, repeat
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    BROKEN,
    AnyValue,
    Convert,
    KeyValue,
    convert_column,
    flag,
    json_text,
    plain_attributes,
    plain_value,
    read_attributes,
    text,
    text_or_url,
    without_credentials,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import (
    EVALUATED_SPAN,
    EVALUATED_TRACE,
    EVALUATION,
    Dialect,
    Row,
)
from evaluation_pipelines.telemetry.domain.otlp import LogRecord, Resource

ColumnTable = Mapping[str, tuple[str, Convert]]
"""Attribute -> column and conversion."""

_USER_ID = "user.id"
"""Column of ``user.id`` until it is known to be a user id or an anonymous hash."""

_ANONYMOUS_HASH = re.compile(r"[0-9a-f]{64}")

_NO_PARENT = frozenset({"undefined", "null", "None", "nil"})
"""What programs send as the text of a parent that they do not have."""


def _parent_id(value: Any) -> str | None:
    sent = text(value)
    return None if sent in _NO_PARENT else sent


SHARED_COLUMNS: dict[str, tuple[str, Convert]] = {
    "session.id": ("session_id", text),
    "conversation.id": ("session_id", text),
    "gen_ai.conversation.id": ("session_id", text),
    "parent.conversation.id": ("parent_session_id", _parent_id),
    "parent.session.id": ("parent_session_id", _parent_id),
    "session.parent_id": ("parent_session_id", _parent_id),
    "parent_session_id": ("parent_session_id", _parent_id),
    "is_subagent": ("is_subagent", flag),
    "organization.id": ("organization_id", text),
    "agent.id": ("agent_id", text),
    "masque.name": ("masque", text),
    "masque": ("masque", text),
    "enduser.id": ("user_id", text),
    "user.id": (_USER_ID, text),
    "user.email": ("user_email", text),
    "process.owner": ("host_user", text),
    "team.id": ("team_id", text),
    "vcs.repository.name": ("repository", without_credentials),
    "vcs.repository.url.full": ("repository", without_credentials),
    "repository": ("repository", without_credentials),
    "vcs.ref.head.name": ("branch", text),
    "branch": ("branch", text),
    "deployment.environment.name": ("environment", text),
    "deployment.environment": ("environment", text),
    "classification.label": ("classification_label", text),
    "service.name": ("service_name", text),
    "service.version": ("service_version", text),
}
"""Attributes with the same meaning for every program."""

READ_ELSEWHERE = ("event.name", "event.timestamp")


@dataclass(slots=True)
class MappedAttributes:
    """Attributes of some records, mapped to columns.

    Attributes:
        columns: Column -> values; None where a record has none, BROKEN where it is invalid.
        rests: For each record, the attributes without a column.
        broken: Number of BROKEN values.
    """

    columns: dict[str, Sequence[Any]]
    rests: list[dict[str, Any]]
    broken: int


def map_attributes(
    attributes: Mapping[str, Sequence[Any]], table: ColumnTable, count: int
) -> MappedAttributes:
    """Map attributes (name -> values of ``count`` records) to columns."""
    candidates: dict[str, dict[str, Sequence[Any]]] = {}
    rest: dict[str, Sequence[Any]] = {}
    broken = 0
    for key, values in attributes.items():
        target = table.get(key)
        if target is not None:
            column, convert = target
            converted = convert_column(values, convert)
            if convert is not text:
                broken += converted.count(BROKEN)
            candidates.setdefault(column, {})[key] = converted
        elif key not in READ_ELSEWHERE:
            rest[key] = values
    rests = rows_of(rest, count)
    columns: dict[str, Sequence[Any]] = {}
    for column, converted_by_key in candidates.items():
        if len(converted_by_key) == 1:
            (columns[column],) = converted_by_key.values()
        else:
            order = [key for key in table if key in converted_by_key]
            # Of several names of a repository, those left over may be URLs as well.
            sent = {**attributes, **converted_by_key} if column == "repository" else attributes
            columns[column] = _resolve(order, converted_by_key, sent, rests)
    _keep_hashes_apart(columns, count)
    return MappedAttributes(columns, rests, broken)


def _keep_hashes_apart(columns: dict[str, Sequence[Any]], count: int) -> None:
    """Use ``user.id`` as account if it is an anonymous hash, otherwise as user.

    Claude Code sends a hash of the installation on every record; OTEL_RESOURCE_ATTRIBUTES may give
    a user id under the same name.
    """
    sent = columns.pop(_USER_ID, None)
    if sent is None:
        return
    users = columns.get("user_id") or [None] * count
    accounts = columns.get("account_id") or [None] * count
    hashes = {name for name in set(sent) if name and _ANONYMOUS_HASH.fullmatch(name)}
    columns["account_id"] = [
        name if name in hashes else account for name, account in zip(sent, accounts, strict=True)
    ]
    columns["user_id"] = [
        user or (None if name in hashes else name) for user, name in zip(users, sent, strict=True)
    ]


def rows_of(columns: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    """Return ``count`` records as dictionaries from their values by name."""
    if not columns:
        return [{} for _ in range(count)]
    return list(map(dict, named_rows(columns)))


def named_rows(columns: Mapping[str, Sequence[Any]]) -> Iterator[Iterator[tuple[str, Any]]]:
    """Return the (name, value) pairs of each record from the values by name."""
    # `map` with keyword arguments takes half the time of building dictionaries in a loop.
    return map(zip, repeat(tuple(columns)), zip(*columns.values(), strict=True))


def _resolve(
    order: list[str],
    converted_by_key: Mapping[str, Sequence[Any]],
    attributes: Mapping[str, Sequence[Any]],
    rests: list[dict[str, Any]],
) -> list[Any]:
    """Resolve a column that several attributes map to; the others go to the rests."""
    resolved: list[Any] = []
    for index, rest in enumerate(rests):
        values = {key: converted_by_key[key][index] for key in order}
        present = {key: value for key, value in values.items() if value is not None}
        good = [key for key, value in present.items() if value is not BROKEN]
        resolved.append(present[good[0]] if good else BROKEN if present else None)
        rest |= {key: attributes[key][index] for key in good[1:]}
    return resolved


_MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Origin:
    """Position of a line."""

    file_id: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Producer:
    """Process that sent a record: columns from its resource, and the other attributes.

    ``rest_text`` is ``rest`` as JSON text. ``sent`` has all attributes as texts.
    """

    columns: Row
    rest: dict[str, Any]
    rest_text: str | None
    sent: dict[str, str]

    @classmethod
    def of(cls, resource: Resource | None) -> "Producer":
        """Map the attributes of a resource to columns."""
        values = read_attributes(resource.attributes if resource else None)
        found = map_attributes({key: [value] for key, value in values.items()}, SHARED_COLUMNS, 1)
        columns = {name: value for name, (value,) in found.columns.items() if value is not None}
        texts = {key: text_or_url(value) for key, value in values.items()}
        sent = {key: value for key, value in texts.items() if value is not None}
        rest = found.rests[0]
        return cls(columns, rest, json_text(rest), sent)

    def text_with(self, rest: dict[str, Any], rest_text: str | None) -> str | None:
        """Return ``self.rest`` and then ``rest`` as one JSON text; ``rest_text`` is ``rest``."""
        if self.rest_text is None or rest_text is None:
            return self.rest_text or rest_text
        if self.rest.keys().isdisjoint(rest):
            return f"{self.rest_text[:-1]},{rest_text[1:]}"
        return json_text({**self.rest, **rest})


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
    def told(self) -> Callable[[LogRecord], list[LogRecord]] | None:
        """Function that makes more records of one of this shape."""
        told_by = self.dialect.told_by if self.dialect else None
        return told_by[1] if told_by and told_by[0] in self.keys else None

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
    _traced: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        scopes = (dialect.scopes for dialect in self.dialects if dialect.follows_traces)
        self._traced = tuple(chain.from_iterable(scopes))

    def __iter__(self) -> Iterator[Shape]:
        for same_keys in self._by_keys.values():
            yield from same_keys.shapes.values()

    def add(
        self, number: int, producer: Producer, origin: Origin, scope: str, record: LogRecord
    ) -> Shape:
        """Add a record to its shape, and return the shape."""
        pairs = record.attributes or ()
        if record.trace_id and (
            scope.startswith(self._traced) or any(pair.key == EVALUATION for pair in pairs)
        ):
            pairs = [*pairs, *_enclosing(record)]
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


def _enclosing(record: LogRecord) -> Iterator[KeyValue]:
    """Yield the ids of the span around a record, or evaluated by it, as attributes."""
    for name, value in ((EVALUATED_TRACE, record.trace_id), (EVALUATED_SPAN, record.span_id)):
        if isinstance(value, str) and value:
            yield KeyValue(name, AnyValue(value))


def _convention_name(event_name: Any) -> str | None:
    """Return a top-level ``eventName`` of the GenAI conventions, which send no other name.

    Others are ignored: Codex sends a source location in it.
    """
    is_convention = isinstance(event_name, str) and event_name.startswith("gen_ai.")
    return event_name if is_convention else None


def _last_index(name: str, keys: tuple[str, ...]) -> int | None:
    found = [index for index, key in enumerate(keys) if key == name]
    return found[-1] if found else None


@dataclass(slots=True)
class IngestCounts:
    """Sums over any amount of telemetry.

    Attributes:
        bytes: Bytes consumed, including newlines.
        lines: Lines that were not empty.
        skipped: Metrics, which are not used.
        quarantined: Lines or single records that could not be read.
        attribution_lines: Attribution lines and outcomes from outside.
        events: Rows stored.
        unknown_records: Records that no dialect recognizes; counted by name.
        repeated_records: Records that repeat another one, as determined by their dialect.
        unattributed: Records without a session.
        time_anomalies: Events with an unreadable or impossible time that was replaced.
        times_observed: Those of them that have the observed time.
        times_of_ingest: Those of them that have the time of ingest.
        value_anomalies: Invalid single values that became null.
        out_of_range: Events of sessions that began before the first partition.
        forgotten: Events of sessions that were forgotten, and are left out.
        spans: Spans read: each gives one or more events, or is counted by name.
    """

    bytes: int = 0
    lines: int = 0
    skipped: int = 0
    quarantined: int = 0
    attribution_lines: int = 0
    events: int = 0
    unknown_records: int = 0
    repeated_records: int = 0
    unattributed: int = 0
    time_anomalies: int = 0
    times_observed: int = 0
    times_of_ingest: int = 0
    value_anomalies: int = 0
    out_of_range: int = 0
    forgotten: int = 0
    spans: int = 0

    def add(self, other: "IngestCounts") -> None:
        """Add other counts."""
        for counter in fields(self):
            setattr(self, counter.name, getattr(self, counter.name) + getattr(other, counter.name))

    def notes(self, first_date: date) -> Iterator[str]:
        """Yield the numbers of records that are not events and of values that were changed."""
        for what, number in (
            ("attribution lines", self.attribution_lines),
            ("metrics, not used", self.skipped),
            ("unrecognized records", self.unknown_records),
            ("repeated records", self.repeated_records),
            ("records without a session", self.unattributed),
            ("erased events, left out", self.forgotten),
        ):
            if number:
                yield f"{what}: {number:,}"
        yield from self.changes(first_date)

    def changes(self, first_date: date) -> Iterator[str]:
        """Yield the numbers of changed values."""
        of_record = self.time_anomalies - self.times_observed - self.times_of_ingest
        for what, number in (
            ("unreadable event.timestamp, replaced by the time of the record", of_record),
            ("times unreadable or impossible, replaced by the observed time", self.times_observed),
            ("times missing or impossible, replaced by the time of ingest", self.times_of_ingest),
            ("impossible values, set to null", self.value_anomalies),
            (f"events before {first_date}, assigned to that date", self.out_of_range),
        ):
            if number:
                yield f"{what}: {number:,}"
