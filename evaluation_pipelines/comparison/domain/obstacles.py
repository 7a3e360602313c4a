"""What keeps a difference from being decided, whatever its p-value."""

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.arms import LARGEST_UNKNOWN, weeks_of
from evaluation_pipelines.comparison.domain.differences import (
    MIN_PEOPLE,
    Difference,
    comparable,
    people_of_both,
)
from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON, Arm
from evaluation_pipelines.numerics.shares import share_of

MIN_DAYS = 5
"""Models that were never used on the same day are compared from this number of days a side on:
fewer do not show how much days differ."""

FEW_INDICATING = 3
"""From this number of people on, all of whom used both models, a difference is an indication."""

SMALLEST_OVERLAP = 0.6
"""If the weeks of two models overlap less, a difference may be one of weeks: an indication."""

PERSONS_UNKNOWN = "the persons of more than a fifth of the sessions of a side are unknown"

_ONE_SIDED = 0.1


def obstacle(
    a: Arm, b: Arm, found: Difference, min_runs: int, *, has_people: bool
) -> tuple[bool, str | None]:
    """Return whether a difference is an indication at most, and why nothing is decided.

    What it takes must be there in the runs that are compared, not in all that a side has.

    Args:
        a: Runs of one model.
        b: Runs of the other.
        found: Their difference.
        min_runs: A side with fewer runs decides nothing.
        has_people: The persons of most runs of each side are known.
    """
    everyone = len(np.union1d(a.known_people, b.known_people))
    all_runs = min(len(a), len(b))
    a, b, _ = comparable(a, b, min_runs)
    missing = _missing_runs(all_runs, (a, b), min_runs) or _unlike_days(a, b)
    if missing is not None:
        return False, missing
    units = min(len(a.known_people), len(b.known_people))
    if units < MIN_PEOPLE:
        both = people_of_both(a, b)
        is_indication = has_people and both == everyone and both >= FEW_INDICATING
        return is_indication, f"too few people to decide ({units} of {MIN_PEOPLE})"
    if found.p is None:
        return False, "no spread to judge the difference by"
    if not has_people or max(map(_unknown, (a, b))) > LARGEST_UNKNOWN:
        return True, PERSONS_UNKNOWN
    if overlap_of_weeks(a, b) < SMALLEST_OVERLAP:
        return True, "used in different weeks for the most part"
    return False, None


def _missing_runs(all_runs: int, compared: tuple[Arm, Arm], min_runs: int) -> str | None:
    """Return why there are too few runs to compare; None if there are enough."""
    fewest = min(map(len, compared))
    if all_runs < min_runs:
        return f"fewer than {min_runs} sessions on a side"
    if not fewest:
        return "no task class that both worked on"
    if fewest < min_runs:
        return (
            f"only {fewest} sessions of one of the two models can be compared ({min_runs} needed)"
        )
    return None


def _unlike_days(a: Arm, b: Arm) -> str | None:
    """Return why the days of two models cannot be compared; None if they can."""
    if not _share_weeks(a, b):
        return "no week in which both were used"
    if _are_days_apart(a, b):
        return f"never used on the same day, and on fewer than {MIN_DAYS} days"
    return None


def overlap_of_weeks(a: Arm, b: Arm) -> float:
    """Return what two models' shares of their runs by week have in common.

    The sum over the weeks of the smaller share: 1 if both were used alike, 0 in other weeks.
    """
    weeks = [weeks_of(side) for side in (a, b)]
    every = np.union1d(*weeks)
    shares = [(each[:, None] == every).mean(axis=0) for each in weeks]
    return float(np.minimum(*shares).sum())


def _unknown(side: Arm) -> float:
    return float((side.people == UNKNOWN_PERSON).mean())


def counterparts(a: Arm, b: Arm) -> float:
    """Return the share of runs in weeks and task classes in which the other was used as well."""
    number = int(max(a.classes.max(), b.classes.max())) + 1
    first, second = (weeks_of(side) * number + side.classes for side in (a, b))
    both = np.intersect1d(first, second)
    return float(np.isin(np.concatenate([first, second]), both).mean())


def has_more_disqualified(first: pl.DataFrame, second: pl.DataFrame) -> str | None:
    """Return the side (``a`` or ``b``) that is shown to have more disqualified runs.

    A one-sided test at 5% of the difference of two shares, from Wilson's intervals (Newcombe,
    "Interval estimation for the difference between independent proportions", 1998).
    """
    if not (first["is_disqualified"].any() or second["is_disqualified"].any()):
        return None
    found = []
    for side in (first, second):
        alone = pl.concat_str("organization_id", "session_key", separator="\0")
        people = side.select(pl.coalesce("person", alone).rank("dense"))["person"]
        hits = side["is_disqualified"].cast(pl.Float64).to_numpy()
        found.append(share_of(hits, people.cast(pl.Int64).to_numpy()))
    a, b = found
    if a is None or b is None:
        return None
    (low_a, high_a), (low_b, high_b) = a.ends(_ONE_SIDED), b.ends(_ONE_SIDED)
    apart = a.value - b.value
    if apart > np.hypot(a.value - low_a, high_b - b.value):
        return "a"
    return "b" if -apart > np.hypot(b.value - low_b, high_a - a.value) else None


def _share_weeks(a: Arm, b: Arm) -> bool:
    return len(np.intersect1d(weeks_of(a), weeks_of(b))) > 0


def _are_days_apart(a: Arm, b: Arm) -> bool:
    first, second = np.unique(a.days), np.unique(b.days)
    return not len(np.intersect1d(first, second)) and min(len(first), len(second)) < MIN_DAYS
