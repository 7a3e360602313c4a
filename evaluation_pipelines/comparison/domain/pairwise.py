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
    shared_classes,
    shared_days,
    shared_people,
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
    corrected,
    hedges_g,
    holm,
    precision,
    runs_needed,
    superiority,
)
from evaluation_pipelines.numerics.estimates import share_of
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
    return f"people are unknown for more than a fifth of a side's {nouns.sessions}"


def obstacle(
    a: Arm, b: Arm, found: Difference, limits: "Limits", *, has_people: bool
) -> tuple[bool, str | None]:
    """Return whether a difference is an indication at most, and why nothing is decided.

    What it takes must be there in the runs that are compared, not in all that a side has.

    Args:
        a: Runs of one model.
        b: Runs of the other.
        found: Their difference.
        limits: What decides.
        has_people: The people of most runs of each side are known.
    """
    everyone, fewest = len(np.union1d(a.known_people, b.known_people)), min(len(a), len(b))
    a, b, _ = comparable(a, b, limits.min_runs)
    if (missing := _missing(fewest, a, b, limits)) is not None:
        return False, missing
    units = min(len(a.known_people), len(b.known_people))
    if units < MIN_PEOPLE:
        both = shared_people(a, b)
        is_indication = has_people and both == everyone and both >= FEW_INDICATING
        return is_indication, f"too few people to decide ({units} of {MIN_PEOPLE})"
    if found.p is None:
        return False, "no spread to judge the difference by"
    unknown = max(float((side.people == UNKNOWN_PERSON).mean()) for side in (a, b))
    if not has_people or unknown > LARGEST_UNKNOWN:
        return True, persons_unknown(limits.nouns)
    if week_overlap(a, b) < SMALLEST_OVERLAP:
        return True, "mostly used in different weeks"
    return False, None


def _missing(all_runs: int, a: Arm, b: Arm, limits: "Limits") -> str | None:
    """Return why there are too few runs or days to compare; None if there are enough."""
    compared, needed, nouns = min(len(a), len(b)), limits.min_runs, limits.nouns
    if all_runs < needed:
        return f"fewer than {needed} {nouns.sessions} on a side"
    if not compared:
        return "no task class that both worked on"
    if compared < needed:
        return (
            f"only {compared} {nouns.sessions} of one of the two {nouns.models} can be compared "
            f"({needed} needed)"
        )
    if not len(np.intersect1d(weeks_of(a), weeks_of(b))):
        return "no week in which both were used"
    days = np.unique(a.days), np.unique(b.days)
    if not len(np.intersect1d(*days)) and min(map(len, days)) < MIN_DAYS:
        return f"never used on the same day, and on fewer than {MIN_DAYS} days"
    return None


def week_overlap(a: Arm, b: Arm) -> float:
    """Return what two models' shares of their runs by week have in common.

    The sum over the weeks of the smaller share: 1 if both were used equally, 0 in other weeks.
    """
    weeks = [weeks_of(side) for side in (a, b)]
    every = np.union1d(*weeks)
    shares = [(week[:, None] == every).mean(axis=0) for week in weeks]
    return float(np.minimum(*shares).sum())


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


A_BETTER, B_BETTER, NOT_DECIDED = "A better", "B better", "not decided"
TOO_FEW = "too few people"

SMALL = f"any difference is below {RELEVANT_POINTS:g} points"

MAY_BE_CHANCE = "may be chance"


def more_disqualified(nouns: Nouns) -> str:
    """Return the reason for a pair whose better side is disqualified more often."""
    return f"the {nouns.model} with higher scores is disqualified more"


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
    kinds = is_at_ceiling(scores), bool((scores < PASSES_FROM).any())
    base = dict(zip(GROUP, group, strict=True))
    return [_pair(base, pair, kinds, limits) for pair in combinations(known, 2)]


