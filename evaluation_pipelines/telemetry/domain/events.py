"""The canonical agent event: shared columns, time and identity.

All records of one shape are converted together, column by column.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress, repeat
from typing import Any

from evaluation_pipelines import times
from evaluation_pipelines.telemetry.domain.attributes import (
    BROKEN,
    json_object,
    json_texts,
    text_or_url,
    with_whole_characters,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row
from evaluation_pipelines.telemetry.domain.event_ids import event_ids, named_ids
from evaluation_pipelines.telemetry.domain.model_columns import Columns, add_models
from evaluation_pipelines.telemetry.domain.organizations import NO_ORGANIZATION
from evaluation_pipelines.telemetry.domain.prices import Prices
from evaluation_pipelines.telemetry.domain.shapes import (
    READ_ELSEWHERE,
    SHARED_COLUMNS,
    ColumnTable,
    Producer,
    Shape,
    map_attributes,
    named_rows,
)
from evaluation_pipelines.telemetry.domain.subagents import name_parents

MASQUE_EVENTS = {"masque.don": "masque_don", "masque.doff": "masque_doff"}
_MASQUE = frozenset({"masque.name", "masque"})

REPLACED_BY = "(time replaced by)"
"""Column, of no table, that says what replaced a time; None for a time as sent."""

RECORD_TIME, OBSERVED_TIME, TIME_OF_INGEST = "record", "observed", "ingest"

NAMES_ITSELF = "(names itself)"
"""Column, of no table, that is false for events whose id is a hash of their content."""

_NO_TIME = (None, "", 0, "0")


@dataclass(frozen=True, slots=True)
class Clock:
    """Current time, and how far in the future a sent time may be (microseconds)."""

    now_us: int
    tolerance_us: int

    def possible(self, time_us: int | None) -> int | None:
        """Return the time if it is possible, otherwise None."""
        latest_us = self.now_us + self.tolerance_us
        is_possible = time_us is not None and times.EARLIEST_US <= time_us <= latest_us
        return time_us if is_possible else None


@dataclass(frozen=True, slots=True)
class ShapeEvents:
    """Events of the records of one shape.

    Attributes:
        numbers: Numbers of the records that are events.
        columns: Their columns, without ``session_date``.
        broken: Number of broken values of all records.
        repeated: Records that repeat another one, as determined by their dialect.
        unattributed: Records without a session.
    """

    numbers: Sequence[int]
    columns: Columns
    broken: int
    repeated: int
    unattributed: int


def events_of(
    shape: Shape,
    clock: Clock,
    prices: Prices,
    session_attributes: Sequence[str] = (),
    organization: str | None = None,
) -> ShapeEvents:
    """Convert the records of a shape to events, those of ``organization`` if one is given."""
    numbers, producers, origins, sent, observed, bodies, values = zip(*shape.records, strict=True)
    attributes = dict(zip(shape.keys, zip(*values, strict=True), strict=True))
    found = map_attributes(attributes, _table_of(shape.dialect), len(numbers))
    columns, rests = found.columns, found.rests
    if shape.dialect is not None and shape.dialect.has_body_objects:
        bodies = tuple(map(_as_object, bodies))
    _keep_bodies(bodies, rests)
    _add_producers(columns, producers)
    if organization is not None:
        _assign_organization(columns, rests, organization)
    sent_us = times.column_from_nanoseconds(sent)
    observed_us = times.column_from_nanoseconds(observed)
    stamps = attributes.get("event.timestamp")
    stated_us, unreadable = _sent_times(stamps, sent, sent_us)
    columns["event_time"], replaced = _event_times(stated_us, observed_us, unreadable, clock)
    kept = _finish(shape, columns, rests)
    if found.broken:
        columns = {name: _without_broken(column) for name, column in columns.items()}
    if shape.dialect is not None:
        add_models(columns, attributes, shape.dialect, prices)
    columns["observed_time"], columns[REPLACED_BY] = observed_us, replaced
    columns["time_anomaly"] = [value is not None for value in replaced]
    if "event_id" in columns and None not in columns["event_id"]:  # of spans
        columns[NAMES_ITSELF] = [True] * len(numbers)
    else:
        columns["event_id"], columns[NAMES_ITSELF] = _ids(
            columns,
            named_ids(columns, stated_us, _prefix(shape)),
            lambda: _content_ids(
                shape,
                columns,
                _id_times(shape, attributes, sent_us),
                bodies,
                attributes,
            ),
        )
    name_parents(columns, len(numbers))
    columns["source_file_id"] = [origin.file_id for origin in origins]
    columns["source_offset"] = [origin.offset for origin in origins]
    if "trace_id" in columns:
        columns["span_scope"] = [shape.scope] * len(numbers)
    columns["attributes"] = _other_attributes(producers, rests)
    if session_attributes:
        columns["session_attributes"] = _session_attributes(
            session_attributes, attributes, producers
        )
    return _select_events(numbers, columns, kept, found.broken)


def _other_attributes(
    producers: Sequence[Producer], rests: Sequence[dict[str, Any]]
) -> list[str | None]:
    """Return the attributes without a column as JSON text, those of the resource first."""
    return [
        producer.text_with(rest, own)
        for producer, rest, own in zip(producers, rests, json_texts(rests), strict=True)
    ]


def _session_attributes(
    names: Sequence[str],
    attributes: Mapping[str, Sequence[Any]],
    producers: Sequence[Producer],
) -> list[list[dict[str, str]] | None]:
    """Return the named attributes of each record, as texts; the resource's where it has none."""
    rows: list[list[dict[str, str]] | None] = []
    for index, producer in enumerate(producers):
        found = []
        for name in names:
            value = text_or_url(attributes[name][index]) if name in attributes else None
            value = producer.sent.get(name) if value is None else value
            if value is not None:
                found.append({"key": name, "value": value})
        rows.append(found or None)
    return rows


