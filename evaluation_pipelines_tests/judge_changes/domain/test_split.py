"""The split of a shift into the parts of judge and agents, by hand."""

from datetime import date, timedelta

import polars as pl
import pytest

from evaluation_pipelines.judge_changes.domain.split import split
from evaluation_pipelines.judge_changes.domain.trend import points
from evaluation_pipelines_tests.judge_changes.change_builders import DAY, rows, simulated

PEOPLE = ["p1", "p2", "p3"]
DAYS = [DAY] * 3


def anchors(
    former: list[float], new: list[float], people: list[str | None], weights: list[float]
) -> pl.DataFrame:
    return rows(former, people, [DAY] * len(former)).select(
        "organization_id",
        "session_id",
        "session_date",
        "person",
        former_score=pl.Series(former),
        new_score=pl.Series(new),
        weight=pl.Series(weights),
    )


def test_the_agents_part_is_the_shift_without_the_judges_part() -> None:
    given = anchors([50, 60, 70], [53, 62, 74], [*PEOPLE], [1, 1, 1])
    found = split(given, rows([50, 60, 70], PEOPLE, DAYS), rows([60, 70, 83], PEOPLE, DAYS))

    # Differences 3, 2, 4: mean 3, variance 1 / 3. Means before 60 and after 71: a shift of 11.
    assert found.former.value == pytest.approx(60)
    assert found.new.value == pytest.approx(63)
    assert found.judges_part.value == pytest.approx(3)
    assert found.judges_part.variance == pytest.approx(1 / 3)
    assert found.shift is not None
    assert found.shift.value == pytest.approx(11)
    agents = found.agents_part
    assert agents is not None
    assert agents.value == pytest.approx(8)
    # The same people: each one's own shift less the judge's part, 10 - 3, 10 - 2 and 13 - 4: mean
    # 8, variance 2 / 2 / 3. Added variances (before 100 / 3, after 266 / 6, 1 / 3) would be 78.
    assert agents.variance == pytest.approx(1 / 3)
    # Own shifts 10, 10 and 13.
    assert found.shift.variance == pytest.approx(1)


def test_an_anchor_weighs_as_its_probability_was_low() -> None:
    given = anchors([50, 50], [54, 50], ["p1", "p2"], [3, 1])
    empty = rows([], [], [])
    found = split(given, empty, empty)

    # Three times 4 and once 0, by 4.
    assert found.judges_part.value == pytest.approx(3)
    assert (found.before, found.after, found.shift, found.agents_part) == (None,) * 4


@pytest.mark.parametrize(
    ("differences", "trend"),
    # 25 people: standard error sd / 5, t = 2.064. sd 9: half-width 3.7; sd 10: 4.1.
    [(9.0, "bridged"), (10.0, "cut")],
)
def test_a_wide_judges_part_cuts_the_trend(differences: float, trend: str) -> None:
    # 12 times +d, 12 times -d and 0: variance 24 d^2 / 24 = d^2.
    signs = [1] * 12 + [-1] * 12 + [0]
    people = [f"p{number}" for number in range(25)]
    given = anchors([50] * 25, [50 + differences * each for each in signs], [*people], [1] * 25)
    empty = rows([], [], [])

    assert split(given, empty, empty).trend == trend


def test_a_single_person_cuts_the_trend() -> None:
    empty = rows([], [], [])
    given = anchors([50, 60], [50, 60], ["p1", "p1"], [1, 1])

    assert split(given, empty, empty).trend == "cut"
    # In two organizations, too.
    in_two = given.with_columns(organization_id=pl.Series(["acme", "beta"]))
    assert split(in_two, empty, empty).trend == "cut"


def test_where_persons_are_unknown_sessions_and_days_are_clusters() -> None:
    empty = rows([], [], [])
    given = anchors([50, 60, 70], [51, 62, 73], [None, "p1", "p2"], [1, 1, 1])
    found = split(given, empty, empty)

    assert (found.clustered_by, found.judges_part.people) == ("session and day", 3)
    known = anchors([50] * 6, [50] * 6, [None, "p1", "p1", "p2", "p2", "p3"], [1] * 6)
    assert split(known, empty, empty).clustered_by == "person"
    assert split(known, empty, empty).judges_part.people == 3


def test_periods_begin_on_the_day_of_the_change() -> None:
    days = [DAY + timedelta(days=each) for each in (0, 1, 3, 4, 5, 7, 8)]
    found = points(rows([60, 70, 80, 10, 20, 30, 99], [None] * 7, days), DAY)

    # June 1 to 4: (60 + 70 + 80) / 3; June 5 to 8: 20; the one score of June 9 is no point.
    assert [(each.middle, each.mean, each.sessions) for each in found] == [(2, 70, 3), (6, 20, 3)]
    earlier = points(rows([60, 60, 90], [None] * 3, [date(2026, 5, 28)] * 3), DAY)
    assert [(each.middle, each.mean) for each in earlier] == [(-2, 70)]


def test_a_simulated_change_is_split_as_it_was_made() -> None:
    parts = simulated(4.0, 8.0).split
    assert parts is not None
    judges, agents = parts.judges_part.estimate, parts.agents_part
    assert agents is not None
    assert judges.low is not None
    assert judges.high is not None
    assert judges.low < 4 < judges.high
    low, high = agents.estimate.low, agents.estimate.high
    assert low is not None
    assert high is not None
    assert low < 8 < high
