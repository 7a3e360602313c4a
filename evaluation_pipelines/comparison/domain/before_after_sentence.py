"""Whether something is getting better, in plain sentences with their certainty."""

from collections.abc import Iterator

from evaluation_pipelines.comparison.domain.before_after import (
    FEWEST_RUNS,
    BeforeAfter,
    Days,
    Side,
)
from evaluation_pipelines.comparison.domain.differences import MIN_PEOPLE
from evaluation_pipelines.comparison.domain.findings import apart, between_points
from evaluation_pipelines.comparison.domain.obstacles import MIN_DAYS
from evaluation_pipelines.formatting import points, whole

ANSWERS = {
    "better": "Getting better",
    "worse": "Getting worse",
    "unclear": "No clear change",
    "indication": "Too early to tell",
    "unlike": "Not comparable",
    "too few": "Too few sessions",
}
"""State -> the trend, as a sentence starts."""

WORDS = {
    "better": "getting better",
    "worse": "getting worse",
    "unclear": "no clear change",
    "indication": "too early to tell",
    "unlike": "not comparable",
    "too few": "too few sessions",
}
"""State -> the same in a list."""


def sentences(found: BeforeAfter) -> tuple[str, str]:
    """Return the trend, and what it rests on."""
    return ANSWERS[found.state], " ".join(_because(found))


def difference_of(found: BeforeAfter) -> str:
    """Return how far the scores are apart: ``15.1 points less (4.6 to 25.5)``."""
    value, low, high = found.found.value or 0.0, found.found.low, found.found.high
    ends = "" if low is None or high is None else f" ({between_points(low, high)})"
    return f"{apart(value)}{ends}"


def compared_with(found: BeforeAfter) -> str:
    """Return the same with the period before."""
    return f"{difference_of(found)} than from {_days(found.before.days)}"


def _because(found: BeforeAfter) -> Iterator[str]:
    recent, before = found.recent, found.before
    if found.state == "too few":
        yield (
            f"{FEWEST_RUNS} scored sessions are needed in each period: {_scored(recent)}, "
            f"{_scored(before)}."
        )
        return
    if found.state == "unlike":
        yield (
            f"{FEWEST_RUNS} comparable sessions of the same task classes are needed in each "
            f"period: {recent.runs} of {_scored(recent)}, {before.runs} of {_scored(before)}."
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


def _scored(side: Side) -> str:
    return f"{whole(side.scored)} from {_days(side.days)}"


def _days(days: Days) -> str:
    return f"{days[0]} to {days[1]}"
