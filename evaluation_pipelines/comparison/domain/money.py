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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines.comparison.domain.models import Row, has_cost, is_free, model_of, name_of
from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER
from evaluation_pipelines.comparison.domain.runs import GROUP
from evaluation_pipelines.comparison.domain.verdicts import ALPHA, holm, more_runs, needed
from evaluation_pipelines.formatting import percent, points, signed


@dataclass(frozen=True, slots=True)
class Against:
    """A model next to another one.

    Attributes:
        pair: Row of ``pair_rows`` or ``model_comparison_pairs``.
        side: ``a`` or ``b``: which one the model is.
    """

    pair: Row
    side: str

    @property
    def name(self) -> str:
        """Name of the model."""
        return name_of(self.pair, f"_{self.side}")

    @property
    def other(self) -> str:
        """Name of the other one."""
        return name_of(self.pair, "_b" if self.side == "a" else "_a")

    @property
    def p(self) -> float | None:
        """One-sided p-value of "not worse than the other by the margin"."""
        p = self.pair[f"not_worse_{self.side}_p"]
        return None if p is None else float(p)

    @property
    def reason(self) -> str | None:
        """Why it cannot be called not worse, whatever its scores."""
        if self.pair["more_disqualified"] == self.side:
            return "it is disqualified more often than another model"
        return self.pair["reason"] if self.p is None else None

    @property
    def is_worse(self) -> bool:
        """True if the other one is shown to be better."""
        return bool(self.pair["verdict"] == {"a": B_BETTER, "b": A_BETTER}[self.side])

    @property
    def cost_ratio(self) -> tuple[float | None, float | None, float | None]:
        """Its cost over that of the other, with the ends of the corrected interval."""
        names = ("cost_ratio", "cost_ratio_low_holm", "cost_ratio_high_holm")
        value, low, high = (self.pair[name] for name in names)
        if self.side == "a":
            return value, low, high
        turned = [None if each is None else 1 / each for each in (value, high, low)]
        return turned[0], turned[1], turned[2]

    @property
    def log_cost(self) -> float | None:
        """Logarithm of its cost over that of the other."""
        ratio, *_ = self.cost_ratio
        return None if ratio is None else math.log(ratio)

    @property
    def difference(self) -> tuple[float | None, float | None, float | None]:
        """Its score minus that of the other for the same tasks, with the corrected interval."""
        names = ("adjusted_difference", "adjusted_low_holm", "adjusted_high_holm")
        value, low, high = (self.pair[name] for name in names)
        if self.side == "a":
            return value, low, high
        turned = [None if each is None else -each for each in (value, high, low)]
        return turned[0], turned[1], turned[2]

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
        return f"scores {apart(value or 0.0)} than {self.other}{how}{ends}"

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
        saved = sorted(abs(1 - each) for each in (low, high))
        return f"{said} ({percent(saved[0])} to {percent(saved[1])})"


def apart(value: float) -> str:
    """Format a difference: ``6.6 points less``."""
    return f"{points(abs(value))} points {'less' if value < 0 else 'more'}"


def between_points(low: float, high: float) -> str:
    """Format the interval of a difference without its sign, unless that is not certain."""
    if low < 0 < high:
        return f"{signed(low)} to {signed(high)}"
    first, second = sorted(abs(each) for each in (low, high))
    return f"{points(first)} to {points(second)}"


@dataclass(frozen=True, slots=True)
class Sides:
    """All pairs of a comparison, by group and model, and by the other model."""

    pairs: Mapping[tuple[Any, ...], Mapping[tuple[Any, ...], Against]]

    @classmethod
    def of(cls, pairs: Iterable[Row]) -> "Sides":
        """Return the pairs by their models."""
        found: dict[tuple[Any, ...], dict[tuple[Any, ...], Against]] = {}
        for pair in pairs:
            group = tuple(pair[name] for name in GROUP)
            a, b = model_of(pair, "_a"), model_of(pair, "_b")
            found.setdefault((*group, *a), {})[b] = Against(pair, "a")
            found.setdefault((*group, *b), {})[a] = Against(pair, "b")
        return cls(found)

    def next_to(self, row: Row, others: Iterable[Row]) -> tuple[Against, ...]:
        """Return a model next to each of others of its group; itself is left out."""
        return tuple(self.between(row, each) for each in others if each is not row)

    def between(self, row: Row, other: Row) -> Against:
        """Return a model next to another one of its group."""
        group = tuple(row[name] for name in GROUP)
        return self.pairs[*group, *model_of(row)][model_of(other)]


