"""Weighted means with errors of people and the split of a shift, by hand."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.judge_changes.domain.judge_change import (
    Mean,
    Part,
    period_means,
    split,
    sum_of_means,
)
from evaluation_pipelines_tests.judge_changes.change_builders import DAY, rows, simulated


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=np.float64)


def weighted_mean(values: np.ndarray, weights: np.ndarray, people: np.ndarray) -> Mean:
    return sum_of_means(Part(values, weights, people))


def test_one_value_a_person_is_students_interval() -> None:
    found = weighted_mean(array(1, 2, 6), np.ones(3), np.arange(3))

    # Mean 3, squares 4 + 1 + 9 = 14, variance 14 / 2 / 3 = 7 / 3, 2 degrees of freedom: t = 4.3027.
    assert (found.value, found.people) == (3, 3)
    assert found.variance == pytest.approx(7 / 3)
    assert found.freedom == pytest.approx(2)
    assert found.half_width == pytest.approx(4.3027 * (7 / 3) ** 0.5, abs=1e-3)


def test_people_with_as_many_sessions_count_by_their_means() -> None:
    values, people = array(0, 2, 3, 5, 9, 11), np.asarray([0, 0, 1, 1, 2, 2])
    found = weighted_mean(values, np.ones(6), people)

    # Means 1, 4 and 10: mean 5, squares 16 + 1 + 25 = 42, variance 42 / 2 / 3 = 7.
    assert found.value == pytest.approx(5)
    assert found.variance == pytest.approx(7)
    assert found.freedom == pytest.approx(2)


def test_weights_are_those_of_the_sessions() -> None:
    found = weighted_mean(array(10, 20), array(3, 1), np.arange(2))

    # (3 * 10 + 20) / 4. With one session a person, people are alike by nothing but themselves:
    # shares 3/4 and 1/4, sum of squares 10/16; residuals -2.5 and 7.5.
    # 9/16 * 6.25 / (1 - 3/2 + 5/8) + 1/16 * 56.25 / (1 - 1/2 + 5/8) = 28.125 + 3.125.
    assert found.value == pytest.approx(12.5)
    assert found.variance == pytest.approx(31.25)
    # Two people leave one degree of freedom, whatever their shares.
    assert found.freedom == pytest.approx(1)


def test_a_person_with_most_of_the_sessions_leaves_few_degrees_of_freedom() -> None:
    random = np.random.default_rng(3)
    people = np.repeat(np.arange(5), [60, 15, 15, 15, 15])
    values = random.normal(0, 1, 120) + random.normal(0, 4, 5)[people]

    # Half of the weight is one person's: less than 2 instead of 4.
    assert weighted_mean(values, np.ones(120), people).freedom < 2


def test_a_single_person_and_equal_values_have_no_error() -> None:
    found = weighted_mean(array(1, 3), np.ones(2), np.zeros(2, dtype=np.int64))
    assert (found.value, found.variance, found.half_width) == (2, None, None)
    assert found.columns("x") == {"x": 2, "x_low": None, "x_high": None}
    found = weighted_mean(np.full(4, 7.0), np.ones(4), np.asarray([0, 0, 1, 1]))
    assert (found.value, found.variance, found.half_width) == (7, 0, 0)
    # Unknown persons are one unit and no person.
    people = np.asarray([UNKNOWN_PERSON, UNKNOWN_PERSON, 1, 2])
    found = weighted_mean(array(1, 3, 2, 2), np.ones(4), people)
    assert (found.people, found.variance is None) == (2, False)


def test_the_same_people_in_two_parts_are_compared_with_themselves() -> None:
    after = Part(array(60, 70, 83), np.ones(3), np.arange(3))
    before = Part(array(50, 60, 70), np.ones(3), np.arange(3), sign=-1)
    found = sum_of_means(after, before)

    # Own differences 10, 10, 13: mean 11, squares 1 + 1 + 4 = 6, variance 6 / 2 / 3 = 1.
    assert found.people == 3
    assert found.value == pytest.approx(11)
    assert found.variance == pytest.approx(1)
    assert found.freedom == pytest.approx(2)


def test_the_variances_of_other_people_are_added() -> None:
    first = Part(array(1, 2, 6), np.ones(3), np.arange(3))
    second = Part(array(4, 5, 9), np.ones(3), np.arange(3, 6), sign=-1)
    found = sum_of_means(first, second)

    # 7 / 3 each, as above. Degrees of freedom after Welch with equal variances: 2 + 2.
    assert found.value == pytest.approx(-3)
    assert found.variance == pytest.approx(14 / 3)
    assert found.freedom == pytest.approx(4)
    # Who is unknown before is not who is unknown after.
    unknown = np.asarray([UNKNOWN_PERSON, 1, 2])
    apart = np.asarray([UNKNOWN_PERSON, 3, 4])
    same = [
        sum_of_means(replace(first, people=a), replace(second, people=b))
        for a, b in ((unknown, apart), (np.arange(3), np.arange(3, 6)))
    ]
    assert same[0].variance == pytest.approx(same[1].variance)
    assert same[0].people == 2


def test_a_part_of_a_single_person_leaves_no_error() -> None:
    both, one = (
        Part(array(1, 3), np.ones(2), np.arange(2)),
        Part(array(2), np.ones(1), np.zeros(1, dtype=np.int64)),
    )

    assert sum_of_means(both, one).variance is None
    assert sum_of_means(both, one).value == 4


PEOPLE = ["p1", "p2", "p3"]
NONE = rows([], [], [])
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
    # The same people: each one's own shift less the judge's part, 10 - 3, 10 - 2 and 13 - 4: mean
    # 8, variance 2 / 2 / 3. Added variances (before 100 / 3, after 266 / 6, 1 / 3) would be 78.
    half = 4.3027 * (1 / 3) ** 0.5  # 2 degrees of freedom
    expected = {
        "former_anchor_score": 60,
        "new_anchor_score": 63,
        "judges_part": 3,
        "half_width": half,
        "judges_part_low": 3 - half,
        "judges_part_high": 3 + half,
        "before_score": 60,
        "before_sessions": 3,
        "after_score": 71,
        "after_sessions": 3,
        "shift": 11,
        "agents_part": 8,
        "agents_part_low": 8 - half,
        "agents_part_high": 8 + half,
        "people": 3,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-3)
    assert (found["trend"], found["reason"], found["clustered_by"]) == ("bridged", None, "person")


def test_an_anchor_weighs_as_its_probability_was_low() -> None:
    given = anchors([50, 50], [54, 50], ["p1", "p2"], [3, 1])
    found = split(given, NONE, NONE)

    # Three times 4 and once 0, by 4; 50 + 3.
    assert (found["judges_part"], found["new_anchor_score"]) == (3, 53)
    assert (found["before_score"], found["after_score"]) == (None, None)
    assert not {"shift", "agents_part"} & found.keys()


@pytest.mark.parametrize(
    ("differences", "trend"),
    # 25 people: standard error sd / 5, t = 2.064. sd 9: half-width 3.7; sd 10: 4.1.
    [(9.0, "bridged"), (10.0, "cut")],
)
def test_a_wide_judges_part_cuts_the_trend(differences: float, trend: str) -> None:
    # 12 times +d, 12 times -d and 0: variance 24 d^2 / 24 = d^2.
    signs = [1] * 12 + [-1] * 12 + [0]
    people = [f"p{number}" for number in range(25)]
    given = anchors([50] * 25, [50 + differences * sign for sign in signs], [*people], [1] * 25)

    found = split(given, NONE, NONE)
    assert found["trend"] == trend
    if trend == "cut":
        assert found["reason"] == "the judge's part is known to within 4.1 points only"


def test_a_single_person_cuts_the_trend() -> None:
    given = anchors([50, 60], [50, 60], ["p1", "p1"], [1, 1])

    assert split(given, NONE, NONE)["reason"] == "the anchors are of a single person"
    # In two organizations, too.
    in_two = given.with_columns(organization_id=pl.Series(["acme", "beta"]))
    assert split(in_two, NONE, NONE)["trend"] == "cut"


def test_where_persons_are_unknown_sessions_and_days_are_clusters() -> None:
    given = anchors([50, 60, 70], [51, 62, 73], [None, "p1", "p2"], [1, 1, 1])
    found = split(given, NONE, NONE)

    assert (found["clustered_by"], found["people"]) == ("session and day", 3)
    known = anchors([50] * 6, [50] * 6, [None, "p1", "p1", "p2", "p2", "p3"], [1] * 6)
    found = split(known, NONE, NONE)
    assert (found["clustered_by"], found["people"]) == ("person", 3)


def test_periods_begin_on_the_day_of_the_change() -> None:
    days = [DAY + timedelta(days=each) for each in (0, 1, 3, 4, 5, 7, 8)]
    found = period_means(rows([60, 70, 80, 10, 20, 30, 99], [None] * 7, days), DAY)

    # June 1 to 4: (60 + 70 + 80) / 3; June 5 to 8: 20; the one score of June 9 is no mean.
    assert found.rows() == [(2, 70, 3), (6, 20, 3)]
    earlier = period_means(rows([60, 60, 90], [None] * 3, [date(2026, 5, 28)] * 3), DAY)
    assert earlier.rows() == [(-2, 70, 3)]


def test_a_simulated_change_is_split_as_it_was_made() -> None:
    row = simulated(4.0, 8.0).row
    assert row["judges_part_low"] < 4 < row["judges_part_high"]
    assert row["agents_part_low"] < 8 < row["agents_part_high"]
