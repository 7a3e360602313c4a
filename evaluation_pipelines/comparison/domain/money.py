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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation_pipelines.comparison.domain.models import Row, has_cost, is_free
from evaluation_pipelines.comparison.domain.not_worse import more_runs, needed
from evaluation_pipelines.comparison.domain.runs import GROUP
from evaluation_pipelines.comparison.domain.sides import Against, Sides
from evaluation_pipelines.comparison.domain.verdicts import ALPHA, holm

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
