"""The canonical agent event: the columns that every dialect shares, its time and its identity.

All records of one shape become events together, column by column.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from typing import Any

import msgspec

from evaluation_pipelines import times
from evaluation_pipelines.telemetry.domain.attributes import BROKEN, json_texts
from evaluation_pipelines.telemetry.domain.columns import (
    SHARED_COLUMNS,
    ColumnTable,
    named_rows,
    sort_attributes,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row
from evaluation_pipelines.telemetry.domain.identity import event_ids
from evaluation_pipelines.telemetry.domain.prices import Prices, priced
from evaluation_pipelines.telemetry.domain.shapes import Producer, Shape

MASQUE_EVENTS = {"masque.don": "masque_don", "masque.doff": "masque_doff"}

Columns = dict[str, Sequence[Any]]
"""Values of ``agent_events`` by column name, all equally many; a column that is absent is null."""

_encode_sorted = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True)
class Clock:
    """The time that counts as now, and how far ahead of it a sent time may lie (microseconds)."""

    now_us: int
    tolerance_us: int

    def possible(self, time_us: int | None) -> int | None:
        """The time where it can be true, else None."""
        latest_us = self.now_us + self.tolerance_us
        is_possible = time_us is not None and times.EARLIEST_US <= time_us <= latest_us
        return time_us if is_possible else None


@dataclass(frozen=True, slots=True)
class ShapeEvents:
    """What became of the records of one shape.

    Attributes:
        numbers: The numbers of the records that are events.
        columns: Their columns, without ``session_date``.
        broken: How many values of all records were broken.
        repeated: Records that the dialect knows to repeat another one.
        unattributed: Records that name no session.
    """

    numbers: Sequence[int]
    columns: Columns
    broken: int
    repeated: int
    unattributed: int


def events_of(shape: Shape, clock: Clock, prices: Prices) -> ShapeEvents:
    """Make the records of a shape events."""
    numbers, producers, origins, sent, observed, bodies, values = zip(*shape.records, strict=True)
    attributes = dict(zip(shape.keys, zip(*values, strict=True), strict=True))
    found = sort_attributes(attributes, _table_of(shape.dialect), len(numbers))
    columns, rests = found.columns, found.rests
    _keep_bodies(bodies, rests)
    _add_producers(columns, producers)
    sent_us = times.column_from_nanoseconds(sent)
    observed_us = times.column_from_nanoseconds(observed)
    told_us = _told(attributes.get("event.timestamp"), sent_us)
    columns["event_time"], time_anomalies = _event_times(told_us, observed_us, clock)
    kept = _finish(shape, columns, rests, prices)
    if found.broken:
        columns = {name: _without_broken(column) for name, column in columns.items()}
    _add_providers(columns, prices)
    columns["observed_time"], columns["time_anomaly"] = observed_us, time_anomalies
    senders = [producer.identity for producer in producers]
    _add_ids(columns, event_ids(senders, sent_us, bodies, attributes))
    columns["source_file_id"] = [origin.file_id for origin in origins]
    columns["source_offset"] = [origin.offset for origin in origins]
    columns["attributes"] = json_texts(
        {**producer.rest, **rest} for producer, rest in zip(producers, rests, strict=True)
    )
    return _selected(numbers, columns, kept, found.broken)


def _selected(
    numbers: Sequence[int], columns: Columns, kept: list[bool], broken: int
) -> ShapeEvents:
    """Without the records that repeat others, and those that name no session."""
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


def _keep_bodies(bodies: Sequence[Any], rests: Sequence[dict[str, Any]]) -> None:
    for rest, body in zip(rests, bodies, strict=True):
        if isinstance(body, dict):
            rest.setdefault("body", body)


def _add_producers(columns: Columns, producers: Sequence[Producer]) -> None:
    """Where records themselves say nothing, what their resources say counts."""
    for name in {name for producer in set(producers) for name in producer.columns}:
        own = columns.get(name)
        if own is None:
            columns[name] = [producer.columns.get(name) for producer in producers]
        elif None in own:
            columns[name] = [
                producer.columns.get(name) if value is None else value
                for value, producer in zip(own, producers, strict=True)
            ]


def _told(stamps: Sequence[Any] | None, sent_us: list[int | None]) -> list[int | None]:
    """The attribute ``event.timestamp``, else the time of the record."""
    if stamps is None:
        return sent_us
    stamps_us = map(times.from_iso, stamps)
    return [
        sent if stamp is None else stamp for stamp, sent in zip(stamps_us, sent_us, strict=True)
    ]


def _event_times(
    told_us: list[int | None], observed_us: list[int | None], clock: Clock
) -> tuple[list[int], list[bool]]:
    """Event times (microseconds), and which of them substitute one that cannot be."""
    event_times: list[int] = []
    anomalies: list[bool] = []
    for told, observed in zip(told_us, observed_us, strict=True):
        time = clock.possible(observed if told is None else told)
        anomalies.append(time is None)
        if time is None:
            time = clock.possible(observed)
        event_times.append(clock.now_us if time is None else time)
    return event_times, anomalies


def _finish(
    shape: Shape, columns: Columns, rests: Sequence[dict[str, Any]], prices: Prices
) -> list[bool]:
    """Name the events and let their dialect finish them; gives which of them are to be kept."""
    name, dialect, count = shape.bare_name, shape.dialect, len(rests)
    columns["source_event_name"] = [name or None] * count
    if name in MASQUE_EVENTS:
        # One that names no organization applies to the session in whichever it is.
        columns["event_name"] = [MASQUE_EVENTS[name]] * count
        return [True] * count
    named = columns.get("organization_id") or [None] * count
    columns["organization_id"] = [each or "default" for each in named]
    columns["event_name"] = ["other"] * count
    if dialect is None:
        return [True] * count
    columns["event_name"] = [dialect.event_names.get(name, "other")] * count
    columns["source_cli"] = [dialect.source_cli] * count
    if dialect.refined is not None and name not in dialect.refined:
        return [True] * count
    return _refine(dialect, columns, rests, prices)


def _refine(
    dialect: Dialect, columns: Columns, rests: Sequence[dict[str, Any]], prices: Prices
) -> list[bool]:
    """Give each event to its dialect as a row, and what came of the rows to the columns."""
    kept: list[bool] = []
    rows: list[Row] = []
    for values, rest in zip(named_rows(columns), rests, strict=True):
        row = _row(values)
        kept.append(dialect.refine(row, rest))
        if not dialect.sends_cost and row["event_name"] == "api_request":
            priced(row, prices, reasoning_is_output=dialect.reasoning_is_output)
        rows.append(row)
    for name in set(columns).union(*rows):
        columns[name] = [row.get(name) for row in rows]
    return kept


def _row(values: Iterable[tuple[str, Any]]) -> Row:
    """An event as dialects see it: what is null is absent, but for a value that is broken."""
    row: Row = {
        name: None if value is BROKEN else value for name, value in values if value is not None
    }
    row.setdefault("source_event_name", None)
    return row


def _without_broken(column: Sequence[Any]) -> list[Any]:
    return [None if value is BROKEN else value for value in column]


def _add_ids(columns: Columns, ids: list[bytes]) -> None:
    """The ids of the events, where the dialect knows none better."""
    better = columns.get("event_id")
    columns["event_id"] = (
        ids if better is None else [one or other for one, other in zip(better, ids, strict=True)]
    )


def _add_providers(columns: Columns, prices: Prices) -> None:
    """Who serves the model, where records do not say."""
    models = columns.get("model")
    if models is None:
        return
    known = {model: prices.provider_of(model) for model in set(models) if model is not None}
    told = columns.get("provider") or [None] * len(models)
    columns["provider"] = [
        known.get(model) if provider is None else provider
        for model, provider in zip(models, told, strict=True)
    ]
