"""Build: dates are built together, with the same result as one by one, from any number of parts."""

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.build import DAILY_TABLES, Build, DateBuilt, DateFailed
from evaluation_pipelines.build.started_dates import StagingLake
from evaluation_pipelines.progress import Silent
from evaluation_pipelines.reporting.domain.book_states import STATES, title_of
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    EVENT_TEXTS_LANDED,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TEXTS,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.schemas.sessions import ToolCalls
from evaluation_pipelines.scorecards.scorecard_tables import SeveralDatesError, session_evaluations
from evaluation_pipelines.storage import lock
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition, make_partitions
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.storage.lock import BUILD, ERASE, Hold, held, holders
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.build.two_dates import FIRST, SECOND, build, only_part
from evaluation_pipelines_tests.storage.locks import lose_lock
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line, session
from evaluation_pipelines_tests.world.lake_files import contents


def test_every_date_that_is_due_is_built_once(two_dates: Workplace) -> None:
    results = two_dates.build()
    assert [result.session_date for result in results] == [FIRST, SECOND]
    first = results[0]
    assert isinstance(first, DateBuilt)
    assert first.rows == {
        "agent_events": 2,
        "agent_sessions": 1,
        "session_outcomes": 0,
        "session_performance": 1,
        "judge_scores": 0,
        "scorecards": 1,
        "session_evaluations": 1,
        "tool_reports": 1,
        "evaluation_books": 1,
    }
    assert first.facts == {
        **{f"sessions {title_of(state)}": 0 for state in STATES},
        "sessions scored by profile": 1,
        "landed": 2,
        "duplicates": 0,
        "scored": 1,
        "partial": 1,
        "completed": 0,
        "failed_scorings": 0,
        "open_scorings": 0,
        "cards": 1,
        "not_ended": 0,
        "no_profile": 0,
        "evaluated": 1,
        "passed": 1,
        "overridden": 0,
        "quality_risks": 0,
        "flagged": 0,
    }
    assert two_dates.build() == []


class Steps(Silent):
    """Progress that records by how many units it advances."""

    def __init__(self) -> None:
        self.units: list[int] = []

    def advance(self, units: int) -> None:
        """Record ``units``."""
        self.units.append(units)


@pytest.mark.parametrize(
    ("limits", "together"),
    [({}, [2]), ({"_MAX_BATCH_BYTES": 1}, [1, 1]), ({"_MAX_BATCH_DATES": 1}, [1, 1])],
)
def test_as_many_dates_are_built_together_as_fit(
    two_dates: Workplace,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    together: list[int],
) -> None:
    for limit, value in limits.items():
        monkeypatch.setattr(f"evaluation_pipelines.build.started_dates.{limit}", value)
    steps = Steps()
    results = Build(two_dates.stores, [AGENT_EVENTS.name]).run([FIRST, SECOND], steps)
    assert [result.session_date for result in results] == [FIRST, SECOND]
    assert steps.units == together