def _select_events(
    numbers: Sequence[int], columns: Columns, kept: list[bool], broken: int
) -> ShapeEvents:
    """Drop records that repeat others, and those without a session."""
    sessions = columns.get("session_id") or [None] * len(kept)
    events = [keep and session is not None for keep, session in zip(kept, sessions, strict=True)]
    if not all(events):
        numbers = list(compress(numbers, events))
        columns = {name: list(compress(column, events)) for name, column in columns.items()}
    repeated = kept.count(False)
    return ShapeEvents(numbers, columns, broken, repeated, events.count(False) - repeated)


@cache
def _table_of(dialect: Dialect | None) -> ColumnTable:
    return {**SHARED_COLUMNS, **dialect.columns} if dialect else SHARED_COLUMNS


def _as_object(body: Any) -> Any:
    """Return the key-value list that a text spells as JSON; any other body as it is."""
    if not (isinstance(body, str) and body.startswith("{")):
        return body
    found = json_object(body)
    return (with_whole_characters(found) if r"\ud" in body.lower() else found) or body


def _keep_bodies(bodies: Sequence[Any], rests: Sequence[dict[str, Any]]) -> None:
    for rest, body in zip(rests, bodies, strict=True):
        if isinstance(body, dict):
            rest.setdefault("body", body)


def _add_producers(columns: Columns, producers: Sequence[Producer]) -> None:
    """Use the resource where a record lacks a value."""
    for name in {name for producer in set(producers) for name in producer.columns}:
        values = columns.get(name)
        if values is None:
            columns[name] = [producer.columns.get(name) for producer in producers]
        elif None in values:
            columns[name] = [
                producer.columns.get(name) if value is None else value
                for value, producer in zip(values, producers, strict=True)
            ]


def _assign_organization(
    columns: Columns, rests: Sequence[dict[str, Any]], organization: str
) -> None:
    """Set the organization of all records; what they said stays among their attributes."""
    said = columns.get("organization_id") or ()
    for rest, value in zip(rests, said, strict=False):
        if isinstance(value, str) and value != organization:
            rest.setdefault("organization.id", value)
    columns["organization_id"] = [organization] * len(rests)


def _content_ids(
    shape: Shape,
    columns: Columns,
    times_us: Iterable[tuple[int | None, int | None]],
    bodies: Sequence[Any],
    attributes: Mapping[str, Sequence[Any]],
) -> list[bytes]:
    """Return the ids of records by what their agent wrote."""
    dialect, nothing = shape.dialect, [None] * len(bodies)
    names = _identifying(shape)
    if names is None:
        kept = {name: attributes[name] for name in attributes if name not in READ_ELSEWHERE}
    else:
        kept = {name: attributes[name] for name in attributes if name in names}
    sessions = columns.get("session_id") or nothing
    of_shape = repeat(_prefix(shape)), sessions, repeat(shape.bare_name)
    identities = zip(*of_shape, times_us, strict=False)
    # A body that is no key-value list is the name again, or a sentence about the attributes.
    has_content = dialect is None or dialect.has_body_objects
    return event_ids(identities, bodies if has_content else nothing, kept)


def _prefix(shape: Shape) -> str | None:
    """Return what ids begin with, whatever organization the records name.

    It was the organization once: stored events without one keep the ids that they have.
    """
    return None if shape.bare_name in MASQUE_EVENTS else NO_ORGANIZATION


def _identifying(shape: Shape) -> frozenset[str] | None:
    """Return the attributes that tell records of a shape apart; None for all of them."""
    if shape.bare_name in MASQUE_EVENTS:
        return _MASQUE
    return None if shape.dialect is None else shape.dialect.identifying


def _id_times(
    shape: Shape,
    attributes: Mapping[str, Sequence[Any]],
    sent_us: list[int | None],
) -> Iterable[tuple[int | None, int | None]]:
    """Return ``event.timestamp`` and time of each record; when it was observed, collectors say."""
    stamps_us = times.column_from_iso(attributes.get("event.timestamp") or [None] * len(sent_us))
    sends_time = shape.dialect is None or shape.dialect.sends_time
    return zip(stamps_us, sent_us if sends_time else repeat(None), strict=False)


