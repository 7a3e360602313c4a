"""Experiments: sessions or people assigned to two arms at random, and three planned looks."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.experiment_plan import LOOKS, TAU, Plan
from evaluation_pipelines.numerics.estimates import Numbers, normal_quantile, t_quantile

LEVEL_OF_LOOK = 0.05 / LOOKS
"""Two-sided level of each look: the three intervals hold together in 95% (Bonferroni)."""

MIN_PEOPLE = 5
MIN_SESSIONS = 2
"""Of a person in each arm: with fewer the person has no difference."""

UNLIKE = 0.001
"""Below this p-value the numbers of units contradict a random assignment."""

POWER = 0.8


def people_needed(delta: float, sessions: float, run_sd: float, tau: float = TAU) -> int:
    """Return the people with whom a difference is shown in 4 of 5 experiments, at the last look.

    The smallest G of ``G >= ((t(1 - 0.05/6, G - 1) + 0.84) / delta)² (tau² + 4 sigma² / n)``
    (Julious, "Sample sizes for clinical trials with normal data", 2004).

    Args:
        delta: Difference in points.
        sessions: n, the sessions of each person.
        run_sd: sigma, the standard deviation of a person's sessions.
        tau: Standard deviation of people's true differences.
    """
    variance, z = tau**2 + 4 * run_sd**2 / sessions, normal_quantile(POWER)
    # With the normal quantile, which is smaller, it is a few people less.
    fewest = ((normal_quantile(1 - LEVEL_OF_LOOK / 2) + z) / delta) ** 2 * variance
    people = max(MIN_PEOPLE, math.floor(fewest))
    while people < ((t_quantile(people - 1, LEVEL_OF_LOOK) + z) / delta) ** 2 * variance:
        people += 1
    return people


_JUDGED = ("effective", "judge")
"""Metrics that depend on profiles and judges."""

_SCORED_BY = ("profile_id", "profile_version", "judge")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a look: the first arm minus the second, with an interval.

    Attributes:
        people: Number of people it rests on, of each arm if people are assigned.
        value: Difference, None without enough people.
        low: Lower end.
        high: Upper end.
        reason: Why there is no verdict.
    """

    people: tuple[int, ...]
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @property
    def verdict(self) -> Literal["first", "second"] | None:
        """The better arm, None if not decided."""
        if self.reason is not None or self.low is None or self.high is None:
            return None
        return "first" if self.low > 0 else "second" if self.high < 0 else None


def counts(plan: Plan, units: pl.DataFrame) -> tuple[int, int]:
    """Return the number of assigned units of each arm.

    Args:
        plan: The experiment.
        units: Rows with ``unit``, ``person``, ``arm``, ``value`` (null: not scored), ``baseline``.
    """
    number = units.select("unit", "arm").unique()["arm"].value_counts()
    known = dict(number.iter_rows())
    first, second = (int(known.get(arm, 0)) for arm in plan.arms)
    return first, second


def result(plan: Plan, units: pl.DataFrame) -> Result:
    """Return the result of a look at assigned units. Higher values are better.

    Args:
        plan: The experiment.
        units: As for ``counts``, a row per session. ``baseline`` is the person's mean before the
            start, for people who are assigned. ``profile_id``, ``profile_version`` and ``judge``
            scored it (null: neither).
    """
    if (reason := _unlike(plan, units)) is not None:
        return Result((0,), reason=reason)
    scored = units.filter(pl.col("value").is_not_null(), pl.col("person").is_not_null())
    return _session_result(plan, scored) if plan.unit == "session" else _person_result(plan, scored)