@pytest.mark.parametrize(
    "limits",
    [{"_MAX_BATCH_DATES": 2}, {"_MAX_BATCH_BYTES": 1}],
    ids=["two together", "large"],
)
def test_dates_have_the_same_bytes_whatever_they_are_built_with(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    days = [FIRST + timedelta(days=number) for number in range(5)]
    more = [session(f"more {n}") for n in range(20)]
    workplace.land("logs.jsonl", b"".join([session(f"s{n}", n * DAY_S) for n in range(5)] + more))
    workplace.ingest()
    build(workplace, *days)
    tables = [table.table for table in DAILY_TABLES]
    before = contents(workplace.lake, *tables)
    reported: dict[str, list[date]] = defaultdict(list)
    scores: list[int] = []

    def report(published: Mapping[date, BuiltPartition]) -> None:
        for day, partition in published.items():
            reported[partition.table.name].append(day)
            if partition.table is SESSION_PERFORMANCE:
                scores.append(len(partition.frame["composite"]))

    for limit, value in limits.items():
        monkeypatch.setattr(f"evaluation_pipelines.build.started_dates.{limit}", value)
    monkeypatch.setattr("evaluation_pipelines.engine.local.core_count", lambda: 3)
    only_part(workplace, days[2]).write_bytes(b"not parquet")
    results = Build(workplace.stores, on_published=report, clock=lambda: NOW).run(days)

    assert [type(result) is DateBuilt for result in results] == [day != days[2] for day in days]
    good = [day for day in days if day != days[2]]
    assert dict(reported) == {table.table.name: good for table in DAILY_TABLES}
    assert scores == [21, 1, 1, 1]
    assert contents(workplace.lake, *tables) == before


def test_a_session_on_two_dates_is_scored_on_each_date_separately(two_dates: Workplace) -> None:
    build(two_dates, FIRST, SECOND)
    lake, scored = two_dates.lake, [SCORECARDS.name, SESSION_EVALUATIONS.name]
    first = lake.read(AGENT_SESSIONS, [FIRST])
    twice = [pl.lit(first[name].item()).alias(name) for name in ("session_id", "session_key")]
    for table in (AGENT_SESSIONS, SESSION_PERFORMANCE, TOOL_REPORTS):
        lake.write(lake.read(table, [SECOND]).with_columns(twice), table, SECOND)
    for part in lake.parts(SCORECARDS, [SECOND]):
        lake.write_slot(SCORECARDS.no_rows, SCORECARDS, SECOND, str(part.slot))
    batch = Batch(two_dates.stores, [FIRST, SECOND], NOW)
    with pytest.raises(SeveralDatesError, match=f"is on {FIRST} and another date"):
        session_evaluations(batch)

    together = Build(two_dates.stores, scored, clock=lambda: NOW).run([FIRST, SECOND])
    written = contents(lake, SCORECARDS, SESSION_EVALUATIONS)
    for day in (FIRST, SECOND):
        Build(two_dates.stores, scored, clock=lambda: NOW).run([day])

    assert {type(result) for result in together} == {DateBuilt}
    assert lake.read(SCORECARDS, [SECOND]).height
    assert contents(lake, SCORECARDS, SESSION_EVALUATIONS) == written


@pytest.mark.parametrize("table", [SESSION_PERFORMANCE, TOOL_REPORTS])
def test_rows_of_a_session_on_another_date_do_not_count_for_it(
    two_dates: Workplace, table: Table
) -> None:
    build(two_dates, FIRST, SECOND)
    lake = two_dates.lake
    of_first = lake.read(table, [FIRST]).with_columns(session_date=pl.lit(SECOND))
    lake.write(pl.concat([lake.read(table, [SECOND]), of_first]), table, SECOND)
    with pytest.raises(SeveralDatesError, match="and another date"):
        session_evaluations(Batch(two_dates.stores, [FIRST, SECOND], NOW))


def test_first_rows_do_not_keep_all_rows_in_memory() -> None:
    frame = pl.DataFrame({"n": range(100), "text": ["longer than what Polars stores inline"] * 100})
    made = BuiltPartition(AGENT_EVENTS, frame, (), {"landed": 100})
    first = made.first_rows()
    assert first.frame.equals(frame.head(8))
    assert first.frame.estimated_size() < frame.estimated_size() / 10
    assert (first.row_count, first.first_rows().row_count) == (100, 100)
    assert (made.row_count, first.facts) == (100, made.facts)


def test_intermediate_results_are_not_used_for_a_part_of_a_batch(
    workplace: Workplace,
) -> None:
    left = pl.DataFrame({"n": [1]})
    calls = ToolCalls(left, left)
    batch = Batch(workplace.stores, [FIRST, SECOND], NOW, tool_calls=calls, evidence=left)
    assert batch.without([]) is batch
    part = batch.without([SECOND])
    assert (part.days, part.tool_calls, part.evidence) == ([FIRST], None, None)


def test_a_date_with_unreadable_calls_keeps_all_tables_it_had(
    two_dates: Workplace,
) -> None:
    lake = two_dates.lake
    (part,) = Manifest(two_dates.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    events = lake.read_part(part, AGENT_EVENTS_LANDED)
    torn = events.with_columns(pl.lit("not JSON").alias(name) for name in TEXTS)
    texts = torn.select(EVENT_TEXTS_LANDED.schema.names())
    lake.switch([lake.write_part(texts, EVENT_TEXTS_LANDED, FIRST, "torn")])
    failed, second = two_dates.build()
    assert isinstance(second, DateBuilt)
    assert isinstance(failed, DateFailed)
    assert (failed.table, "tool_calls" in failed.error) == ("agent_sessions", True)
    assert two_dates.sessions()["session_date"].to_list() == [SECOND]
    assert two_dates.events()["session_date"].unique().to_list() == [SECOND]


def test_a_late_event_makes_its_date_due_and_is_added_to_its_session(
    two_dates: Workplace,
) -> None:
    two_dates.build()
    more = claude("tool_result", 5 * DAY_S, session__id="s0", tool_name="Read", success="false")
    two_dates.land("logs.jsonl", line(more), "ab")
    two_dates.ingest()
    (result,) = two_dates.build()
    assert result.session_date == FIRST
    grown = two_dates.sessions().filter(session_id="s0").row(0, named=True)
    assert (grown["tools_ok"], grown["tools_failed"]) == (1, 1)
    # One second, and then days of silence, which count as half an hour.
    assert grown["active_s"] == 1 + 30 * 60


def test_a_date_without_landed_events_gets_empty_tables(workplace: Workplace) -> None:
    (result,) = build(workplace, FIRST)
    assert isinstance(result, DateBuilt)
    assert set(result.rows.values()) == {0}
    assert workplace.lake.partitions(AGENT_SESSIONS) == [FIRST]


def test_all_tables_of_a_date_become_current_in_one_transaction(
    two_dates: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At no time does a reader see a table of the new build together with one of the old build."""
    two_dates.build()
    two_dates.land("more.jsonl", session("more"))
    two_dates.ingest()
    seen: list[dict[str, datetime]] = []
    switch = Manifest.switch

    def watch(manifest: Manifest, *given: Any) -> None:
        seen.append(written_at(two_dates))
        switch(manifest, *given)
        seen.append(written_at(two_dates))

    monkeypatch.setattr(Manifest, "switch", watch)
    (built,) = two_dates.build()
    assert isinstance(built, DateBuilt)
    before, after, books_before, books_after = seen
    assert set(before) == set(built.rows)
    tables = before.keys() - {EVALUATION_BOOKS.name}
    assert len({after[table] for table in tables}) == 1
    assert all(before[table] < after[table] for table in tables)
    assert books_before == after
    assert {name for name, time in books_after.items() if time != after[name]} == {
        EVALUATION_BOOKS.name
    }


def written_at(workplace: Workplace) -> dict[str, datetime]:
    """Return when the current parts of the first date entered the manifest, by table."""
    manifest = Manifest(workplace.ledger)
    return {
        daily.table.name: part.created_at
        for daily in DAILY_TABLES
        for part in manifest.current(daily.table.name, FIRST)
    }


def test_a_build_deletes_events_that_are_older_than_the_setting(tmp_path: Path) -> None:
    with open_workplace(tmp_path, events_kept_days=30) as workplace:
        ages = (400, 31, 29)
        times = [to_us(NOW - timedelta(days=days)) for days in ages]
        events = ServiceEvents(workplace.ledger)
        events.append({"type": "alert.raised", "timestamp_us": time} for time in times)
        workplace.build()
        # The newest old one marks where complete events begin.
        assert [event.timestamp_us for event in events.after(0)] == times[1:]


def test_a_damaged_part_fails_its_date_with_its_path_and_the_next_date_is_built(
    two_dates: Workplace,
) -> None:
    damaged = only_part(two_dates, FIRST)
    content = damaged.read_bytes()
    damaged.write_bytes(content[: len(content) // 2])
    failed, second = two_dates.build()
    assert isinstance(second, DateBuilt)
    assert isinstance(failed, DateFailed)
    assert (failed.session_date, failed.table, failed.attempts) == (FIRST, "agent_events", 1)
    assert str(damaged) in failed.error
    assert two_dates.lake.partitions(AGENT_EVENTS) == [SECOND]

    # It is retried after a minute, and not before.
    assert build(two_dates) == []
    damaged.write_bytes(content)
    (built,) = build(two_dates, later=timedelta(minutes=1))
    assert isinstance(built, DateBuilt)
    assert RebuildQueue(two_dates.ledger).pending(NOW + timedelta(days=1)) == []


def test_a_panic_of_polars_fails_its_date_alone(two_dates: Workplace) -> None:
    """It is no Exception, so a date with a damaged file stopped all others of its run."""
    two_dates.build()
    sessions = next(table for table in DAILY_TABLES if table.table is AGENT_SESSIONS)

    def make(batch: Batch) -> Mapping[date, BuiltPartition]:
        if FIRST in batch.days:
            raise pl.exceptions.PanicException("index out of bounds")
        return sessions.make(batch)

    batch = Batch(two_dates.stores, (FIRST, SECOND), NOW)
    made = dict(make_partitions(replace(sessions, make=make), batch))
    assert repr(made[FIRST]) == "RuntimeError('Polars panicked: index out of bounds')"
    assert isinstance(made[SECOND], BuiltPartition)


def test_a_lock_that_is_lost_counts_no_attempt(
    two_dates: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the server of the ledger restarts: dates of a build would be parked for nothing."""
    commit = StagingLake.commit

    def lose_first(lake: StagingLake, day: date, hold: Hold | None) -> None:
        lose_lock(two_dates.ledger, f"build {day}")
        commit(lake, day, hold)

    with monkeypatch.context() as patched:
        patched.setattr(StagingLake, "commit", lose_first)
        failed = two_dates.build()
    assert all(isinstance(result, DateFailed) and "is lost" in result.error for result in failed)
    queue = RebuildQueue(two_dates.ledger)
    assert [queued_date.attempts for queued_date in queue.pending(NOW)] == [0, 0]
    assert [type(result) for result in two_dates.build()] == [DateBuilt, DateBuilt]


DAY = date(2026, 6, 1)


def test_a_second_build_waits_for_the_one_that_has_started(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.land("logs.jsonl", session("first"))
    workplace.ingest()
    second = Thread(target=workplace.build)
    switch = StagingLake.switch

    def land_more(lake: StagingLake, parts: Collection[NewPart], hold: Hold | None = None) -> None:
        """Land more events and start a second build when the first one has its events."""
        if not second.ident and any(part.table_name == AGENT_EVENTS.name for part in parts):
            workplace.land("logs.jsonl", session("second"), "ab")
            workplace.ingest()
            second.start()
            second.join(0.5)  # enough time to overtake, if it could
        switch(lake, parts, hold)

    monkeypatch.setattr(StagingLake, "switch", land_more)
    (first,) = Build(workplace.stores, clock=lambda: NOW).run([DAY])
    second.join()
    assert isinstance(first, DateBuilt)
    assert first.rows["agent_events"] == 2
    assert workplace.events()["session_id"].unique().sort().to_list() == ["first", "second"]
    assert workplace.sessions().height == 2
    assert RebuildQueue(workplace.ledger).pending(NOW) == []


def test_whoever_builds_within_another_lock_shows_progress_of_both(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as ``forget``, which holds ``erase`` while dates are built again."""
    monkeypatch.setattr(lock, "NOTED_EVERY_S", 0)
    workplace.land("logs.jsonl", session("first"))
    workplace.ingest()
    with held(workplace.ledger, ERASE):
        (begun,) = holders(workplace.ledger)
        workplace.build()
        (after,) = holders(workplace.ledger)
    assert after.last_progress_at > begun.last_progress_at == begun.since


def test_a_date_that_another_build_finishes_meanwhile_is_not_built_again(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", session("first"))
    workplace.ingest()
    waiting, results = Build(workplace.stores, clock=lambda: NOW, only_due=True), list[object]()
    dates = waiting.pending_dates()
    with held(workplace.ledger, f"{BUILD}{DAY}"):
        second = Thread(target=lambda: results.append(waiting.run(dates)))
        second.start()
        second.join(0.5)  # enough time to reach the lock
        (queued,) = RebuildQueue(workplace.ledger).pending(NOW)
        RebuildQueue(workplace.ledger).mark_built(DAY, queued.version)  # as the other one does
    second.join()
    assert results == [[]]
    with held(workplace.ledger, f"{BUILD}{DAY}"):  # it was released
        pass
    (built,) = Build(workplace.stores, clock=lambda: NOW).run([DAY])  # asked for by name: always
    assert isinstance(built, DateBuilt)


def test_a_date_that_another_build_holds_for_too_long_fails_and_is_retried(
    tmp_path: Path,
) -> None:
    with open_workplace(tmp_path, lock_timeout_seconds=1) as workplace:
        workplace.land("logs.jsonl", session("first"))
        workplace.ingest()
        with held(workplace.ledger, f"{BUILD}{DAY}"):
            (failed,) = workplace.build()
        assert isinstance(failed, DateFailed)
        assert "LockTimeoutError: Could not get the lock build" in failed.error
        assert f"process {os.getpid()} on " in failed.error
        assert failed.attempts == 1
        (built,) = Build(workplace.stores, clock=lambda: NOW).run([DAY])
        assert isinstance(built, DateBuilt)


def test_a_ledger_without_locks_fails_the_date_with_the_path(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", session("first"))
    workplace.ingest()
    locks = workplace.settings.data_dir / "ledger.db.locks"
    shutil.rmtree(locks)
    locks.write_text("a file where the folder should be")
    (failed,) = workplace.build()
    assert isinstance(failed, DateFailed)
    assert str(locks) in failed.error


def test_two_builds_with_overlapping_dates_do_not_deadlock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One builds the dates 1 2 | 3 4, the other 2 3: each could hold what the other waits for."""
    days = [DAY + timedelta(days=number) for number in range(4)]
    monkeypatch.setattr("evaluation_pipelines.build.started_dates._MAX_BATCH_DATES", 2)
    monkeypatch.setattr("evaluation_pipelines.engine.local.core_count", lambda: 2)
    results: list[DateBuilt | DateFailed] = []
    with open_workplace(tmp_path, lock_timeout_seconds=20) as workplace:
        workplace.land("logs.jsonl", b"".join(session(f"s{n}", n * DAY_S) for n in range(4)))
        workplace.ingest()

        def build(dates: list[date]) -> None:
            results.extend(Build(workplace.stores, clock=lambda: NOW).run(dates))

        threads = [Thread(target=build, args=(dates,)) for dates in (days, days[1:3])]
        with held(workplace.ledger, f"{BUILD}{DAY}"):
            for thread in threads:
                thread.start()
                time.sleep(0.5)  # the first one waits for its first date
        for thread in threads:
            thread.join()
    assert [result for result in results if isinstance(result, DateFailed)] == []
    assert len(results) == 6
