"""Percentiles of dates that are built already, when scores that they rank among change."""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.build.build import Build
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, SESSION_PERFORMANCE
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.build.two_dates import FIRST, SECOND, build
from evaluation_pipelines_tests.lake_files import root_of
from evaluation_pipelines_tests.otlp_builders import DAY_S, claude, line, session
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    with open_workplace(tmp_path) as opened:
        yield opened


def land(workplace: Workplace, name: str, *sessions: bytes) -> None:
    workplace.land(f"{name}.jsonl", b"".join(sessions))
    workplace.ingest()


def failing(name: str) -> bytes:
    """One line of the first date: a session whose only call fails, below one whose call is good."""
    call = claude("tool_result", 1, session__id=name, tool_name="Read", success="false")
    return line(claude("user_prompt", 0, session__id=name), call)


def percentiles(workplace: Workplace, day: date) -> list[float | None]:
    rows = workplace.lake.read(SESSION_PERFORMANCE, [day], ["percentile_in_class"])
    return rows["percentile_in_class"].unique(maintain_order=True).to_list()


def due(workplace: Workplace, later: timedelta = timedelta()) -> list[date]:
    return Build(workplace.stores, clock=lambda: NOW + later).pending_dates()


def test_late_telemetry_of_an_earlier_date_moves_percentiles(workplace: Workplace) -> None:
    land(workplace, "a", *(failing(f"a{n}") for n in range(20)), session("b", DAY_S))
    build(workplace)
    assert (percentiles(workplace, SECOND), due(workplace)) == ([100.0], [])

    land(workplace, "late", *(session(f"c{n}") for n in range(20)))
    build(workplace)
    assert due(workplace) == [SECOND]
    build(workplace)
    # 20 are lower, 20 are equal.
    assert (percentiles(workplace, SECOND), due(workplace)) == ([75.0], [])


def test_percentiles_do_not_depend_on_the_order_of_builds(workplace: Workplace) -> None:
    land(workplace, "a", *(failing(f"a{n}") for n in range(20)), session("b", DAY_S))
    build(workplace, SECOND)
    assert percentiles(workplace, SECOND) == [None]
    build(workplace, FIRST)
    assert due(workplace) == [SECOND]
    build(workplace)
    assert (percentiles(workplace, SECOND), due(workplace)) == ([100.0], [])


def test_only_the_four_weeks_after_it_rank_among_a_date(workplace: Workplace) -> None:
    later = [session(f"b{days}", days * DAY_S) for days in (28, 29)]
    land(workplace, "a", *(session(f"a{n}") for n in range(20)), *later)
    build(workplace)
    land(workplace, "late", failing("late"))
    build(workplace)
    assert due(workplace) == [FIRST + timedelta(days=28)]


def test_dates_whose_percentiles_stay_the_same_are_not_built_again(workplace: Workplace) -> None:
    land(workplace, "a", *(session(f"a{n}") for n in range(18)), session("b", DAY_S))
    build(workplace)
    build(workplace, FIRST)
    assert due(workplace) == []
    # 19 are too few for a percentile, and a session without a call is none of 20.
    talk = line(claude("user_prompt", 0, session__id="talk"))
    land(workplace, "late", session("late"), talk)
    build(workplace)
    assert (percentiles(workplace, SECOND), due(workplace)) == ([None], [])
    land(workplace, "later", session("later"))
    build(workplace)
    assert due(workplace) == [SECOND]
    build(workplace)
    assert (percentiles(workplace, SECOND), due(workplace)) == ([50.0], [])


def test_a_date_that_is_built_meanwhile_stays_due(workplace: Workplace) -> None:
    """Its build may have read the scores of before."""
    land(workplace, "a", session("a"), session("b", DAY_S))
    queue = RebuildQueue(workplace.ledger)
    begun = queue.get(SECOND)
    build(workplace, FIRST)
    assert begun is not None
    assert not queue.mark_built(SECOND, begun.version)
    assert due(workplace) == [SECOND]


def test_a_date_that_waits_keeps_its_place_and_holder(workplace: Workplace) -> None:
    land(workplace, "a", session("a"), session("b", DAY_S))
    queue, until = RebuildQueue(workplace.ledger), NOW + timedelta(minutes=5)
    queue.touch([SECOND], NOW - timedelta(hours=1), held_until=until)
    build(workplace, FIRST)
    (held,) = queue.held(NOW)
    assert (held.session_date, held.next_attempt_at) == (SECOND, until)
    assert held.touched_at == NOW - timedelta(hours=1)


def test_a_damaged_file_of_scores_is_replaced_and_one_of_another_date_may_hide_any(
    workplace: Workplace,
) -> None:
    land(workplace, "a", session("a"), session("b", DAY_S), session("c", 2 * DAY_S))
    build(workplace)
    delete_scores(workplace, FIRST)
    build(workplace, FIRST)
    assert due(workplace) == []

    delete_scores(workplace, SECOND)
    land(workplace, "late", session("late"))
    build(workplace)
    assert due(workplace) == [SECOND, SECOND + timedelta(days=1)]


def test_a_date_of_a_build_that_comes_to_nothing_is_due(workplace: Workplace) -> None:
    land(workplace, "a", *(failing(f"a{n}") for n in range(20)), session("b", DAY_S))
    build(workplace)
    land(workplace, "late", *(session(f"c{n}") for n in range(20)))
    (part,) = workplace.lake.parts(AGENT_EVENTS_LANDED, [SECOND])
    file = root_of(workplace.lake) / part.path
    content = file.read_bytes()
    file.write_bytes(content[:100])
    build(workplace, FIRST, SECOND)
    file.write_bytes(content)
    assert due(workplace, timedelta(minutes=1)) == [SECOND]
    build(workplace, later=timedelta(minutes=1))
    assert (percentiles(workplace, SECOND), due(workplace)) == ([75.0], [])


def test_scores_that_another_process_builds_meanwhile_are_read_again(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.build.batch_plan._MAX_BATCH_DATES", 1)
    days = [FIRST + timedelta(days=each) for each in range(4)]
    later = [session(f"b{n}", n * DAY_S) for n in (1, 2, 3)]
    land(workplace, "a", *(failing(f"a{n}") for n in range(20)), *later)
    build(workplace, FIRST)

    def build_first_again(published: Mapping[date, BuiltPartition]) -> None:
        table = next(iter(published.values())).table
        if table is SESSION_PERFORMANCE and list(published) == [SECOND]:
            land(workplace, "late", *(session(f"c{n}") for n in range(20)))
            build(workplace, FIRST)

    Build(workplace.stores, on_published=build_first_again, clock=lambda: NOW).run(days[1:])
    while due(workplace):
        build(workplace)
    # Of each date: 20 are lower; 20 of the first date and those between are equal.
    expected = [100 * (20 + (20 + n) / 2) / (40 + n) for n in (0, 1, 2)]
    assert [percentiles(workplace, day) for day in days[1:]] == [[each] for each in expected]


def delete_scores(workplace: Workplace, day: date) -> None:
    (part,) = workplace.lake.parts(SESSION_PERFORMANCE, [day])
    workplace.lake.store.delete(part.path)
