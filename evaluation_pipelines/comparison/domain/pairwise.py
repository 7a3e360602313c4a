"""Pairs of models: difference, verdict, and what keeps it from being decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.differences import (
    MIN_PEOPLE,
    Difference,
    comparable,
    difference,
    is_at_ceiling,
    people_of_both,
    shared_classes,
    shared_days,
)
from evaluation_pipelines.comparison.domain.models import (
    MOST_FREE,
    SMALLEST_COVERAGE,
    Row,
    Side,
    counted,
    groups_of,
    mean_score,
    state_of,
)
from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON, Arm
from evaluation_pipelines.comparison.domain.runs import (
    GROUP,
    LARGEST_UNKNOWN,
    MODEL,
    MODELS,
    PEOPLE,
    Nouns,
    arms_of,
    weeks_of,
)
from evaluation_pipelines.comparison.domain.verdicts import (
    ALPHA,
    RELEVANT_POINTS,
    Corrected,
    Pair,
    corrected,
    hedges_g,
    holm,
    precision,
    runs_needed,
    superiority,
)
from evaluation_pipelines.numerics.shares import share_of
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

MIN_DAYS = 5
"""Models that were never used on the same day are compared from this number of days a side on:
fewer do not show how much days differ."""

FEW_INDICATING = 3
"""From this number of people on, all of whom used both models, a difference is an indication."""

SMALLEST_OVERLAP = 0.6
"""If the weeks of two models overlap less, a difference may be one of weeks: an indication."""

_ONE_SIDED = 0.1


def persons_unknown(nouns: Nouns) -> str:
    """Return the reason for a pair with too many unknown people."""
    return f"the people of more than a fifth of the {nouns.sessions} of a side are unknown"


def obstacle(
    a: Arm,
    b: Arm,
    found: Difference,
    min_runs: int,
    *,
    has_people: bool,
    nouns: Nouns = MODELS,
) -> tuple[bool, str | None]:
    """Return whether a difference is an indication at most, and why nothing is decided.

    What it takes must be there in the runs that are compared, not in all that a side has.

    Args:
        a: Runs of one model.
        b: Runs of the other.
        found: Their difference.
        min_runs: A side with fewer runs decides nothing.
        has_people: The people of most runs of each side are known.
        nouns: Words of the reason.
    """
    everyone = len(np.union1d(a.known_people, b.known_people))
    all_runs = min(len(a), len(b))
    a, b, _ = comparable(a, b, min_runs)
    missing = _missing_runs(all_runs, (a, b), min_runs, nouns) or _unlike_days(a, b)
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
        return True, persons_unknown(nouns)
    if overlap_of_weeks(a, b) < SMALLEST_OVERLAP:
        return True, "used in different weeks for the most part"
    return False, None


def _missing_runs(
    all_runs: int, compared: tuple[Arm, Arm], min_runs: int, nouns: Nouns
) -> str | None:
    """Return why there are too few runs to compare; None if there are enough."""
    fewest = min(map(len, compared))
    if all_runs < min_runs:
        return f"fewer than {min_runs} {nouns.sessions} on a side"
    if not fewest:
        return "no task class that both worked on"
    if fewest < min_runs:
        return (
            f"only {fewest} {nouns.sessions} of one of the two {nouns.models} can be compared "
            f"({min_runs} needed)"
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

    The sum over the weeks of the smaller share: 1 if both were used equally, 0 in other weeks.
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


A_BETTER, B_BETTER, NOT_DECIDED = "A better", "B better", "not decided"
TOO_FEW = "too few people"

SMALL = f"whatever the difference is, it is below {RELEVANT_POINTS:g} points"

MAY_BE_CHANCE = "may be chance"

MORE_DISQUALIFIED = "the model with higher scores is disqualified more"

_WHOLE_SCALE = 100.0
_LARGEST = float(np.log(1000))
"""Ends of intervals are no further away: a few people may leave nearly everything possible."""

_SMALLEST = 2
"""With fewer runs there is no variance."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """A row under construction, with the runs that it is made from."""

    row: Row
    first: Arm
    second: Arm
    found: Difference
    log_cost: Difference


@dataclass(frozen=True, slots=True)
class Limits:
    """What decides: fewer runs on a side decide nothing; a margin in points is "not worse".

    ``nouns`` are the words of the reasons.
    """

    min_runs: int
    margin: float = RELEVANT_POINTS
    nouns: Nouns = MODELS


def pair_rows(runs: pl.DataFrame, limits: Limits, *, alone: bool = False) -> list[Row]:
    """Return the rows of ``model_comparison_pairs``, without the columns of the time range.

    ``precision`` and ``more_disqualified`` are in addition, for the verdict on money. Models that
    are mixed or unknown, or have a single run, are in no pair.

    Args:
        runs: RUNS with a score.
        limits: What decides.
        alone: Correct each label by itself, as if it were the only one.
    """
    found: dict[object, list[_Compared]] = {}
    for group, sides in groups_of(runs):
        family = found.setdefault(group[0] if alone else None, [])
        family += _pairs_of(group, sides, limits)
    return [row for family in found.values() for row in _decided(family, limits.nouns)]


def is_tested(pair: Row) -> bool:
    """Return True if a verdict can be given for a pair, whatever its scores."""
    return pair["adjusted_p_holm"] is not None and pair["indication"] is None


def _pairs_of(group: tuple[Any, ...], sides: Sequence[Side], limits: Limits) -> list[_Compared]:
    """Compare every two models of a group."""
    known = [
        (model, part, used)
        for model, part in sides
        if (used := counted(part)).height >= _SMALLEST
        and state_of(model[0], used.height, 0) == "ranked"
    ]
    if len(known) < 2:
        return []
    scores = np.concatenate([used["score"].to_numpy() for *_, used in known])
    is_high, has_failures = is_at_ceiling(scores), bool((scores < PASSES_FROM).any())
    base = dict(zip(GROUP, group, strict=True))
    return [
        _pair(
            base,
            (known[i], known[j]),
            is_high=is_high,
            has_failures=has_failures,
            limits=limits,
        )
        for i, j in combinations(range(len(known)), 2)
    ]


def _pair(
    base: Row,
    sides: tuple[tuple[Any, pl.DataFrame, pl.DataFrame], tuple[Any, pl.DataFrame, pl.DataFrame]],
    *,
    is_high: bool,
    has_failures: bool,
    limits: Limits,
) -> _Compared:
    (key_a, all_a, runs_a), (key_b, all_b, runs_b) = sides
    arms = arms_of([runs_a, runs_b])
    a, b = arms.sides
    log_cost = _log_cost(runs_a, runs_b, limits.min_runs)
    # A label without any failure has scores of one kind, however high they are.
    at_ceiling = is_high and has_failures
    found = difference(a, b, at_ceiling=at_ceiling, min_runs=limits.min_runs)
    classes, share = shared_classes(a, b)
    has_people = arms.clustered_by == PEOPLE
    is_indication, reason = obstacle(
        a, b, found, limits.min_runs, has_people=has_people, nouns=limits.nouns
    )
    row = base | {
        **dict(zip((f"{name}_a" for name in MODEL), key_a, strict=True)),
        **dict(zip((f"{name}_b" for name in MODEL), key_b, strict=True)),
        "clustered_by": arms.clustered_by,
        "runs_a": len(a),
        "runs_b": len(b),
        **_people(runs_a, runs_b),
        "is_paired": found.is_paired,
        "at_ceiling": at_ceiling,
        "difference": mean_score(runs_a) - mean_score(runs_b),
        "adjusted_difference": found.value,
        "adjusted_low": _on_scale(found.low),
        "adjusted_high": _on_scale(found.high),
        "adjusted_p": found.p,
        "without_failed": _without_failed(runs_a, runs_b, found, limits.min_runs),
        "shared_classes": classes,
        "shared_runs": share,
        "shared_days": shared_days(a, b),
        "counterparts": counterparts(a, b),
        "cost_ratio": None if log_cost.value is None else float(np.exp(log_cost.value)),
        **_ratio_ends("", log_cost.low, log_cost.high),
        **dict.fromkeys(("not_worse_a_p", "not_worse_b_p", "precision")),
        "hedges_g": hedges_g(a.scores, b.scores),
        "superiority": superiority(a.scores, b.scores),
        "more_disqualified": has_more_disqualified(all_a, all_b),
        "is_indication": is_indication,
        "reason": reason,
    }
    if reason is None:
        # Failures that are not seen yet may still cost more than the margin.
        careful = found
        if is_high and not has_failures:
            careful = difference(a, b, at_ceiling=True, min_runs=limits.min_runs)
        row |= _not_worse(a, b, careful, limits)
    return _Compared(row, a, b, found, log_cost)


def _people(runs_a: pl.DataFrame, runs_b: pl.DataFrame) -> Row:
    """Return how many known people used each model and both, whatever varies together."""
    a, b = (set(side["person"].drop_nulls()) for side in (runs_a, runs_b))
    return {"people_a": len(a), "people_b": len(b), "people_both": len(a & b)}


def _not_worse(a: Arm, b: Arm, found: Difference, limits: Limits) -> Row:
    return {
        "not_worse_a_p": found.p_above(-limits.margin),
        "not_worse_b_p": found.p_below(limits.margin),
        "precision": precision(*comparable(a, b, limits.min_runs)[:2], found),
    }


def _without_failed(
    first: pl.DataFrame, second: pl.DataFrame, found: Difference, min_runs: int
) -> float | None:
    """Return the difference without runs that failed at the start; None if there are none."""
    if found.value is None or not any(side["failed_at_start"].any() for side in (first, second)):
        return None
    kept = _without_failed_starts(first, second)
    if not all(map(len, kept)):
        return None
    return difference(*arms_of(kept).sides, min_runs=min_runs).value


def _without_failed_starts(*sides: pl.DataFrame) -> list[pl.DataFrame]:
    return [side.filter(~pl.col("failed_at_start")) for side in sides]


def _log_cost(first: pl.DataFrame, second: pl.DataFrame, min_runs: int) -> Difference:
    """Return the difference of the logarithms of costs: a ratio of geometric means.

    They are compared like scores, for the same tasks, equal weight per person, without runs that
    failed at the start: they cost next to nothing. Others that cost nothing have no logarithm and
    are left out. Unknown where these are more than a tenth of the known costs of a side, or fewer
    than 80% of its costs are known.
    """
    sides = _without_failed_starts(first, second)
    for side in sides:
        number, free = side["cost_usd"].count(), (side["cost_usd"] <= 0).sum()
        if number < max(SMALLEST_COVERAGE * side.height, 1) or free > MOST_FREE * number:
            return Difference()
    paid = [side.filter(pl.col("cost_usd") > 0) for side in sides]
    logs = [part.with_columns(score=pl.col("cost_usd").log()) for part in paid]
    return difference(*arms_of(logs).sides, min_runs=min_runs)


def _ratio_ends(suffix: str, low: float | None, high: float | None) -> Row:
    """Return the ends of the interval of a ratio from those of its logarithm."""
    return {
        f"cost_ratio_{name}{suffix}": None if end is None else float(np.exp(_within(end, _LARGEST)))
        for name, end in (("low", low), ("high", high))
    }


def _on_scale(end: float | None) -> float | None:
    return None if end is None else _within(end, _WHOLE_SCALE)


def _within(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _design_effect(a: Arm, b: Arm, adjusted: Difference) -> float:
    """Return the design effect: variance relative to independent runs, at least 1.

    1 if all runs of a side score the same: then there is no variance to compare with.
    """
    if adjusted.error is None:
        return 1.0
    plain = float(a.scores.var(ddof=1) / len(a) + b.scores.var(ddof=1) / len(b))
    return max(adjusted.error**2 / plain, 1.0) if plain > 0 else 1.0


def _decided(pairs: Sequence[_Compared], nouns: Nouns) -> list[Row]:
    """Return the rows of one report with corrected p-values, verdicts and indications."""
    tests: dict[int, Corrected] = {}
    for of_indications in (False, True):
        tested = [
            place
            for place, pair in enumerate(pairs)
            if pair.row["is_indication"] is of_indications and _can_be_tested(pair.row)
        ]
        found = corrected([_as_tested(pairs[place].row) for place in tested])
        tests |= dict(zip(tested, found, strict=True))
    costs = holm([pair.log_cost.p if pair.row["reason"] is None else None for pair in pairs])
    return [
        _with_verdict(pair, tests.get(at), max(len(tests), 1), nouns)
        | _corrected_ratio(pair, costs[at])
        for at, pair in enumerate(pairs)
    ]


def _corrected_ratio(pair: _Compared, test: Corrected | None) -> Row:
    """Return the interval of a cost ratio that excludes 1 where a model is shown to cost less.

    Costs that are not tested have none.
    """
    return _ratio_ends("_holm", *_ends(pair.log_cost, test))


def _ends(found: Difference, test: Corrected | None) -> tuple[float | None, float | None]:
    return (None, None) if test is None else found.ends(test.level)


def _can_be_tested(row: Row) -> bool:
    return row["adjusted_p"] is not None and (row["reason"] is None or row["is_indication"])


def _as_tested(row: Row) -> Pair:
    names = [tuple(row[f"{name}_{side}"] for name in MODEL) for side in "ab"]
    group = tuple(row[name] for name in GROUP)
    return Pair(group, names[0], names[1], row["adjusted_difference"], row["adjusted_p"])


def _with_verdict(pair: _Compared, test: Corrected | None, tests: int, nouns: Nouns) -> Row:
    p = None if test is None else test.p
    low, high = map(_on_scale, _ends(pair.found, test))
    row = pair.row | {"adjusted_low_holm": low, "adjusted_high_holm": high}
    effect = _design_effect(pair.first, pair.second, pair.found)
    needed = runs_needed(pair.first.scores, pair.second.scores, effect, tests)
    found = NOT_DECIDED
    if p is not None and p < ALPHA:
        found = A_BETTER if row["adjusted_difference"] > 0 else B_BETTER
    if found != NOT_DECIDED and row["more_disqualified"] == {A_BETTER: "a"}.get(found, "b"):
        found, row["reason"] = NOT_DECIDED, MORE_DISQUALIFIED
    is_indication = row.pop("is_indication")
    verdict = found
    if is_indication or row["reason"] is not None:
        few = row["reason"] is not None and row["reason"].startswith("too few people")
        verdict = TOO_FEW if few else NOT_DECIDED
    elif found == NOT_DECIDED:
        row["reason"] = _may_be_chance(row, needed, nouns)
    indication = found if is_indication and p is not None else None
    return row | {
        "adjusted_p_holm": p,
        "verdict": verdict,
        "indication": indication,
        "runs_needed": needed,
    }


def _is_small(row: Row) -> bool:
    """Return True if the interval of a pair excludes a relevant difference."""
    low, high = row["adjusted_low_holm"], row["adjusted_high_holm"]
    return bool(low > -RELEVANT_POINTS and high < RELEVANT_POINTS)


def _are_too_few(row: Row, needed: int | None) -> bool:
    """Return True if a pair needs more runs than it has."""
    return needed is not None and needed > min(row["runs_a"], row["runs_b"])


def _may_be_chance(row: Row, needed: int | None, nouns: Nouns) -> str:
    """Explain what more runs would show."""
    if _is_small(row):
        return SMALL
    if _are_too_few(row, needed):
        settled = f"{needed} {nouns.sessions} a side would settle {RELEVANT_POINTS:g} points"
        return f"{MAY_BE_CHANCE}: {settled}"
    return MAY_BE_CHANCE