def _pair(
    base: Row,
    sides: Sequence[tuple[Any, pl.DataFrame, pl.DataFrame]],
    kinds: tuple[bool, bool],
    limits: Limits,
) -> _Compared:
    """Compare two models; ``kinds``: scores of the label are high, and some of its runs failed."""
    (_, all_a, runs_a), (_, all_b, runs_b) = sides
    arms, (is_high, has_failures) = arms_of([runs_a, runs_b]), kinds
    a, b = arms.sides
    log_cost = _log_cost(runs_a, runs_b, limits.min_runs)
    # A label without any failure has scores of one kind, however high they are.
    at_ceiling = is_high and has_failures
    found = difference(a, b, at_ceiling=at_ceiling, min_runs=limits.min_runs)
    classes, share = shared_classes(a, b)
    # Known people, whatever varies together.
    people_a, people_b = (set(side["person"].drop_nulls()) for side in (runs_a, runs_b))
    has_people = arms.clustered_by == PEOPLE
    is_indication, reason = obstacle(a, b, found, limits, has_people=has_people)
    row = base | {
        **{
            f"{name}_{side}": value
            for side, (key, *_) in zip("ab", sides, strict=True)
            for name, value in zip(MODEL, key, strict=True)
        },
        "clustered_by": arms.clustered_by,
        "runs_a": len(a),
        "runs_b": len(b),
        "people_a": len(people_a),
        "people_b": len(people_b),
        "people_both": len(people_a & people_b),
        "is_paired": found.is_paired,
        "at_ceiling": at_ceiling,
        "difference": mean_score(runs_a) - mean_score(runs_b),
        "adjusted_difference": found.value,
        **_ends("adjusted", found),
        "adjusted_p": found.p,
        "without_failed": _without_failed(runs_a, runs_b, found, limits.min_runs),
        "shared_classes": classes,
        "shared_runs": share,
        "shared_days": shared_days(a, b),
        "counterparts": counterparts(a, b),
        "cost_ratio": None if log_cost.value is None else float(np.exp(log_cost.value)),
        **_ends("cost_ratio", log_cost),
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
        row |= {
            "not_worse_a_p": careful.p_above(-limits.margin),
            "not_worse_b_p": careful.p_below(limits.margin),
            "precision": precision(*comparable(a, b, limits.min_runs)[:2], careful),
        }
    return _Compared(row, a, b, found, log_cost)


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


def _ends(name: str, found: Difference, level: float | None = None, suffix: str = "") -> Row:
    """Return the ends of an interval as columns; ``cost_ratio`` is that of logarithms."""
    is_ratio = name == "cost_ratio"
    largest = _LARGEST if is_ratio else _WHOLE_SCALE
    cut = [
        None if end is None else min(max(end, -largest), largest)
        for end in ((found.low, found.high) if level is None else found.ends(level))
    ]
    low, high = (float(np.exp(end)) if is_ratio and end is not None else end for end in cut)
    return {f"{name}_low{suffix}": low, f"{name}_high{suffix}": high}


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
    for is_indication in (False, True):
        tested = {
            place: pair.row
            for place, pair in enumerate(pairs)
            if pair.row["is_indication"] is is_indication
            and pair.row["adjusted_p"] is not None
            and (pair.row["reason"] is None or is_indication)
        }
        tests |= dict(zip(tested, corrected([*tested.values()]), strict=True))
    costs = holm([pair.log_cost.p if pair.row["reason"] is None else None for pair in pairs])
    return [
        _with_verdict(pair, tests.get(at), max(len(tests), 1), nouns)
        # The interval excludes 1 where a model is shown to cost less.
        | _tested_ends("cost_ratio", pair.log_cost, costs[at])
        for at, pair in enumerate(pairs)
    ]


def _tested_ends(name: str, found: Difference, test: Corrected | None) -> Row:
    """Return the ends of the interval of a test among others; null without a test."""
    level = None if test is None else test.level
    return _ends(name, Difference() if test is None else found, level, "_holm")


def _with_verdict(pair: _Compared, test: Corrected | None, tests: int, nouns: Nouns) -> Row:
    p = None if test is None else test.p
    row = pair.row | _tested_ends("adjusted", pair.found, test)
    effect = _design_effect(pair.first, pair.second, pair.found)
    needed = runs_needed(pair.first.scores, pair.second.scores, effect, tests)
    found, more = NOT_DECIDED, row["more_disqualified"]
    if p is not None and p < ALPHA:
        found = A_BETTER if row["adjusted_difference"] > 0 else B_BETTER
    if found != NOT_DECIDED and more == {A_BETTER: "a"}.get(found, "b"):
        found, row["reason"] = NOT_DECIDED, more_disqualified(nouns)
    is_indication, verdict = row.pop("is_indication"), found
    if is_indication or row["reason"] is not None:
        few = (row["reason"] or "").startswith(TOO_FEW)
        verdict = TOO_FEW if few else NOT_DECIDED
    elif found == NOT_DECIDED:
        row["reason"] = _may_be_chance(row, needed, nouns)
    return row | {
        "adjusted_p_holm": p,
        "verdict": verdict,
        "indication": found if is_indication and p is not None else None,
        "runs_needed": needed,
    }


def _may_be_chance(row: Row, needed: int | None, nouns: Nouns) -> str:
    """Explain what more runs would show."""
    if row["adjusted_low_holm"] > -RELEVANT_POINTS and row["adjusted_high_holm"] < RELEVANT_POINTS:
        return SMALL
    if needed is None or needed <= min(row["runs_a"], row["runs_b"]):
        return MAY_BE_CHANCE
    return (
        f"{MAY_BE_CHANCE}: {needed} {nouns.sessions} a side would settle {RELEVANT_POINTS:g} points"
    )
