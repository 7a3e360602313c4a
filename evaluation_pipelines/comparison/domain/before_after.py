"""Do runs of late score better than those just before: for the same tasks, people weighing alike.

Two times are compared like two models that share no day: what people's days have in common is part
of the error. Nothing is claimed with fewer than five people or days.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.arms import PEOPLE, arms_of, numbered
from evaluation_pipelines.comparison.domain.ceiling import is_at_ceiling
from evaluation_pipelines.comparison.domain.differences import (
    MIN_PEOPLE,
    Difference,
    comparable,
    difference,
)
from evaluation_pipelines.comparison.domain.obstacles import MIN_DAYS
from evaluation_pipelines.comparison.domain.regression.looks import SMALLEST_WINDOW
from evaluation_pipelines.comparison.domain.runs import GROUP
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

FEWEST_RUNS = SMALLEST_WINDOW
"""With fewer scored runs in one of the two times nothing is said."""

State: TypeAlias = Literal["better", "worse", "unclear", "indication", "unlike", "too few"]

Days: TypeAlias = tuple[date, date]
"""First and last UTC day."""


NOT_COMPARED = Difference()


@dataclass(frozen=True, slots=True)
class Side:
    """Runs of a time: all with a score, and what of them was compared."""

    days: Days
    scored: int
    runs: int = 0
    people: int = 0
    dates: int = 0


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Scores of late against those just before.

    Attributes:
        state: What can be said: ``indication`` for want of people or days, ``unlike`` if the tasks
            or the ways of scoring have nothing in common, ``too few`` runs.
        recent: Runs of late.
        before: Runs of before.
        found: The difference in points, recent minus before.
        has_people: Most people are known; otherwise each session and day counts as one.
    """

    state: State
    recent: Side
    before: Side
    found: Difference = NOT_COMPARED
    has_people: bool = True


def before_after(runs: pl.DataFrame, choices: Sequence[tuple[Days, Days]]) -> BeforeAfter:
    """Compare scores of late with those just before.

    Args:
        runs: RUNS, scores on one scale.
        choices: Recent days and those before, the most wanted first: the first with enough runs,
            people and days on both sides are compared. The scores have no say in the choice.
    """
    scored = runs.filter(pl.col("score").is_not_null())
    found = [_compared(scored, times) for times in choices]
    for states in (("too few", "unlike", "indication"), ("too few", "unlike"), ("too few",)):
        if tells := [each for each in found if each.state not in states]:
            return tells[0]
    return found[0]


def _of_days(runs: pl.DataFrame, days: Days) -> pl.DataFrame:
    return runs.filter(pl.col("started_at").dt.date().is_between(*days))


def _compared(scored: pl.DataFrame, times: tuple[Days, Days]) -> BeforeAfter:
    # Runs that are scored in different ways are never compared, no more than those of other tasks.
    names = (pl.col(each).cast(pl.String).fill_null("") for each in (*GROUP, "task_class"))
    alike = numbered(scored.with_columns(task_class=pl.concat_str(*names, separator="\0")))
    sides = [_of_days(alike, days) for days in times]
    if min(side.height for side in sides) < FEWEST_RUNS:
        recent, before = (Side(days, side.height) for days, side in zip(times, sides, strict=True))
        return BeforeAfter("too few", recent, before)
    arms = arms_of(sides)
    first, second = arms.sides
    scores = np.concatenate([first.scores, second.scores])
    has_failures = bool((scores < PASSES_FROM).any())
    found = difference(first, second, at_ceiling=is_at_ceiling(scores) and has_failures)
    recent, before = (
        Side(days, side.height, len(arm), len(arm.known_people), len(np.unique(arm.days)))
        for days, side, arm in zip(times, sides, comparable(first, second)[:2], strict=True)
    )
    has_people = arms.clustered_by == PEOPLE
    state = _state(recent, before, found, has_people=has_people)
    return BeforeAfter(state, recent, before, found, has_people)


def _state(recent: Side, before: Side, found: Difference, *, has_people: bool) -> State:
    if min(recent.runs, before.runs) < FEWEST_RUNS or found.value is None:
        return "unlike"
    few_people = min(recent.people, before.people) < MIN_PEOPLE
    few_days = min(recent.dates, before.dates) < MIN_DAYS
    if few_people or few_days or not has_people:
        return "indication"
    if found.low is None or found.high is None:  # the scores do not differ at all
        return "unclear"
    if found.low <= 0 <= found.high:
        return "unclear"
    return "better" if found.low > 0 else "worse"
