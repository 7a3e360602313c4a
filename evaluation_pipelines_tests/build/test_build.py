"""Build: dates are built together, with the same result as one by one, from any number of parts."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.build.batch_plan import plan_batches
from evaluation_pipelines.build.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.progress import Silent
from evaluation_pipelines.reporting.domain.reconciliation.states import STATES
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.scorecards.scorecard_tables import session_evaluations
from evaluation_pipelines.scorecards.scoring_inputs import SeveralDatesError
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition, make_partitions
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.lake_files import contents
from evaluation_pipelines_tests.otlp_builders import DAY_S, claude, line, session
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

FIRST = date(2026, 6, 1)
SECOND = date(2026, 6, 2)


@pytest.fixture
def two_dates(workplace: Workplace) -> Workplace:
    """Land and ingest a session on June 1st and on June 2nd, without building them."""
    workplace.land("logs.jsonl", b"".join(session(f"s{day}", day * DAY_S) for day in range(2)))
    workplace.ingest()
    return workplace


def build(workplace: Workplace, *dates: date, later: timedelta = timedelta()) -> list[object]:
    """Build dates, or the pending ones if none are given, at NOW plus ``later``."""
    job = Build(workplace.stores, clock=lambda: NOW + later)
    return list(job.run(dates or job.pending_dates()))


def only_part(workplace: Workplace, day: date) -> Path:
    """Return the file of the only landed part of a date."""
    (part,) = Manifest(workplace.ledger).current(AGENT_EVENTS_LANDED.name, day)
    return workplace.lake.root / part.path


# -- dates -----------------------------------------------------------------------------------------


def test_every_date_that_is_due_is_built_once(two_dates: Workplace) -> None:
    results = two_dates.build()
    assert [each.session_date for each in results] == [FIRST, SECOND]
    first = results[0]
    assert isinstance(first, DateBuilt)
    assert first.rows == {
        "agent_events": 2,
        "agent_sessions": 1,
        "session_performance": 1,
        "judge_scores": 0,
        "scorecards": 1,
        "session_evaluations": 1,
        "tool_reports": 1,
        "evaluation_books": 1,
    }
    assert first.facts == {
        **{f"sessions {state}": 0 for state in STATES},
        "sessions scored": 1,
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


def test_a_date_that_is_built_again_has_the_same_bytes(two_dates: Workplace) -> None:
    two_dates.build()
    before = contents(two_dates.lake, AGENT_EVENTS, AGENT_SESSIONS)
    build(two_dates, FIRST)
    assert contents(two_dates.lake, AGENT_EVENTS, AGENT_SESSIONS) == before


class Steps(Silent):
    """Progress that records by how many units it advances."""

    def __init__(self) -> None:
        self.units: list[int] = []

    def advance(self, units: int) -> None:
        """Record ``units``."""
        self.units.append(units)


@pytest.mark.parametrize(
    ("limits", "started", "finished"),
    [
        ({}, [[2]], [2]),
        ({"_MAX_GROUP_BYTES": 1}, [[1, 1]], [2]),
        ({"_MAX_GROUP_BYTES": 1, "_MAX_BATCH_BYTES": 1}, [[1], [1]], [1, 1]),
        ({"_MAX_BATCH_DATES": 1}, [[1], [1]], [1, 1]),
    ],
)
def test_as_many_dates_are_built_together_as_fit(
    two_dates: Workplace,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    started: list[list[int]],
    finished: list[int],
) -> None:
    for limit, value in limits.items():
        monkeypatch.setattr(f"evaluation_pipelines.build.batch_plan.{limit}", value)
    steps = Steps()
    batches = plan_batches(two_dates.stores, [FIRST, SECOND])
    assert [[len(group.days) for group in groups] for groups in batches] == started
    results = Build(two_dates.stores, [AGENT_EVENTS.name]).run([FIRST, SECOND], steps)
    assert [each.session_date for each in results] == [FIRST, SECOND]
    assert steps.units == finished


@pytest.mark.parametrize(
    "limits",
    [{"_MAX_BATCH_DATES": 1}, {"_MAX_GROUP_BYTES": 1}, {"_MAX_BATCH_BYTES": 1}],
    ids=["alone", "started alone", "finished alone"],
)
def test_prefetched_dates_have_the_same_bytes_and_are_reported_in_order(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    days = [FIRST + timedelta(days=number) for number in range(5)]
    workplace.land("logs.jsonl", b"".join(session(f"s{n}", n * DAY_S) for n in range(5)))
    workplace.ingest()
    build(workplace, *days)
    tables = [each.table for each in DAILY_TABLES]
    before = contents(workplace.lake, *tables)
    reported: dict[str, list[date]] = defaultdict(list)

    def report(published: Mapping[date, BuiltPartition]) -> None:
        for day, each in published.items():
            reported[each.table.name].append(day)

    for limit, value in limits.items():
        monkeypatch.setattr(f"evaluation_pipelines.build.batch_plan.{limit}", value)
    monkeypatch.setattr("evaluation_pipelines.build.build._core_count", lambda: 3)
    only_part(workplace, days[2]).write_bytes(b"not parquet")
    results = Build(workplace.stores, on_published=report, clock=lambda: NOW).run(days)

    assert [type(each) is DateBuilt for each in results] == [day != days[2] for day in days]
    good = [day for day in days if day != days[2]]
    assert dict(reported) == {table.table.name: good for table in DAILY_TABLES}
    assert contents(workplace.lake, *tables) == before


def test_a_session_on_two_dates_is_scored_on_each_date_separately(two_dates: Workplace) -> None:
    build(two_dates, FIRST, SECOND)
    lake, scored = two_dates.lake, [SCORECARDS.name, SESSION_EVALUATIONS.name]
    first = lake.read(AGENT_SESSIONS, [FIRST])
    twice = [pl.lit(first[name].item()).alias(name) for name in ("session_id", "session_key")]
    for table in (AGENT_SESSIONS, SESSION_PERFORMANCE, TOOL_REPORTS):
        lake.write(lake.read(table, [SECOND]).with_columns(twice), table, SECOND)
    for part in lake.parts(SCORECARDS, [SECOND]):
        lake.write_slot(SCORECARDS.schema.to_frame(), SCORECARDS, SECOND, str(part.slot))
    batch = Batch(two_dates.stores, [FIRST, SECOND], NOW)
    with pytest.raises(SeveralDatesError, match=f"is on {FIRST} and another date"):
        session_evaluations(batch)

    together = Build(two_dates.stores, scored, clock=lambda: NOW).run([FIRST, SECOND])
    written = contents(lake, SCORECARDS, SESSION_EVALUATIONS)
    for day in (FIRST, SECOND):
        Build(two_dates.stores, scored, clock=lambda: NOW).run([day])

    assert {type(each) for each in together} == {DateBuilt}
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


def test_a_preview_does_not_keep_all_rows_in_memory() -> None:
    frame = pl.DataFrame({"n": range(100), "text": ["longer than what Polars stores inline"] * 100})
    made = BuiltPartition(AGENT_EVENTS, frame, (), {"landed": 100})
    preview = made.preview_rows()
    assert preview.frame.equals(frame.head(8))
    assert preview.frame.estimated_size() < frame.estimated_size() / 10
    assert (preview.row_count, preview.preview_rows().row_count) == (100, 100)
    assert (made.row_count, preview.facts) == (100, made.facts)


def test_intermediate_results_are_not_used_for_a_part_of_a_batch(
    workplace: Workplace,
) -> None:
    left = pl.DataFrame({"n": [1]})
    batch = Batch(workplace.stores, [FIRST, SECOND], NOW, tool_calls=left, evidence=left)
    assert batch.without([]) is batch
    part = batch.without([SECOND])
    assert (part.days, part.tool_calls, part.evidence) == ([FIRST], None, None)
    assert part.scores is batch.scores


def test_unreadable_calls_fail_the_reports_and_not_the_windows(
    two_dates: Workplace,
) -> None:
    (part,) = Manifest(two_dates.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    events = two_dates.lake.read_part(part, AGENT_EVENTS_LANDED)
    torn = events.with_columns(attributes=pl.lit("not JSON"))
    new = two_dates.lake.write_part(torn, AGENT_EVENTS_LANDED, FIRST, "torn")
    Manifest(two_dates.ledger).replace([part.part_id], new, NOW)
    failed, second = two_dates.build()
    assert isinstance(second, DateBuilt)
    assert isinstance(failed, DateFailed)
    assert failed.table == "tool_reports"
    assert two_dates.sessions()["session_date"].to_list() == [FIRST, SECOND]


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


# -- failures --------------------------------------------------------------------------------------


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
    sessions = next(each for each in DAILY_TABLES if each.table is AGENT_SESSIONS)

    def make(batch: Batch) -> Mapping[date, BuiltPartition]:
        if FIRST in batch.days:
            raise pl.exceptions.PanicException("index out of bounds")
        return sessions.make(batch)

    batch = Batch(two_dates.stores, (FIRST, SECOND), NOW)
    made = dict(make_partitions(replace(sessions, make=make), batch))
    assert repr(made[FIRST]) == "RuntimeError('Polars panicked: index out of bounds')"
    assert isinstance(made[SECOND], BuiltPartition)


def test_a_date_that_fails_keeps_the_tables_it_had(two_dates: Workplace) -> None:
    two_dates.build()
    before = two_dates.sessions()
    only_part(two_dates, FIRST).write_bytes(b"not parquet")
    (failed,) = build(two_dates, FIRST)
    assert isinstance(failed, DateFailed)
    assert two_dates.sessions().equals(before)


def test_a_date_is_parked_after_its_fourth_failure_and_new_telemetry_revives_it(
    two_dates: Workplace,
) -> None:
    damaged = only_part(two_dates, FIRST)
    content = damaged.read_bytes()
    damaged.write_bytes(b"not parquet")
    two_dates.build()
    # Retried after 1, 2 and 4 minutes.
    for minutes, parked in ((1, False), (3, False), (7, True)):
        assert build(two_dates, later=timedelta(minutes=minutes, seconds=-1)) == []
        (failed,) = build(two_dates, later=timedelta(minutes=minutes))
        assert isinstance(failed, DateFailed)
        assert failed.parked is parked
    assert build(two_dates, later=timedelta(days=9)) == []
    damaged.write_bytes(content)
    two_dates.land("logs.jsonl", session("late", 60), "ab")
    two_dates.ingest()
    (built,) = build(two_dates)
    assert isinstance(built, DateBuilt)
    assert built.rows["agent_sessions"] == 2


def test_a_date_that_reads_a_damaged_earlier_partition_names_it(
    two_dates: Workplace,
) -> None:
    two_dates.build()
    damaged = two_dates.lake.place(AGENT_SESSIONS, FIRST)
    damaged.write_bytes(b"not parquet")
    (failed,) = build(two_dates, SECOND)
    assert isinstance(failed, DateFailed)
    assert failed.table == "session_performance"
    assert failed.error.startswith(f"DamagedPartError: {damaged} is damaged: ")
    # The advice of the message works: build that date again, then this one.
    assert {type(each) for each in build(two_dates, FIRST, SECOND)} == {DateBuilt}


# -- percentiles -----------------------------------------------------------------------------------


def sessions_of(day: int, prefix: str, outcomes: list[str], count: int, **resource: str) -> bytes:
    """Return sessions of one prompt and a call per outcome, ``day`` days after June 1st."""
    lines = []
    for number in range(count):
        name, noon = f"{prefix}{number}", day * DAY_S
        calls = [
            claude("tool_result", noon + n, session__id=name, tool_name="Read", success=outcome)
            for n, outcome in enumerate(outcomes)
        ]
        lines.append(line(claude("user_prompt", noon, session__id=name), *calls, **resource))
    return b"".join(lines)


@pytest.mark.parametrize("together", [31, 1])
def test_the_percentile_ranks_among_the_28_days_before(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """All sessions are in one class, unclassified: they have fewer than three calls.

    Without tokens and cost the composite is
    (0.30 * quality + 0.25 * 2 * calls + 0.20 * productivity) / 0.75:
    one failed call 0.67, one good call 7.33, two good calls 8.00.
    """
    monkeypatch.setattr("evaluation_pipelines.build.batch_plan._MAX_BATCH_DATES", together)
    monkeypatch.setattr("evaluation_pipelines.build.build._core_count", lambda: 3)
    good, day = ["true"], 40
    workplace.land(
        "logs.jsonl",
        sessions_of(day - 29, "too-old", ["true", "true"], 9)
        + sessions_of(day - 28, "worse", ["false"], 10)
        + sessions_of(day - 3, "better", ["true", "true"], 5)
        + sessions_of(day - 1, "equal", good, 4)
        + sessions_of(day - 1, "elsewhere", ["false"], 9, organization__id="acme")
        + sessions_of(day - 1, "unscorable", [], 9)
        + sessions_of(day, "new", good, 2),
    )
    workplace.ingest()
    workplace.build()
    new = FIRST + timedelta(days=day)
    scores = workplace.lake.read(SESSION_PERFORMANCE, [new])
    assert scores["composite"].to_list() == pytest.approx([5.5 / 0.75, 5.5 / 0.75])
    # 10 + 5 + 4 = 19 sessions are too few to rank among.
    assert scores["percentile_in_class"].to_list() == [None, None]

    workplace.land("more.jsonl", sessions_of(day - 2, "equal-too", good, 1))
    workplace.ingest()
    build(workplace, new - timedelta(days=2), new)
    ranked = workplace.lake.read(SESSION_PERFORMANCE, [new])
    # 100 * (10 lower + 5 equal / 2) / 20
    assert ranked["percentile_in_class"].to_list() == [62.5, 62.5]


# -- parts -----------------------------------------------------------------------------------------


@pytest.fixture
def many_parts(tmp_path: Path) -> Iterator[Workplace]:
    """Six small ingests of one date, one of them of a copy; parts are merged from four on."""
    with open_workplace(tmp_path, compact_parts=4) as opened:
        for number in range(5):
            opened.land("logs.jsonl", session(f"s{number}", number * 60), "ab")
            opened.ingest()
        opened.land("copy.jsonl", session("s0"))
        opened.ingest()
        yield opened


def landed_files(workplace: Workplace) -> set[str]:
    folder = workplace.lake.folder(AGENT_EVENTS_LANDED, FIRST)
    return {path.name for path in folder.iterdir()}


def test_many_parts_become_one_with_every_row(many_parts: Workplace) -> None:
    before = many_parts.landed()
    assert len(landed_files(many_parts)) == 6
    (built,) = many_parts.build()
    assert isinstance(built, DateBuilt)
    assert built.facts["landed"] == 12
    assert built.facts["duplicates"] == 2
    (part,) = Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    assert (part.row_count, Path(part.path).name.startswith("merged-")) == (12, True)
    assert many_parts.landed().equals(before)


def test_merged_parts_stay_for_an_hour_for_readers(many_parts: Workplace) -> None:
    old = landed_files(many_parts)
    many_parts.build()
    assert old < landed_files(many_parts)
    build(many_parts, FIRST, later=timedelta(minutes=59))
    assert old < landed_files(many_parts)
    build(many_parts, FIRST, later=timedelta(minutes=61))
    assert len(landed_files(many_parts)) == 1
    assert many_parts.landed().height == 12


def test_a_merged_part_is_merged_again_with_later_parts(
    many_parts: Workplace,
) -> None:
    many_parts.build()
    for number in range(5, 8):
        many_parts.land("logs.jsonl", session(f"s{number}", number * 60), "ab")
        many_parts.ingest()
    (built,) = many_parts.build()
    assert isinstance(built, DateBuilt)
    assert built.facts["landed"] == 18
    assert len(Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)) == 1


def test_merging_changes_no_table(many_parts: Workplace, tmp_path: Path) -> None:
    many_parts.build()
    landing = many_parts.landing.root
    with open_workplace(tmp_path / "unmerged", landing_dir=landing) as unmerged:
        unmerged.ingest()
        unmerged.build()
        origin = ["source_file_id", "source_offset"]
        assert unmerged.events().drop(origin).equals(many_parts.events().drop(origin))
        assert unmerged.sessions().equals(many_parts.sessions())
        assert unmerged.performance().equals(many_parts.performance())


def test_files_left_by_a_crash_are_never_read_and_deleted_after_an_hour(
    many_parts: Workplace,
) -> None:
    orphan = many_parts.lake.folder(AGENT_EVENTS_LANDED, FIRST) / "orphan.parquet"
    many_parts.landed().write_parquet(orphan)
    an_hour_ago = (NOW - timedelta(hours=1, minutes=1)).timestamp()
    os.utime(orphan, (an_hour_ago, an_hour_ago))
    (built,) = many_parts.build()
    assert isinstance(built, DateBuilt)
    assert built.facts["landed"] == 12
    assert not orphan.exists()


def test_a_damaged_part_among_many_fails_the_merge_and_loses_no_part(
    many_parts: Workplace,
) -> None:
    parts = Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    damaged = many_parts.lake.root / parts[2].path
    content = damaged.read_bytes()
    damaged.write_bytes(b"not parquet")
    (failed,) = many_parts.build()
    assert isinstance(failed, DateFailed)
    assert f"{damaged} is damaged" in failed.error
    assert "restore it from a backup" in failed.error
    assert Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST) == parts
    damaged.write_bytes(content)
    (built,) = build(many_parts, later=timedelta(minutes=1))
    assert isinstance(built, DateBuilt)
    assert built.facts["landed"] == 12
