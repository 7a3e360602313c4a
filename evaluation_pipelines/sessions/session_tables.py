"""The daily tables from events to session scores."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

import polars as pl

from evaluation_pipelines.people.identity_store import IdentityStore
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
)
from evaluation_pipelines.schemas.table import keys_are_unique
from evaluation_pipelines.sessions.domain.checks import (
    calls_add_up,
    every_event_is_in_a_session,
    every_report_has_its_session,
    every_score_has_its_session,
    scores_are_in_range,
    sequences_have_no_gaps,
)
from evaluation_pipelines.sessions.domain.performance import WEIGHTS, score_sessions
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports as report
from evaluation_pipelines.sessions.session_queries import (
    DEDUPLICATION_COLUMNS,
    NEEDS_ALL,
    SIGNAL_COLUMNS,
    kept_events,
    put_together,
    query_sessions,
    query_sessions_and_calls,
    query_tool_calls,
    without_warm_ups,
)
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.queries import Source
from evaluation_pipelines.telemetry.domain.organizations import with_organizations
from evaluation_pipelines.telemetry.domain.spans import Assembled

_COLUMNS_READ_TOGETHER = 12
"""Columns of a large date that are in memory twice for a moment, as landed and in order."""


def rows_by_date(rows: pl.DataFrame, days: Sequence[date]) -> Mapping[date, pl.DataFrame]:
    """Return the rows of each of the dates, in their order.

    Raises:
        ValueError: There are rows of another date, which would be lost.
    """
    if len(days) == 1 and (rows["session_date"] == days[0]).all():
        return {days[0]: rows}  # not copied
    found = rows.partition_by("session_date", as_dict=True, maintain_order=True)
    if unexpected := sorted(str(day) for (day,) in found if day not in days):
        raise ValueError(
            f"rows of {', '.join(unexpected)} are among the rows of {days[0]} to {days[-1]}"
        )
    return {day: found.get((day,), rows.clear()) for day in days}


def agent_events(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the landed events of the batch, deduplicated."""
    lake, days = batch.stores.lake, batch.days
    if not batch.is_small:
        return {day: _large_events(lake, day) for day in days}
    landed = with_organizations(lake.read(AGENT_EVENTS_LANDED, days, AGENT_EVENTS.schema.names()))
    dropped = {day: Counter[str]() for day in days}
    if landed.select(NEEDS_ALL.any()).item():
        of_days = {day: put_together(rows) for day, rows in rows_by_date(landed, days).items()}
        dropped = {day: Counter(assembled.dropped) for day, assembled in of_days.items()}
        landed = pl.concat([assembled.events for assembled in of_days.values()])
    kept = rows_by_date(kept_events(landed, small=True), days)
    rows = Counter(dict(landed["session_date"].value_counts().iter_rows()))
    return {day: _events(landed[kept[day]["row_no"]], rows[day], dropped[day]) for day in days}


def _large_events(lake: Lake, day: date) -> BuiltPartition:
    """Return the events of a date, in less memory: only some columns are read at a time.

    Of sessions with spans or several signals all columns are read.
    """
    # Listed once: more parts can land between the times that they are read.
    parts = lake.parts(AGENT_EVENTS_LANDED, [day])
    landed = with_organizations(_landed(lake, parts, (*DEDUPLICATION_COLUMNS, *SIGNAL_COLUMNS)))
    needs_all = landed.select(NEEDS_ALL).to_series()
    names = AGENT_EVENTS.schema.names()
    together = Assembled(AGENT_EVENTS.no_rows, {})
    if needs_all.any():
        whole = _landed(lake, parts, names).with_columns(landed["organization_id"])
        together = put_together(whole.filter(needs_all))
        del whole

    def all_rows(columns: Sequence[str], read: pl.DataFrame) -> pl.DataFrame:
        others = read if together.events.is_empty() else read.filter(~needs_all)
        return pl.concat([others.select(columns), together.events.select(columns)])

    to_compare = all_rows(DEDUPLICATION_COLUMNS, landed)
    kept = rows_by_date(kept_events(to_compare), [day])[day]["row_no"]
    rows, columns = to_compare.height, list(_take_rows(to_compare.select("organization_id"), kept))
    del landed, to_compare
    names.remove("organization_id")
    for first in range(0, len(names), _COLUMNS_READ_TOGETHER):
        chunk = names[first : first + _COLUMNS_READ_TOGETHER]
        columns += _take_rows(all_rows(chunk, _landed(lake, parts, chunk)), kept)
    events = pl.DataFrame(columns).select(AGENT_EVENTS.schema.names())
    return _events(events, rows, Counter(together.dropped))


