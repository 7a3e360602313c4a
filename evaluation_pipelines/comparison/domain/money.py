"""The verdict on money: the cheapest model that is shown to be not worse than the best.

A model is not worse than the best if it is not worse than any other, by the margin
(intersection-union; Hsu, "Constrained simultaneous confidence intervals for multiple comparisons
with the best", 1984). So it needs no verdict on which one is the best. The models of a report that
are tested share 5%, one-sided, by Holm's method.

How much models cost is compared by geometric means for the same tasks, like scores: see
``cost_ratio`` of the pairs. These say what a usual run costs; a few very expensive ones can turn
the order of the bills. A model is only named if both agree. A model that costs nothing is cheaper
than any other one, without a ratio.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines.comparison.domain.models import (
    Row,
    group_of,
    has_cost,
    is_free,
    model_of,
    name_of,
)
from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER
from evaluation_pipelines.comparison.domain.verdicts import ALPHA, holm, more_runs, needed
from evaluation_pipelines.formatting import percent, points, signed

_Ends = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Against:
    """A model next to another one.

    Attributes:
        pair: Row of ``pair_rows`` or ``model_comparison_pairs``.
        name: Name of the model.
        other: Name of the other one.
        p: One-sided p-value of "not worse than the other by the margin".
        reason: Why it cannot be called not worse, whatever its scores.
        is_worse: True if the other one is shown to be better.
        cost_ratio: Its cost over that of the other, with the ends of the corrected interval.
        difference: Its score minus that of the other for the same tasks, likewise.
    """

    pair: Row
    name: str
    other: str
    p: float | None
    reason: str | None
    is_worse: bool
    cost_ratio: _Ends
    difference: _Ends

    @classmethod
    def of(cls, pair: Row, side: str) -> "Against":
        """Return the model of a side, ``a`` or ``b``, of a pair."""
        p, reason = pair[f"not_worse_{side}_p"], pair["reason"]
        if pair.get("more_disqualified") == side:
            reason = "it is disqualified more often than another model"
        elif p is not None:
            reason = None
        ratio, gap = (
            (pair[value], pair[f"{name}_low_holm"], pair[f"{name}_high_holm"])
            for value, name in (("cost_ratio", "cost_ratio"), ("adjusted_difference", "adjusted"))
        )
        other = "b" if side == "a" else "a"
        if side == "b":
            ratio, gap = _turned(ratio, lambda number: 1 / number), _turned(gap, float.__neg__)
        return cls(
            pair,
            name_of(pair, f"_{side}"),
            name_of(pair, f"_{other}"),
            p,
            reason,
            pair["verdict"] == {"a": A_BETTER, "b": B_BETTER}[other],
            ratio,
            gap,
        )

    @property
    def is_cheaper(self) -> bool:
        """True if a usual run costs less than with the other one, beyond chance."""
        value, _, high = self.cost_ratio
        return value is not None and (value if high is None else high) < 1

    def scores(self, how: str = "", *, has_ends: bool = True) -> str:
        """Return ``scores 6.6 points less than a (1.4 to 9.2)``; ``how`` precedes the ends."""
        value, low, high = self.difference
        ends = ""
        if has_ends and low is not None and high is not None:
            ends = f" ({between_points(low, high)})"
        return f"scores {difference_text(value or 0.0)} than {self.other}{how}{ends}"

    @property
    def costs(self) -> str:
        """The cost of a usual run: ``costs 74% less than a (51% to 86%)``."""
        value, low, high = self.cost_ratio
        if value is None or (low is not None and high is not None and low < 1 < high):
            return f"may cost as much as {self.other}"
        said = (
            f"costs {percent(abs(1 - value))} {'less' if value < 1 else 'more'} than {self.other}"
        )
        if low is None or high is None:
            return said
        saved = sorted(abs(1 - end) for end in (low, high))
        return f"{said} ({percent(saved[0])} to {percent(saved[1])})"


def _turned(ends: _Ends, turn: Callable[[float], float]) -> _Ends:
    value, low, high = (None if end is None else turn(end) for end in ends)
    return value, high, low


def difference_text(value: float) -> str:
    """Format a difference: ``6.6 points less``."""
    return f"{points(abs(value))} points {'less' if value < 0 else 'more'}"


def between_points(low: float, high: float) -> str:
    """Format the interval of a difference without its sign, unless that is not certain."""
    if low < 0 < high:
        return f"{signed(low)} to {signed(high)}"
    first, second = sorted(abs(end) for end in (low, high))
    return f"{points(first)} to {points(second)}"


Sides = Mapping[tuple[Any, ...], Against]
"""Group, model and other model -> the model next to the other one."""


def sides_of(pairs: Iterable[Row]) -> Sides:
    """Return the pairs by their models, each twice."""
    return {
        (*group_of(pair), *model_of(pair, f"_{side}"), *model_of(pair, f"_{other}")): Against.of(
            pair, side
        )
        for pair in pairs
        for side, other in ("ab", "ba")
    }


def between(sides: Sides, row: Row, other: Row) -> Against:
    """Return a model next to another one of its group."""
    return sides[*group_of(row), *model_of(row), *model_of(other)]


_COLUMNS = (
    "relative_cost",
    "not_worse_p",
    "not_worse_p_holm",
    "is_not_worse",
    "not_worse_reason",
    "more_runs",
    "people_needed",
)


_Candidate = tuple[Row, Sequence[Against]]
"""A model that costs less than another one, next to each other model of its group."""


def judge_money(
    models: Sequence[Row], pairs: Iterable[Row], margin: float, *, alone: bool = False
) -> None:
    """Set the columns of ``model_comparison`` about money.

    Models without a pair that can be decided, for want of people or weeks, are left out.

    Args:
        models: Rows of ``model_comparison``.
        pairs: Rows of ``pair_rows``.
        margin: Points.
        alone: Correct each label by itself.
    """
    sides = sides_of(pairs)
    families: dict[object, list[_Candidate]] = {}
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in models:
        row.update(dict.fromkeys(_COLUMNS), margin=margin, is_best_value=False)
        if row["state"] == "ranked":
            groups.setdefault(group_of(row), []).append(row)
    for group, rows in groups.items():
        family = families.setdefault(group[0] if alone else None, [])
        family += _candidates(rows, sides)
    for family in families.values():
        _test(family, margin)
    for rows in groups.values():
        shown = [row for row in rows if row["is_not_worse"] and _saves(row, rows, sides)]
        if shown:
            min(shown, key=lambda row: row["relative_cost"])["is_best_value"] = True


def costlier(row: Row, rows: Iterable[Row]) -> list[Row]:
    """Return the models of which a usual run costs more."""
    if is_free(row):
        return [other for other in rows if has_cost(other) and not is_free(other)]
    priced = [other for other in rows if other["relative_cost"] is not None]
    return [other for other in priced if other["relative_cost"] > row["relative_cost"]]


def has_lower_bill(row: Row, other: Row) -> bool:
    """Return True if the mean cost of a run is lower, too."""
    return float(row["avg_cost_usd"]) < float(other["avg_cost_usd"])


def _saves(row: Row, rows: Sequence[Row], sides: Sides) -> bool:
    """Return True if the bills agree that a model costs less; worse models do not matter."""
    others = costlier(row, rows)
    higher = [other for other in others if not has_lower_bill(row, other)]
    return len(higher) < len(others) and all(
        between(sides, dearer, row).is_worse for dearer in higher
    )


def _candidates(ranked: Sequence[Row], sides: Sides) -> list[_Candidate]:
    """Return the models of a group that cost less than its costliest one, with their costs set."""

    def next_to(row: Row, others: Sequence[Row]) -> list[Against]:
        return [between(sides, row, other) for other in others if other is not row]

    compared = [
        row for row in ranked if any(against.p is not None for against in next_to(row, ranked))
    ]
    priced = _set_costs(compared, sides)
    return [(row, next_to(row, compared)) for row in priced if costlier(row, compared)]


def _set_costs(rows: Sequence[Row], sides: Sides) -> list[Row]:
    """Set relative costs where all are known, and return these rows.

    The logarithms are the least-squares levels of the ratios of all pairs. Models that cost
    nothing have 0, and are no part of the ratios.
    """
    paid = [row for row in rows if has_cost(row) and not is_free(row)]
    free = [row for row in rows if is_free(row)]
    if len(paid) + len(free) < 2:
        return []
    for row in free:
        row["relative_cost"] = 0.0
    ratios = [
        [between(sides, row, other).cost_ratio[0] for other in paid if other is not row]
        for row in paid
    ]
    if any(None in row for row in ratios):
        return free
    logs = [[math.log(ratio) for ratio in row if ratio is not None] for row in ratios]
    levels = [sum(row) / len(paid) for row in logs]
    for row, level in zip(paid, levels, strict=True):
        row["relative_cost"] = math.exp(level - min(levels))
    return [*free, *paid]


def _test(candidates: Sequence[_Candidate], margin: float) -> None:
    """Set p-values and verdicts of one report, and what it would take where nothing is shown."""
    tested = []
    for row, others in candidates:
        row["not_worse_reason"] = next((other.reason for other in others if other.reason), None)
        if row["not_worse_reason"] is None:
            # The other model that it is shown least not to be worse than.
            tested.append((row, max(others, key=lambda other: other.p or 0.0)))
    found = holm([hardest.p for _, hardest in tested])
    for (row, hardest), test in zip(tested, found, strict=True):
        p = None if test is None else test.p
        is_shown = p is not None and p < ALPHA
        row.update(not_worse_p=hardest.p, not_worse_p_holm=p, is_not_worse=is_shown)
        if is_shown:
            continue
        pair, takes = hardest.pair, needed(hardest.pair["precision"], margin, len(tested))
        if takes.runs is None:
            row["people_needed"] = takes.people
        else:
            row["more_runs"] = more_runs(pair["runs_a"], pair["runs_b"], takes.runs)
