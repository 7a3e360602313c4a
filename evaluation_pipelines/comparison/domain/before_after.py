"""Do recent runs score better than those just before: same tasks, equal weight per person.

Two times are compared like two models that share no day: what people's days have in common is part
of the error. Nothing is claimed with fewer than five people or days.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.differences import (
    MIN_PEOPLE,
    Difference,
    comparable,
    difference,
    is_at_ceiling,
)
from evaluation_pipelines.comparison.domain.money import between_points, difference_text
from evaluation_pipelines.comparison.domain.pairwise import MIN_DAYS
from evaluation_pipelines.comparison.domain.regressions import SMALLEST_WINDOW
from evaluation_pipelines.comparison.domain.runs import GROUP, PEOPLE, arms_of, numbered
from evaluation_pipelines.formatting import points, whole
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

FEWEST_RUNS = SMALLEST_WINDOW
"""With fewer scored runs in either period there is no result."""

State: TypeAlias = Literal["better", "worse", "unclear", "indication", "unlike", "too few"]

Days: TypeAlias = tuple[date, date]
"""First and last UTC day."""


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
    """Recent scores against those just before.

    Attributes:
        state: What can be said: ``indication`` for want of people or days, ``unlike`` if the tasks
            or the ways of scoring have nothing in common, ``too few`` runs.
        recent: Recent runs.
        before: Earlier runs.
        found: The difference in points, recent minus before.
        has_people: Most people are known; otherwise each session and day counts as one.
    """

    state: State
    recent: Side
    before: Side
    found: Difference = field(default_factory=Difference)
    has_people: bool = True


def before_after(runs: pl.DataFrame, choices: Sequence[tuple[Days, Days]]) -> BeforeAfter:
    """Compare recent scores with those just before.

    Args:
        runs: RUNS, scores on one scale.
        choices: Recent days and those before, the most wanted first: the first with enough runs,
            people and days on both sides are compared. The scores have no say in the choice.
    """
    scored = runs.filter(pl.col("score").is_not_null())
    found = [_compared(scored, times) for times in choices]
    for states in (("too few", "unlike", "indication"), ("too few", "unlike"), ("too few",)):
        if tells := [after for after in found if after.state not in states]:
            return tells[0]
    return found[0]


def _compared(scored: pl.DataFrame, times: tuple[Days, Days]) -> BeforeAfter:
    # Runs that are scored in different ways are never compared, no more than those of other tasks.
    names = (pl.col(column).cast(pl.String).fill_null("") for column in (*GROUP, "task_class"))
    alike = numbered(scored.with_columns(task_class=pl.concat_str(*names, separator="\0")))
    on = pl.col("started_at").dt.date()
    sides = [alike.filter(on.is_between(*days)) for days in times]
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


WORDS = {
    "better": "getting better",
    "worse": "getting worse",
    "unclear": "no clear change",
    "indication": "too early to tell",
    "unlike": "not comparable",
    "too few": "too few sessions",
}
"""State -> the trend."""


def sentences(found: BeforeAfter) -> tuple[str, str]:
    """Return the trend, and what it rests on."""
    return WORDS[found.state].capitalize(), " ".join(_because(found))


def difference_of(found: BeforeAfter) -> str:
    """Return how far the scores are apart: ``15.1 points less (4.6 to 25.5)``."""
    value, low, high = found.found.value or 0.0, found.found.low, found.found.high
    ends = "" if low is None or high is None else f" ({between_points(low, high)})"
    return f"{difference_text(value)}{ends}"


def compared_with(found: BeforeAfter) -> str:
    """Return the same with the period before."""
    return f"{difference_of(found)} than from {_days(found.before.days)}"


def _because(found: BeforeAfter) -> Iterator[str]:
    recent, before = found.recent, found.before
    if found.state == "too few":
        yield (
            f"Each period needs {FEWEST_RUNS} scored sessions. {_days(recent.days)} has "
            f"{whole(recent.scored)}, {_days(before.days)} has {whole(before.scored)}."
        )
        return
    if found.state == "unlike":
        yield (
            f"Each period needs {FEWEST_RUNS} comparable sessions (same task classes). "
            f"{_days(recent.days)} has {whole(recent.runs)}, {_days(before.days)} has "
            f"{whole(before.runs)}."
        )
        return
    yield _difference(found)
    yield from _doubts(found)
    yield (
        f"Based on {whole(recent.runs)} of {whole(recent.scored)} and {whole(before.runs)} of "
        f"{whole(before.scored)} scored sessions with the same task mix. Each person counts once. "
        "Task difficulty is not controlled for."
    )


def _difference(found: BeforeAfter) -> str:
    value, low, high = found.found.value or 0.0, found.found.low, found.found.high
    way = "Down" if value < 0 else "Up"
    when = f"{_days(found.recent.days)} against {_days(found.before.days)}"
    said = f"{way} {points(abs(value))} points ({when})"
    if low is None or high is None:
        return f"{said}."
    chance = ", which may be chance" if low <= 0 <= high else ""
    return f"{said}{chance} ({between_points(low, high)})."


def _doubts(found: BeforeAfter) -> Iterator[str]:
    """Yield why a difference is an indication at most."""
    if found.state != "indication":
        return
    people = min(found.recent.people, found.before.people)
    dates = min(found.recent.dates, found.before.dates)
    if not found.has_people:
        yield "The people are unknown for many of these sessions."
    elif people < MIN_PEOPLE:
        yield f"{MIN_PEOPLE} people are needed in each period, and there are {people}."
    if dates < MIN_DAYS:
        yield f"{MIN_DAYS} days with sessions are needed in each period, and there are {dates}."


def _days(days: Days) -> str:
    return f"{days[0]} to {days[1]}"
