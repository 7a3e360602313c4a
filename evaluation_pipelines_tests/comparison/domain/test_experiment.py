"""Experiments by hand: assignment, looks, both units, and when there is no verdict."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.experiment import people_needed, result
from evaluation_pipelines.comparison.domain.experiment_plan import Plan, read_plan

PLAN = Plan("x", ("a", "b"), 0.5, "session", 10, date(2026, 11, 1), "effective", None, None, "00")
BY_PERSON = replace(PLAN, unit="person")


def units(rows: Sequence[tuple[str, str, float | None, float | None]]) -> pl.DataFrame:
    """Sessions: person, arm, value, baseline."""
    return pl.DataFrame(
        [(f"s{at}", *row) for at, row in enumerate(rows)],
        schema=["unit", "person", "arm", "value", "baseline"],
        orient="row",
    )


def sessions(differences: Sequence[float]) -> list[tuple[str, str, float | None, float | None]]:
    """Two sessions of each person in each arm, whose means differ by each difference."""
    return [
        (f"p{at}", arm, 50 + add + difference * (arm == "a"), None)
        for at, difference in enumerate(differences)
        for arm in "ab"
        for add in (-5, 5)
    ]


def people(
    first: Sequence[float], second: Sequence[float]
) -> list[tuple[str, str, float | None, float | None]]:
    """A session of each person, better than the person's baseline by each change."""
    sides = [(arm, changes) for arm, changes in (("a", first), ("b", second))]
    return [
        (f"{arm}{at}", arm, 40 + at + change, 40.0 + at)
        for arm, changes in sides
        for at, change in enumerate(changes)
    ]


def test_a_unit_always_has_the_same_arm_and_shares_hold() -> None:
    arms = [PLAN.arm(f"s{at}") for at in range(2000)]
    assert arms == [PLAN.arm(f"s{at}") for at in range(2000)]
    # 1,000 are expected, with a standard error of 22.
    assert 910 <= arms.count("a") <= 1090
    assert [replace(PLAN, key="01").arm(f"s{at}") for at in range(50)] != arms[:50]
    third = replace(PLAN, share=0.3)
    assert 500 <= sum(third.arm(f"s{at}") == "a" for at in range(2000)) <= 700


def test_three_looks_are_due_after_a_third_two_thirds_and_all_days() -> None:
    assert PLAN.look_days == (date(2026, 11, 5), date(2026, 11, 8), date(2026, 11, 11))
    due = [PLAN.due(date(2026, 11, day)) for day in (1, 4, 5, 7, 8, 10, 11, 30)]
    assert due == [0, 0, 1, 1, 2, 2, 3, 3]


def test_sessions_are_compared_within_people() -> None:
    found = result(PLAN, units(sessions([2, 4, 6, 8, 10])))
    # Mean 6, s² = 40 / 4 = 10, s / sqrt(5) = 1.4142, t(1 - 0.05/6, 4) = 3.961: half 5.602.
    assert (found.value, found.low, found.high) == pytest.approx((6, 0.398, 11.602), abs=2e-3)
    assert (found.people, found.verdict) == ((5,), "first")
    assert result(PLAN, units(sessions([-2, -4, -6, -8, -10]))).verdict == "second"
    assert result(PLAN, units(sessions([0, 4, 6, 8, 10]))).verdict is None


def test_people_are_compared_by_their_change() -> None:
    first, second = [2, 3, 4, 5, 6], [-2, -1, 0, 1, 2]
    found = result(BY_PERSON, units(people(first, second)))
    # Means 4 and 0, variances 2.5: error sqrt(2.5/5 + 2.5/5) = 1, 8 degrees, t 3.016.
    assert (found.value, found.low, found.high) == pytest.approx((4, 0.984, 7.016), abs=2e-3)
    assert (found.people, found.verdict) == ((5, 5), "first")
    less = [change - 1 for change in first]
    assert result(BY_PERSON, units(people(less, second))).verdict is None  # 3 - 3.016 < 0


@pytest.mark.parametrize(
    ("plan", "rows", "reason"),
    [
        (PLAN, [], "no unit was assigned"),
        (PLAN, sessions([2, 4, 6, 8]), "4 of 5 people have 2 sessions in each arm"),
        (PLAN, sessions([3] * 5), "no spread to judge the difference by"),
        (BY_PERSON, people([1, 2, 3, 4, 5], [0, 1, 2, 3]), "4 of 5 people in an arm"),
        # Of 20 units 18 in one arm: p = 2 (1 + 20 + 190) / 2^20 = 0.0004; 17: 0.0026.
        (
            PLAN,
            [("p", "a", 50, None)] * 18 + [("p", "b", 50, None)] * 2,
            "18 and 2 units are not the share of 0.5",
        ),
        (
            PLAN,
            [("p", "a", 50, None)] * 17 + [("p", "b", 50, None)] * 3,
            "1 of 5 people have 2 sessions in each arm",
        ),
        # Without a score: 0 of 12 and 10 of 12, p = 2 C(12, 10) / C(24, 10) = 0.00007.
        (
            PLAN,
            [("p", "a", 50, None)] * 12
            + [("p", "b", 50, None)] * 2
            + [("p", "b", None, None)] * 10,
            "one arm has more sessions without a score",
        ),
    ],
)
def test_when_there_is_no_verdict(
    plan: Plan, rows: list[tuple[str, str, float | None, float | None]], reason: str
) -> None:
    frame = units(rows) if rows else units([("p", "a", 1.0, 1.0)]).clear()
    found = result(plan, frame)
    assert (found.reason, found.verdict) == (reason, None)


@pytest.mark.parametrize(
    ("metric", "version", "judge", "reason"),
    [
        ("effective", 2, "j", None),
        ("effective", 2, None, None),
        (
            "effective",
            3,
            "j",
            "the profile p changed: version 3 scored 20 sessions, the plan has version 2",
        ),
        ("effective", 2, "k", "the judge changed: k scored 20 sessions, the plan has j"),
        ("judge", 3, "k", "the judge changed: k scored 20 sessions, the plan has j"),
        ("cost", 3, "k", None),
    ],
)
def test_another_profile_or_judge_than_the_plan_has_gives_no_verdict(
    metric: str, version: int, judge: str | None, reason: str | None
) -> None:
    frozen = replace(PLAN, metric=metric, profiles={"p": (2, "j")})
    assert read_plan(frozen.text()) == frozen
    found = units(sessions([2, 4, 6, 8, 10])).with_columns(
        profile_id=pl.lit("p"),
        profile_version=pl.lit(version),
        judge=pl.lit(judge, pl.String),
    )
    looked = result(frozen, found)
    assert (looked.reason, looked.verdict) == (reason, None if reason else "first")


def test_arms_that_are_empty_or_overlap_give_no_verdict() -> None:
    one_arm = units(sessions([2, 4, 6, 8, 10])).filter(arm="a")
    assert result(PLAN, one_arm).reason == "no session has the arm b"
    both = units(people([1, 2, 3, 4, 5], [0, 1, 2, 3, 4])).with_columns(
        unit=pl.col("person").str.tail(1)
    )
    assert result(BY_PERSON, both).reason == "5 of 5 persons have both arms"


def test_the_people_needed() -> None:
    # tau² + 4 sigma² / n = 25 + 4 * 256 / 20 = 76.2; over 5² it is 3.048.
    # G = 35: (2.518 + 0.8416)² * 3.048 = 34.4 <= 35; G = 34: (2.522 + 0.8416)² * 3.048 = 34.5 > 34.
    assert people_needed(5, 20, 16) == 35