_COLUMNS = (
    "relative_cost",
    "not_worse_p",
    "not_worse_p_holm",
    "is_not_worse",
    "not_worse_reason",
    "more_runs",
    "people_needed",
)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A model that costs less than another one, next to each other model of its group."""

    row: Row
    others: tuple[Against, ...]

    @property
    def hardest(self) -> Against:
        """The other model that it is shown least not to be worse than."""
        return max(self.others, key=lambda each: each.p or 0.0)


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
    against = Sides.of(pairs)
    families: dict[object, list[_Candidate]] = {}
    for row in models:
        row.update(dict.fromkeys(_COLUMNS), margin=margin, is_best_value=False)
    groups = _groups(models)
    for rows in groups:
        family = families.setdefault(rows[0]["classification_label"] if alone else None, [])
        family += _candidates(rows, against)
    for family in families.values():
        _test(family, margin)
    for rows in groups:
        shown = [row for row in rows if row["is_not_worse"] and _saves(row, rows, against)]
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


def _saves(row: Row, rows: Sequence[Row], against: Sides) -> bool:
    """Return True if the bills agree that a model costs less; worse models do not matter."""
    others = costlier(row, rows)
    lower = [has_lower_bill(row, other) for other in others]
    return any(lower) and all(
        is_lower or against.between(other, row).is_worse
        for is_lower, other in zip(lower, others, strict=True)
    )


def _groups(models: Iterable[Row]) -> list[list[Row]]:
    """Return the ranked models of each group that has any."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in models:
        if row["state"] == "ranked":
            found.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    return list(found.values())


def _candidates(ranked: Sequence[Row], against: Sides) -> list[_Candidate]:
    """Return the models of a group that cost less than its costliest one, with their costs set."""
    compared = [
        row for row in ranked if any(each.p is not None for each in against.next_to(row, ranked))
    ]
    priced = _set_costs(compared, against)
    return [
        _Candidate(row, against.next_to(row, compared)) for row in priced if costlier(row, compared)
    ]


def _set_costs(rows: Sequence[Row], against: Sides) -> list[Row]:
    """Set relative costs where all are known, and return these rows.

    The logarithms are the least-squares levels of the ratios of all pairs. Models that cost
    nothing have 0, and are no part of the ratios.
    """
    paid = [row for row in rows if has_cost(row) and not is_free(row)]
    free = [row for row in rows if is_free(row)]
    logs = [[each.log_cost for each in against.next_to(row, paid)] for row in paid]
    if len(paid) + len(free) < 2:
        return []
    for row in free:
        row["relative_cost"] = 0.0
    if any(value is None for values in logs for value in values):
        return free
    levels = [sum(value or 0.0 for value in values) / len(paid) for values in logs]
    for row, level in zip(paid, levels, strict=True):
        row["relative_cost"] = math.exp(level - min(levels))
    return [*free, *paid]


def _test(candidates: Sequence[_Candidate], margin: float) -> None:
    """Set p-values and verdicts of one report, and what it would take where nothing is shown."""
    for each in candidates:
        reasons = (other.reason for other in each.others)
        each.row["not_worse_reason"] = next((why for why in reasons if why is not None), None)
    tested = [each for each in candidates if each.row["not_worse_reason"] is None]
    found = holm([each.hardest.p for each in tested])
    for each, test in zip(tested, found, strict=True):
        p = None if test is None else test.p
        is_shown = p is not None and p < ALPHA
        each.row.update(not_worse_p=each.hardest.p, not_worse_p_holm=p, is_not_worse=is_shown)
        if not is_shown:
            each.row.update(_missing(each.hardest, margin, len(tested)))


def _missing(hardest: Against, margin: float, tests: int) -> Row:
    """Return how many runs or people would show a model that is as good."""
    found = needed(hardest.pair["precision"], margin, tests)
    if found.runs is None:
        return {"people_needed": found.people}
    return {"more_runs": more_runs(hardest.pair["runs_a"], hardest.pair["runs_b"], found.runs)}