def _sent_times(
    stamps: Sequence[Any] | None, sent: Sequence[Any], sent_us: list[int | None]
) -> tuple[list[int | None], list[bool]]:
    """Return ``event.timestamp``, otherwise the time of the record; and which is unreadable."""
    nothing: list[int | None] = [None] * len(sent_us)
    stamps_us = nothing if stamps is None else times.column_from_iso(stamps)
    stated_us = stamps_us if stamps is not None else sent_us
    if None not in stated_us:
        return stated_us, [False] * len(stated_us)
    stated_us = [
        time if stamp is None else stamp for stamp, time in zip(stamps_us, sent_us, strict=True)
    ]
    pairs = zip(stamps or stamps_us, stamps_us, sent, sent_us, strict=True)
    unreadable = [
        stamp is None if stamped not in _NO_TIME else time is None and given not in _NO_TIME
        for stamped, stamp, given, time in pairs
    ]
    return stated_us, unreadable


def _event_times(
    stated_us: list[int | None],
    observed_us: list[int | None],
    unreadable: list[bool],
    clock: Clock,
) -> tuple[list[int], list[str | None]]:
    """Return event times (microseconds), and what replaced those that are not as sent."""
    known = [time_us for time_us in stated_us if time_us is not None]
    are_all_known = len(known) == len(stated_us) and not any(unreadable)
    if are_all_known and clock.possible(min(known)) and clock.possible(max(known)):
        return known, [None] * len(known)
    event_times: list[int] = []
    replaced: list[str | None] = []
    for stated, observed, is_unreadable in zip(stated_us, observed_us, unreadable, strict=True):
        is_as_sent = not is_unreadable and (stated is None or clock.possible(stated) is not None)
        if (time := clock.possible(stated)) is not None:
            by = RECORD_TIME
        elif (time := clock.possible(observed)) is not None:
            by = OBSERVED_TIME
        else:
            time, by, is_as_sent = clock.now_us, TIME_OF_INGEST, False
        event_times.append(time)
        replaced.append(None if is_as_sent else by)
    return event_times, replaced


def _finish(shape: Shape, columns: Columns, rests: Sequence[dict[str, Any]]) -> list[bool]:
    """Name the events and let their dialect refine them; return which of them to keep."""
    name, dialect, count = shape.bare_name, shape.dialect, len(rests)
    columns["source_event_name"] = [name or None] * count
    if name in MASQUE_EVENTS:
        # Without an organization it applies to the session in any organization.
        columns["event_name"] = [MASQUE_EVENTS[name]] * count
        return [True] * count
    named = columns.get("organization_id") or [None] * count
    columns["organization_id"] = [organization or NO_ORGANIZATION for organization in named]
    if dialect is None:
        columns["event_name"] = ["other"] * count
        return [True] * count
    if "event_name" not in columns:  # spans have it
        columns["event_name"] = [dialect.event_names.get(name, "other")] * count
    columns["source_cli"] = [dialect.source_cli] * count
    if dialect.refined is not None and name not in dialect.refined:
        return [True] * count
    return _refine(dialect, columns, rests)


def _refine(dialect: Dialect, columns: Columns, rests: Sequence[dict[str, Any]]) -> list[bool]:
    """Pass each event to its dialect as a row, and write the rows back to columns."""
    kept: list[bool] = []
    rows: list[Row] = []
    names = columns.keys() & (dialect.uses or columns.keys())
    used = {name: columns[name] for name in names}
    for values, rest in zip(named_rows(used), rests, strict=True):
        row = _row(values)
        kept.append(dialect.refine(row, rest))
        rows.append(row)
    for name in set(used).union(*rows):
        columns[name] = [row.get(name) for row in rows]
    return kept


def _row(values: Iterable[tuple[str, Any]]) -> Row:
    """Return an event as a dialect sees it: null is absent, a broken value is kept."""
    row: Row = {
        name: None if value is BROKEN else value for name, value in values if value is not None
    }
    row.setdefault("source_event_name", None)
    return row


def _without_broken(column: Sequence[Any]) -> list[Any]:
    return [None if value is BROKEN else value for value in column]


def _ids(
    columns: Columns, named: list[bytes | None], of_content: Callable[[], list[bytes]]
) -> tuple[list[bytes], list[bool]]:
    """Return the ids that a dialect has set, else those of what records call themselves.

    And which records are named by these: the others are named by their content.
    """
    given = columns.get("event_id") or [None] * len(named)
    known = [one or other for one, other in zip(given, named, strict=True)]
    if None not in known:
        return [value for value in known if value is not None], [True] * len(known)
    ids = [one or other for one, other in zip(known, of_content(), strict=True)]
    return ids, [value is not None for value in known]
