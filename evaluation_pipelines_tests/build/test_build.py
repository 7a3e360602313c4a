"""Build: dates together, and each as if by itself, from however many parts."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
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
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.ledger.manifest import Manifest
from evaluation_pipelines_tests.otlp_builders import DAY_S, claude, line, session
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

FIRST = date(2026, 6, 1)
SECOND = date(2026, 6, 2)


@pytest.fixture
def two_dates(workplace: Workplace) -> Workplace:
    """A session each on June 1st and 2nd, ingested and not yet built."""
    workplace.land("logs.jsonl", b"".join(session(f"s{day}", day * DAY_S) for day in range(2)))
    workplace.ingest()
    return workplace


def build(workplace: Workplace, *dates: date, later: timedelta = timedelta()) -> list[object]:
    """Build some dates, some time later; with none, those that are due."""
    job = Build(workplace.stores, clock=lambda: NOW + later)
    return list(job.run(dates or job.pending_dates()))


def only_part(workplace: Workplace, day: date) -> Path:
    """The file of the one landed part of a date."""
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


def test_a_date_that_is_built_again_is_the_same_to_the_last_byte(two_dates: Workplace) -> None:
    two_dates.build()
    lake = two_dates.lake
    paths = [lake.partition(table, FIRST) for table in (AGENT_EVENTS, AGENT_SESSIONS)]
    before = [path.read_bytes() for path in paths]
    build(two_dates, FIRST)
    assert [path.read_bytes() for path in paths] == before


class Steps(Silent):
    """A progress that notes by how much it advanced."""

    def __init__(self) -> None:
        self.units: list[int] = []

    def advance(self, units: int) -> None:
        """Dates were built."""
        self.units.append(units)


@pytest.mark.parametrize(
    ("limits", "begun", "finished"),
    [
        ({}, [[2]], [2]),
        ({"_BEGUN_TOGETHER_BYTES": 1}, [[1, 1]], [2]),
        ({"_BEGUN_TOGETHER_BYTES": 1, "_FINISHED_TOGETHER_BYTES": 1}, [[1], [1]], [1, 1]),
        ({"_MOST_TOGETHER": 1}, [[1], [1]], [1, 1]),
    ],
)
def test_so_many_dates_are_built_together_as_fit(
    two_dates: Workplace,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    begun: list[list[int]],
    finished: list[int],
) -> None:
    for limit, value in limits.items():
        monkeypatch.setattr(f"evaluation_pipelines.build.batch_plan.{limit}", value)
    steps = Steps()
    lists = plan_batches(two_dates.stores, [FIRST, SECOND])
    assert [[len(group.days) for group in groups] for groups in lists] == begun
    results = Build(two_dates.stores, [AGENT_EVENTS.name]).run([FIRST, SECOND], steps)
    assert [each.session_date for each in results] == [FIRST, SECOND]
    assert steps.units == finished


@pytest.mark.parametrize(
    "limits",
    [{"_MOST_TOGETHER": 1}, {"_BEGUN_TOGETHER_BYTES": 1}, {"_FINISHED_TOGETHER_BYTES": 1}],
    ids=["alone", "begun alone", "finished alone"],
)
def test_dates_that_are_begun_ahead_are_the_same_to_the_last_byte_and_told_in_order(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    days = [FIRST + timedelta(days=number) for number in range(5)]
    workplace.land("logs.jsonl", b"".join(session(f"s{n}", n * DAY_S) for n in range(5)))
    workplace.ingest()
    build(workplace, *days)
    files = {path: path.read_bytes() for path in workplace.lake.root.rglob("*.parquet")}
    told: dict[str, list[date]] = defaultdict(list)

    def note(made: Mapping[date, BuiltPartition]) -> None:
        for day, each in made.items():
            told[each.table.name].append(day)

    for limit, value in limits.items():
        monkeypatch.setattr(f"evaluation_pipelines.build.batch_plan.{limit}", value)
    monkeypatch.setattr("evaluation_pipelines.build.build._cores", lambda: 3)
    only_part(workplace, days[2]).write_bytes(b"not parquet")
    results = Build(workplace.stores, on_made=note, clock=lambda: NOW).run(days)

    assert [type(each) is DateBuilt for each in results] == [day != days[2] for day in days]
    good = [day for day in days if day != days[2]]
    assert dict(told) == {table.table.name: good for table in DAILY_TABLES}
    damaged = only_part(workplace, days[2])
    assert {path: path.read_bytes() for path in files if path != damaged} == {
        path: content for path, content in files.items() if path != damaged
    }


def test_a_session_on_two_dates_is_scored_on_each_by_itself(two_dates: Workplace) -> None:
    build(two_dates, FIRST, SECOND)
    lake, scored = two_dates.lake, [SCORECARDS.name, SESSION_EVALUATIONS.name]
    first = lake.read(AGENT_SESSIONS, [FIRST])
    twice = [pl.lit(first[name].item()).alias(name) for name in ("session_id", "session_key")]
    for table in (AGENT_SESSIONS, SESSION_PERFORMANCE, TOOL_REPORTS):
        lake.write(lake.read(table, [SECOND]).with_columns(twice), table, SECOND)
    files = lake.files(SCORECARDS, SECOND)
    for path in files:
        path.unlink()
    batch = Batch(two_dates.stores, [FIRST, SECOND], NOW)
    with pytest.raises(SeveralDatesError, match=f"is on {FIRST} and another date"):
        session_evaluations(batch)

    together = Build(two_dates.stores, scored, clock=lambda: NOW).run([FIRST, SECOND])
    written = {path: path.read_bytes() for path in lake.root.rglob("*.parquet")}
    for day in (FIRST, SECOND):
        Build(two_dates.stores, scored, clock=lambda: NOW).run([day])

    assert {type(each) for each in together} == {DateBuilt}
    assert lake.files(SCORECARDS, SECOND) == files
    assert {path: path.read_bytes() for path in lake.root.rglob("*.parquet")} == written


@pytest.mark.parametrize("table", [SESSION_PERFORMANCE, TOOL_REPORTS])
def test_what_another_date_still_has_of_a_session_does_not_count_for_it(
    two_dates: Workplace, table: Table
) -> None:
    build(two_dates, FIRST, SECOND)
    lake = two_dates.lake
    of_first = lake.read(table, [FIRST]).with_columns(session_date=pl.lit(SECOND))
    lake.write(pl.concat([lake.read(table, [SECOND]), of_first]), table, SECOND)
    with pytest.raises(SeveralDatesError, match="and another date"):
        session_evaluations(Batch(two_dates.stores, [FIRST, SECOND], NOW))


def test_rows_of_what_is_told_later_do_not_stay_in_memory() -> None:
    frame = pl.DataFrame({"n": range(100), "text": ["long enough not to be in the view"] * 100})
    made = BuiltPartition(AGENT_EVENTS, frame, (), {"landed": 100})
    glimpse = made.glimpse()
    assert glimpse.frame.equals(frame.head(8))
    assert glimpse.frame.estimated_size() < frame.estimated_size() / 10
    assert (glimpse.row_count, glimpse.glimpse().row_count) == (100, 100)
    assert (made.row_count, glimpse.facts) == (100, made.facts)


def test_what_was_left_for_all_dates_of_a_batch_is_for_none_of_a_part(workplace: Workplace) -> None:
    left = pl.DataFrame({"n": [1]})
    batch = Batch(workplace.stores, [FIRST, SECOND], NOW, tool_calls=left, evidence=left)
    assert batch.without([]) is batch
    part = batch.without([SECOND])
    assert (part.days, part.tool_calls, part.evidence) == ([FIRST], None, None)
    assert part.scores is batch.scores


def test_calls_that_cannot_be_read_cost_the_reports_and_not_the_windows(
    two_dates: Workplace,
) -> None:
    path = only_part(two_dates, FIRST)
    torn = pl.read_parquet(path).with_columns(attributes=pl.lit("not JSON"))
    torn.write_parquet(path)
    failed, second = two_dates.build()
    assert isinstance(second, DateBuilt)
    assert isinstance(failed, DateFailed)
    assert failed.table == "tool_reports"
    assert two_dates.sessions()["session_date"].to_list() == [FIRST, SECOND]


def test_an_event_that_comes_later_makes_its_date_due_and_its_session_grow(
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
    # One second, and then days of silence that count as half an hour.
    assert grown["active_s"] == 1 + 30 * 60


def test_a_date_of_which_nothing_landed_becomes_empty_tables(workplace: Workplace) -> None:
    (result,) = build(workplace, FIRST)
    assert isinstance(result, DateBuilt)
    assert set(result.rows.values()) == {0}
    assert workplace.lake.partitions(AGENT_SESSIONS) == [FIRST]


# -- failures --------------------------------------------------------------------------------------


def test_a_damaged_part_fails_its_date_with_its_path_and_the_next_one_is_built(
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

    # Not tried again within the minute, tried and mended after it.
    assert build(two_dates) == []
    damaged.write_bytes(content)
    (mended,) = build(two_dates, later=timedelta(minutes=1))
    assert isinstance(mended, DateBuilt)
    assert RebuildQueue(two_dates.ledger).pending(NOW + timedelta(days=1)) == []


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
    (mended,) = build(two_dates)
    assert isinstance(mended, DateBuilt)
    assert mended.rows["agent_sessions"] == 2


def test_a_damaged_partition_of_the_past_is_named_by_the_date_that_needs_it(
    two_dates: Workplace,
) -> None:
    two_dates.build()
    damaged = two_dates.lake.partition(AGENT_SESSIONS, FIRST)
    damaged.write_bytes(b"not parquet")
    (failed,) = build(two_dates, SECOND)
    assert isinstance(failed, DateFailed)
    assert failed.table == "session_performance"
    assert failed.error.startswith(f"LakeError: cannot read {damaged}: ")
    # Its advice helps: build that date again, then this one.
    assert {type(each) for each in build(two_dates, FIRST, SECOND)} == {DateBuilt}


# -- percentiles -----------------------------------------------------------------------------------


def sessions_of(day: int, prefix: str, outcomes: list[str], count: int, **resource: str) -> bytes:
    """Sessions of one prompt and a tool call for each outcome, so many days after June 1st."""
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
    """All are of one class, unclassified: they have fewer than three calls.

    Without tokens and cost the composite is
    (0.30 * quality + 0.25 * 2 * calls + 0.20 * productivity) / 0.75:
    one failed call 0.67, one good call 7.33, two good calls 8.00.
    """
    monkeypatch.setattr("evaluation_pipelines.build.batch_plan._MOST_TOGETHER", together)
    monkeypatch.setattr("evaluation_pipelines.build.build._cores", lambda: 3)
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
    """Six small ingests of one date, one of which read a copy; four parts are merged."""
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


def test_merged_parts_stay_an_hour_for_those_who_still_read_them(many_parts: Workplace) -> None:
    old = landed_files(many_parts)
    many_parts.build()
    assert old < landed_files(many_parts)
    build(many_parts, FIRST, later=timedelta(minutes=59))
    assert old < landed_files(many_parts)
    build(many_parts, FIRST, later=timedelta(minutes=61))
    assert len(landed_files(many_parts)) == 1
    assert many_parts.landed().height == 12


def test_a_merged_part_is_merged_again_with_those_that_come_after_it(
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


def test_what_a_crash_left_behind_is_swept_after_an_hour_and_was_never_read(
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


def test_a_damaged_part_among_many_fails_the_merge_and_loses_none(many_parts: Workplace) -> None:
    parts = Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    damaged = many_parts.lake.root / parts[2].path
    content = damaged.read_bytes()
    damaged.write_bytes(b"not parquet")
    (failed,) = many_parts.build()
    assert isinstance(failed, DateFailed)
    assert f"cannot read {damaged}" in failed.error
    assert "restore it from a backup" in failed.error
    assert Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST) == parts
    damaged.write_bytes(content)
    (mended,) = build(many_parts, later=timedelta(minutes=1))
    assert isinstance(mended, DateBuilt)
    assert mended.facts["landed"] == 12
