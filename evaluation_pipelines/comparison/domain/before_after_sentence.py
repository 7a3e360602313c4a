"""Whether something is getting better, in plain sentences that say how sure that is."""

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
from evaluation_pipelines.formatting import whole

ANSWERS = {
    "better": "Yes, it is getting better",
    "worse": "No, it is getting worse",
    "unclear": "No clear change",
    "indication": "Too early to tell",
    "unlike": "The two times cannot be compared",
    "too few": "Too few sessions to tell",
}
"""State -> the answer to: is it getting better?"""

WORDS = {
    "better": "getting better",
    "worse": "getting worse",
    "unclear": "no clear change",
    "indication": "too early to tell",
    "unlike": "cannot be compared",
    "too few": "too few sessions",
}
"""State -> the same in a list."""


def sentences(found: BeforeAfter) -> tuple[str, str]:
    """Return the answer to "is it getting better?", and what it rests on."""
    return ANSWERS[found.state], " ".join(_because(found))


def difference_of(found: BeforeAfter) -> str:
    """Return how far the scores are apart: ``15.1 points less (between 4.6 and 25.5)``."""
    value, low, high = found.found.value or 0.0, found.found.low, found.found.high
    ends = "" if low is None or high is None else f" ({between_points(low, high)})"
    return f"{apart(value)}{ends}"


def compared_with(found: BeforeAfter) -> str:
    """Return the same with the days that are compared with."""
    return f"{difference_of(found)} than from {_days(found.before.days)}"


def _because(found: BeforeAfter) -> Iterator[str]:
    recent, before = found.recent, found.before
    if found.state == "too few":
        yield (
            f"It takes {FEWEST_RUNS} scored sessions in each of the two times: there are "
            f"{_scored(recent)}, and {_scored(before)}."
        )
        return
    if found.state == "unlike":
        yield (
            f"It takes {FEWEST_RUNS} sessions of the same kinds of task, scored in the same way, "
            f"in each of the two times: there are {recent.runs} among {_scored(recent)}, and "
            f"{before.runs} among {_scored(before)}."
        )
        return
    yield _difference(found)
    yield from _doubts(found)
    yield (
        f"Compared are {whole(recent.runs)} of {whole(recent.scored)} scored sessions with "
        f"{whole(before.runs)} of {whole(before.scored)}, for the same kinds of task; each person "
        "counts once. Whether the tasks of a kind became harder cannot be seen."
    )


def _difference(found: BeforeAfter) -> str:
    value, low, high = found.found.value or 0.0, found.found.low, found.found.high
    said = (
        f"From {_days(found.recent.days)} it scores {apart(value)} than from "
        f"{_days(found.before.days)}"
    )
    if low is None or high is None:
        return f"{said}."
    chance = ", which may be chance" if low <= 0 <= high else ""
    return f"{said}{chance} (95% sure: {between_points(low, high)})."


def _doubts(found: BeforeAfter) -> Iterator[str]:
    """Yield why a difference is an indication at most."""
    if found.state != "indication":
        return
    people = min(found.recent.people, found.before.people)
    dates = min(found.recent.dates, found.before.dates)
    if not found.has_people:
        yield "Who ran these sessions is unknown for many of them."
    elif people < MIN_PEOPLE:
        yield f"It takes {MIN_PEOPLE} people on each side to tell, and there are {people}."
    if dates < MIN_DAYS:
        yield f"It takes {MIN_DAYS} days with sessions on each side, and there are {dates}."


def _scored(side: Side) -> str:
    return f"{whole(side.scored)} from {_days(side.days)}"


def _days(days: Days) -> str:
    return f"{days[0]} to {days[1]}"
