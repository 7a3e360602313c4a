"""Scores of late against those before: what is claimed, and what is not."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.before_after import (
    BeforeAfter,
    Days,
    before_after,
    sentences,
)
from evaluation_pipelines_tests.world.rows import Row
from evaluation_pipelines_tests.world.runs import run as any_run
from evaluation_pipelines_tests.world.runs import runs as frame

START = date(2026, 5, 4)
BEFORE: Days = START, START + timedelta(days=27)
RECENT: Days = START + timedelta(days=28), START + timedelta(days=55)
WEEK_BEFORE: Days = START + timedelta(days=42), START + timedelta(days=48)
WEEK: Days = START + timedelta(days=49), START + timedelta(days=55)
MONTHS, WEEKS = (RECENT, BEFORE), (WEEK, WEEK_BEFORE)


def run(day: int, score: float | None, person: int, **more: Any) -> Row:
    start = datetime(START.year, START.month, START.day, 12, tzinfo=UTC) + timedelta(days=day)
    scored = {"effective_source": "scorecard", "person": f"p{person}", "started_at": start}
    return any_run(1000 * day + person, score, **(scored | more))


def runs(days: Sequence[int], level: float, people: int = 6, **more: Any) -> list[Row]:
    """Return a run of each person on each day; the scores of a day lie around ``level``."""
    return [
        run(day, level + (day * 7 + person * 5) % 11 - 5, person, **more)
        for day in days
        for person in range(people)
    ]


def compared(rows: list[Row], *choices: tuple[Days, Days]) -> BeforeAfter:
    return before_after(frame(rows), choices or (MONTHS,))


ALL_BEFORE, ALL_RECENT = range(0, 28, 3), range(28, 56, 3)


def test_a_rise_and_a_fall_are_told_with_their_interval() -> None:
    rise = compared([*runs(ALL_BEFORE, 60), *runs(ALL_RECENT, 75)])
    fall = compared([*runs(ALL_BEFORE, 75), *runs(ALL_RECENT, 60)])
    assert (rise.state, fall.state) == ("better", "worse")
    # The means of the pattern, by hand: 59.9 of both times.
    assert rise.found.value == pytest.approx(15, abs=0.5)
    answer, because = sentences(rise)
    assert answer == "Getting better"
    low, high = (f"{end:.1f}" for end in (rise.found.low, rise.found.high))
    assert f" ({low} to {high})." in because
    assert because.startswith("Up 1")
    assert "(2026-06-01 to 2026-06-28 against 2026-05-04 to 2026-05-31)" in because
    assert "Based on 60 of 60 and 60 of 60 scored sessions" in because
    assert sentences(fall)[0] == "Getting worse"


def test_the_same_level_is_no_clear_change() -> None:
    found = compared([*runs(ALL_BEFORE, 70), *runs(ALL_RECENT, 70.5)])
    assert found.state == "unclear"
    assert ", which may be chance (-" in sentences(found)[1]


def test_scores_that_are_all_alike_are_no_change() -> None:
    rows = [run(day, 80.0, person) for day in (*ALL_BEFORE, *ALL_RECENT) for person in range(6)]
    assert compared(rows).state == "unclear"


def test_a_change_of_the_mix_of_tasks_is_no_change() -> None:
    rows = [
        *runs(ALL_BEFORE, 90, task_class="read"),
        *runs(ALL_BEFORE[:4], 50, task_class="edit"),
        *runs(ALL_RECENT[:4], 90, task_class="read"),
        *runs(ALL_RECENT, 50, task_class="edit"),
    ]
    means = [np.mean([run["score"] for run in part]) for part in (rows[:84], rows[84:])]
    assert means[0] - means[1] > 15  # the naive difference
    found = compared(rows)
    assert found.state == "unclear"
    assert found.found.value == pytest.approx(0, abs=1.5)


def test_four_people_or_four_days_tell_nothing() -> None:
    few = compared([*runs(ALL_BEFORE, 50, 4), *runs(ALL_RECENT, 90, 4)])
    assert few.state == "indication"
    assert sentences(few)[0] == "Too early to tell"
    assert "5 people are needed in each period, and there are 4." in sentences(few)[1]
    days = compared([*runs(ALL_BEFORE, 50), *runs(ALL_RECENT[:4], 90)])
    assert "5 days with sessions are needed in each period, and there are 4." in sentences(days)[1]
    unknown = [{**run, "person": None} for run in (*runs(ALL_BEFORE, 50), *runs(ALL_RECENT, 90))]
    assert "The people are unknown for many of these sessions." in sentences(compared(unknown))[1]


def test_too_few_and_unlike_sessions_are_counted() -> None:
    few = [*runs(range(6), 60, 1), *runs(ALL_RECENT, 60), run(3, None, 9)]
    answer, because = sentences(compared(few))
    assert answer == "Too few sessions"
    assert because == (
        "Each period needs 10 scored sessions. 2026-06-01 to 2026-06-28 has 60, "
        "2026-05-04 to 2026-05-31 has 6."
    )
    scored_otherwise = runs(ALL_RECENT, 60, effective_source="judge")
    answer, because = sentences(compared([*runs(ALL_BEFORE, 60), *scored_otherwise]))
    assert answer == "Not comparable"
    assert because.startswith("Each period needs 10 comparable sessions (same task classes). ")
    assert "2026-06-01 to 2026-06-28 has 0," in because


def test_shorter_times_are_compared_where_the_long_ones_have_too_few() -> None:
    recent = runs(range(42, 56), 60)
    assert compared(recent, MONTHS, WEEKS).recent.days == WEEK
    assert compared([*recent, *runs(ALL_BEFORE, 60)], MONTHS, WEEKS).recent.days == RECENT
    assert compared(recent[:3], MONTHS, WEEKS).recent.days == RECENT


def histories(number: int) -> Iterator[list[Row]]:
    """Yield histories without a change: people, days and people's days have levels of their own."""
    draw = np.random.default_rng(5)
    for _ in range(number):
        of_people, of_days = draw.normal(0, 8, 7), draw.normal(0, 3, 56)
        yield [
            run(day, 70 + of_people[person] + of_days[day] + draw.normal(0, 12), person)
            for day in range(56)
            for person in range(7)
            if draw.random() < 0.3
        ]


def test_hardly_any_history_without_a_change_is_told_as_one() -> None:
    states = [compared(history).state for history in histories(120)]
    claims = sum(state in {"better", "worse"} for state in states)
    # 5 of 100 are allowed: 12 of 120 are more than two standard errors above.
    assert claims < 12
    assert states.count("unclear") + claims == 120
