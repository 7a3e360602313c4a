"""Value and cost of models, in words for decisions."""

from collections.abc import Sequence

from evaluation_pipelines.comparison.domain.findings import (
    Finding,
    apart,
    between_points,
    name_of,
)
from evaluation_pipelines.comparison.domain.models import MOST_FREE, Row, has_cost, is_free
from evaluation_pipelines.comparison.domain.money import costlier, has_lower_bill
from evaluation_pipelines.comparison.domain.sides import Sides
from evaluation_pipelines.formatting import listed, percent, usd, whole


def which_for_money(finding: Finding) -> tuple[str, str]:
    """Return the model of best value, and the sentences that say why."""
    ranked = finding.ranked
    if len(ranked) < 2:
        return "nothing to compare", "."
    priced = [row for row in ranked if row["relative_cost"] is not None]
    if not priced:
        return _unpriced(finding)
    if all(is_free(row) for row in ranked):
        return "no difference", ": sessions with these models cost nothing."
    sides, best = Sides.of(finding.pairs), priced[0]
    picked = [row for row in priced if row["is_best_value"]]
    if not picked:
        if shown := [row for row in priced if row["is_not_worse"]]:
            return _dearer_bill(shown, priced, sides)
        # One that may be as good comes before one that is not, however little it costs.
        maybe = [row for row in priced if row["rank"] == 1 and _costs_less(row, best, sides)]
        cheapest = min(maybe or priced, key=lambda row: float(row["relative_cost"]))
        return _none_shown(cheapest, priced, sides)
    (pick,) = picked
    others = [row for row in costlier(pick, ranked) if has_lower_bill(pick, row)]
    other = best if best in others else others[0]
    return name_of(pick), (
        f". It {_saving(pick, other, sides)} and is at most {pick['margin']:g} points behind every "
        f"other model.{_left_out(priced)}"
    )


def what_it_costs(ranked: Sequence[Row]) -> tuple[str, str]:
    """Return the mean cost of each model with a known one, the cheapest first."""
    known = sorted(filter(has_cost, ranked), key=lambda row: float(row["avg_cost_usd"]))
    if not known:
        return "unknown", ": too few sessions have a known cost."
    return " · ".join(f"{name_of(row)} {usd(row['avg_cost_usd'])}" for row in known), ""


def _unpriced(finding: Finding) -> tuple[str, str]:
    if finding.refusal is not None:
        return "no answer", f": {finding.refusal}."
    without = [name_of(row) for row in finding.ranked if not has_cost(row)]
    if without:
        return "unknown", f": too few sessions with {listed(without, 'or')} have a known cost."
    if free := [_free_runs(row) for row in finding.ranked if _is_partly_free(row)]:
        return "unknown", f": {listed(free)} cost nothing, and a ratio needs costs above 0."
    return "unknown", ": costs cannot be compared for the same tasks."


def _dearer_bill(shown: Sequence[Row], priced: Sequence[Row], sides: Sides) -> tuple[str, str]:
    """Return that a usual session costs less with a model, and all of them more."""
    row = min(shown, key=lambda each: float(each["relative_cost"]))
    other = min(costlier(row, priced), key=lambda each: float(each["avg_cost_usd"]))
    return "inconclusive", (
        f". A usual session with {name_of(row)} {_ratio(row, other, sides)}, but its mean is not "
        f"lower ({usd(row['avg_cost_usd'])}, {usd(other['avg_cost_usd'])} with {name_of(other)}). "
        "A few of its sessions are very expensive, or its tasks cost more."
    )


def known_costs(row: Row) -> int:
    """Return the number of runs of a row of models whose cost is known."""
    return round(float(row["cost_coverage"] or 0.0) * int(row["runs"]))


def _is_partly_free(row: Row) -> bool:
    """Return True if too many runs cost nothing for a geometric mean, but not all."""
    known, free = known_costs(row), int(row["zero_cost_runs"])
    return MOST_FREE * known < free < known


def _free_runs(row: Row) -> str:
    number, known = whole(row["zero_cost_runs"]), whole(known_costs(row))
    return f"{number} of {known} sessions with {name_of(row)}"


def _left_out(priced: Sequence[Row]) -> str:
    """Name the sessions without a cost that ratios leave out."""
    few = [_free_runs(row) for row in priced if row["zero_cost_runs"] and not is_free(row)]
    return f" Not in the ratio: {listed(few)}, which cost nothing." if few else ""


def _saving(row: Row, other: Row, sides: Sides) -> str:
    """Say how much less a session with a model costs than with another."""
    if is_free(row):
        return "costs nothing"
    said = _ratio(row, other, sides)
    value, *_ = sides.between(row, other).cost_ratio
    if value is None or (value < 1) is has_lower_bill(row, other):
        return said
    return f"{said} for a usual session, but not on average"


def _ratio(row: Row, other: Row, sides: Sides) -> str:
    value, low, high = sides.between(row, other).cost_ratio
    if value is None or (low is not None and high is not None and low < 1 < high):
        return f"may cost as much as {name_of(other)}"
    what = "less" if value < 1 else "more"
    said = f"costs {percent(abs(1 - value))} {what} than {name_of(other)}"
    if low is None or high is None:
        return said
    saved = sorted(abs(1 - each) for each in (low, high))
    return f"{said} ({percent(saved[0])} to {percent(saved[1])})"


def _costs_less(row: Row, other: Row, sides: Sides) -> bool:
    """Return True if a usual session costs less with a model than with another, beyond chance."""
    if row is other:
        return False
    value, _, high = sides.between(row, other).cost_ratio
    return value is not None and (value if high is None else high) < 1


def _none_shown(cheapest: Row, priced: Sequence[Row], sides: Sides) -> tuple[str, str]:
    margin, best = float(cheapest["margin"]), priced[0]
    if cheapest is best:
        has_lowest = all(has_lower_bill(best, each) for each in costlier(best, priced))
        least = f"costs least{'' if has_lowest else ' for a usual session'}"
        so_far = "costs nothing" if len(priced) == 1 else f"{least} and scores highest so far"
        return "inconclusive", (
            f". {name_of(best)} {so_far}, but another model may be {margin:g} points better."
            f"{_what_it_takes(cheapest)}"
        )
    # As in the answer about quality: the first model that is shown to be better.
    others = [row for row in priced if row is not cheapest]
    other = next((row for row in others if sides.between(cheapest, row).is_worse), best)
    against = sides.between(cheapest, other)
    difference, low, high = against.difference
    value = difference or 0.0  # known, since their costs were compared for the same tasks
    ends = "" if low is None or high is None else f" ({between_points(low, high)})"
    saving = f". {name_of(cheapest)} {_saving(cheapest, other, sides)}"
    scores = f"scores {apart(value)} than {name_of(other)}{ends}"
    if against.is_worse:
        return "no cheaper alternative", f"{saving} but {scores}."
    return "inconclusive", (
        f"{saving} but may be more than {margin:g} points worse than the best. It {scores}."
        f"{_what_it_takes(cheapest)}"
    )


def _what_it_takes(row: Row) -> str:
    """Return what would show that a model is not worse, if it is as good."""
    if row["not_worse_reason"] is not None:
        return f" More sessions cannot settle it: {row['not_worse_reason']}."
    if row["more_runs"]:
        return f" About {whole(row['more_runs'])} more sessions per model would settle it."
    if row["people_needed"]:
        return f" About {whole(row['people_needed'])} people would settle it."
    return ""