def _unlike(plan: Plan, units: pl.DataFrame) -> str | None:
    """Return why the units are not like a random assignment."""
    from scipy.stats import binomtest, fisher_exact

    first, second = counts(plan, units)
    if not first + second:
        return "no unit was assigned"
    if not (first and second):
        return f"no {plan.unit} has the arm {plan.arms[0 if second else 1]}"
    arms_of_unit = units.group_by("unit").agg(pl.col("arm").n_unique())
    if twice := arms_of_unit.filter(pl.col("arm") > 1).height:
        return f"{twice} of {arms_of_unit.height} {plan.unit}s have both arms"
    if (reason := _changed(plan, units)) is not None:
        return reason
    if binomtest(first, first + second, plan.share).pvalue < UNLIKE:
        return f"{first} and {second} units are not the share of {plan.share:g}"
    table = np.array(
        [
            [part["value"].count(), part["value"].null_count()]
            for part in (units.filter(arm=arm) for arm in plan.arms)
        ]
    )
    if fisher_exact(table).pvalue < UNLIKE:
        return "one arm has more sessions without a score"
    return None


def _changed(plan: Plan, units: pl.DataFrame) -> str | None:
    """Return the profile or judge of scored sessions that the plan does not have."""
    if not plan.profiles or plan.metric not in _JUDGED:
        return None
    found = units.filter(pl.col("value").is_not_null()).group_by(*_SCORED_BY).len().sort(_SCORED_BY)
    judges = {plan.judge, *(judge for _, judge in plan.profiles.values())}
    for profile, version, judge, sessions in found.iter_rows():
        if judge is not None and judge not in judges:
            said = ", ".join(sorted(filter(None, judges))) or "none"
            return f"the judge changed: {judge} scored {sessions} sessions, the plan has {said}"
        planned = plan.profiles.get(profile, (None, None))[0]
        if plan.metric == "effective" and profile is not None and version != planned:
            said = "none" if planned is None else f"version {planned}"
            return (
                f"the profile {profile} changed: version {version} scored {sessions} sessions, "
                f"the plan has {said}"
            )
    return None


def _session_result(plan: Plan, scored: pl.DataFrame) -> Result:
    """Return ``mean D -+ t s / sqrt(G)`` over people's differences between their own sessions."""
    cells = scored.group_by("person", "arm").agg(pl.col("value").mean(), runs=pl.len())
    first, second = (
        cells.filter(pl.col("arm") == arm, pl.col("runs") >= MIN_SESSIONS) for arm in plan.arms
    )
    both = first.join(second, on="person", suffix="_second").sort("person")
    apart = (both["value"] - both["value_second"]).to_numpy()
    if len(apart) < MIN_PEOPLE:
        few = f"{len(apart)} of {MIN_PEOPLE} people have {MIN_SESSIONS} sessions in each arm"
        return Result((len(apart),), reason=few)
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    return _with_interval((len(apart),), float(apart.mean()), error, len(apart) - 1)


def _person_result(plan: Plan, scored: pl.DataFrame) -> Result:
    """Return Welch's interval of people's means minus their own baselines.

    Welch, "The generalization of Student's problem when several different population variances
    are involved", 1947.
    """
    people = (
        scored.filter(pl.col("baseline").is_not_null())
        .group_by("arm", "person")
        .agg(change=pl.col("value").mean() - pl.col("baseline").first())
        .sort("person")
    )
    sides: list[Numbers] = [people.filter(arm=arm)["change"].to_numpy() for arm in plan.arms]
    sizes = tuple(map(len, sides))
    if min(sizes) < MIN_PEOPLE:
        return Result(sizes, reason=f"{min(sizes)} of {MIN_PEOPLE} people in an arm")
    parts = [float(side.var(ddof=1)) / len(side) for side in sides]
    spread = sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    freedom = sum(parts) ** 2 / spread if spread else 1.0
    value = float(np.mean(sides[0]) - np.mean(sides[1]))
    return _with_interval(sizes, value, math.sqrt(sum(parts)), freedom)


def _with_interval(people: tuple[int, ...], value: float, error: float, freedom: float) -> Result:
    if error == 0:
        return Result(people, value, reason="no spread to judge the difference by")
    half = t_quantile(freedom, LEVEL_OF_LOOK) * error
    return Result(people, value, value - half, value + half)