def _landed(lake: Lake, parts: Sequence[NewPart], columns: Sequence[str]) -> pl.DataFrame:
    frames = [lake.read_part(part, AGENT_EVENTS_LANDED, columns) for part in parts]
    return pl.concat([AGENT_EVENTS.no_rows.select(columns), *frames])


def _take_rows(frame: pl.DataFrame, row_numbers: pl.Series) -> Iterator[pl.Series]:
    """Yield the columns of some rows of a frame, which is left empty: it does not fit twice."""
    for name in frame.columns:
        column = frame.drop_in_place(name)
        if column.null_count() == column.len():
            yield column.clear(row_numbers.len())  # takes no memory, as opposed to those gathered
        else:
            yield column.gather(row_numbers)


def _events(events: pl.DataFrame, rows: int, dropped: Counter[str]) -> BuiltPartition:
    """Return a partition: ``rows`` were compared, after others were ``dropped``, by reason."""
    landed = rows + dropped.total()
    return BuiltPartition(
        AGENT_EVENTS,
        without_warm_ups(events),
        (keys_are_unique(events, AGENT_EVENTS),),
        {"landed": landed, "duplicates": rows - events.height, **dropped},
    )


def agent_sessions(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the session windows of the batch."""
    lake, days = batch.stores.lake, batch.days
    sessions = rows_by_date(_windows(batch, lake.files(AGENT_EVENTS, days)), days)
    columns = ["session_date", "organization_id", "session_id", "event_name"]
    events = rows_by_date(lake.read(AGENT_EVENTS, days, columns), days)
    return {day: _sessions(events[day], sessions[day]) for day in days}


def _windows(batch: Batch, events: Source) -> pl.DataFrame:
    """Return the windows, and keep the tool calls in the batch if it builds tables of them."""
    settings, small = batch.stores.settings, batch.is_small
    identities = IdentityStore(batch.stores.ledger).current()
    if {TOOL_REPORTS.name, SESSION_OUTCOMES.name}.isdisjoint(batch.tables):
        return query_sessions(events, settings, identities, small=small)
    texts = text_files(batch.stores.lake, batch.days)
    windows, batch.tool_calls = query_sessions_and_calls(
        events, texts, settings, identities, small=small
    )
    return windows


def text_files(lake: Lake, days: Sequence[date]) -> Source:
    """Return the files with the texts of some dates, or no rows if nothing was logged."""
    files = lake.files(EVENT_TEXTS_LANDED, days)
    return replace(files, shard=lake.shard) if files else EVENT_TEXTS_LANDED.schema.to_frame()


def _sessions(events: pl.DataFrame, sessions: pl.DataFrame) -> BuiltPartition:
    return BuiltPartition(
        AGENT_SESSIONS,
        sessions,
        (
            keys_are_unique(sessions, AGENT_SESSIONS),
            every_event_is_in_a_session(events, sessions, AGENT_SESSIONS),
            sequences_have_no_gaps(sessions, AGENT_SESSIONS),
        ),
    )


def session_performance(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the scores of the session windows of the batch."""
    sessions = batch.stores.lake.read(AGENT_SESSIONS, batch.days)
    of_day = rows_by_date(sessions, batch.days)
    time = batch.stores.settings.productivity_time
    scores = rows_by_date(score_sessions(sessions, time), batch.days)
    return {day: _performance(of_day[day], scores[day]) for day in batch.days}


def _performance(sessions: pl.DataFrame, scores: pl.DataFrame) -> BuiltPartition:
    table = SESSION_PERFORMANCE
    return BuiltPartition(
        table,
        scores,
        (
            keys_are_unique(scores, table),
            scores_are_in_range(scores, table, (*WEIGHTS, "composite")),
            every_score_has_its_session(scores, sessions, table),
        ),
        {"scored": int(scores["scorable"].sum()), "partial": int(scores["partial"].sum())},
    )


def tool_reports(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the tool reports of the session windows of the batch."""
    lake, calls, batch.tool_calls = batch.stores.lake, batch.tool_calls, None
    if calls is None:
        texts = text_files(lake, batch.days)
        calls = query_tool_calls(lake.files(AGENT_EVENTS, batch.days), texts)
    sessions = lake.read(AGENT_SESSIONS, batch.days)
    reports = rows_by_date(report(calls, sessions), batch.days)
    return {day: _built(rows, sessions.filter(session_date=day)) for day, rows in reports.items()}


def _built(reports: pl.DataFrame, sessions: pl.DataFrame) -> BuiltPartition:
    table = TOOL_REPORTS
    return BuiltPartition(
        table,
        reports,
        (
            keys_are_unique(reports, table),
            every_report_has_its_session(reports, sessions, table),
            calls_add_up(reports, sessions, table),
        ),
        {"flagged": int(reports["is_flagged"].sum())},
    )
