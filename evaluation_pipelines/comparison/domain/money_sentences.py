"""What a comparison says about money, in words for decisions."""

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
    """Return which model to take for the money, and the rest of the sentence: why."""
    ranked = finding.ranked
    if len(ranked) < 2:
        return "Nothing to compare", "."
    priced = [row for row in ranked if row["relative_cost"] is not None]
    if not priced:
        return _unpriced(finding)
    if all(is_free(row) for row in ranked):
        return "Nothing to save", ": no session with any of these models costs anything."
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
    too = ", too" if [row for row in ranked if row["rank"] == 1] == [pick] else ""
    return f"Take {name_of(pick)}{too}", (
        f": it {_saving(pick, other, sides)}, and it is shown to be at most {pick['margin']:g} "
        f"points behind any other model.{_left_out(priced)}"
    )


def what_it_costs(ranked: Sequence[Row]) -> str:
    """Say what a session costs, and how many points a dollar buys, the cheapest model first."""
    known = sorted(filter(has_cost, ranked), key=lambda row: float(row["avg_cost_usd"]))
    if not known:
        return "Not known: too few of the sessions have a known cost."
    return f"A session costs {listed([_bill(row) for row in known])}."


def _bill(row: Row) -> str:
    said = f"{usd(row['avg_cost_usd'])} with {name_of(row)}"
    if row["score_per_dollar"] is None:
        return said
    low, high = row["score_per_dollar_low"], row["score_per_dollar_high"]
    ends = "" if low is None else f", between {whole(low)} and {whole(high)}"
    return f"{said} ({whole(row['score_per_dollar'])} points per dollar{ends})"


def _unpriced(finding: Finding) -> tuple[str, str]:
    if finding.refusal is not None:
        return "No answer", f": {finding.refusal}."
    without = [name_of(row) for row in finding.ranked if not has_cost(row)]
    if without:
        return "Not known", f": too few sessions with {listed(without, 'or')} have a known cost."
    if free := [_free_runs(row) for row in finding.ranked if _is_partly_free(row)]:
        said = f"{listed(free)} cost nothing, and a ratio takes costs above 0"
        return "Not known", f": {said}."
    return "Not known", ": the costs cannot be compared for the same kinds of task."


def _dearer_bill(shown: Sequence[Row], priced: Sequence[Row], sides: Sides) -> tuple[str, str]:
    """Say that a usual session costs less with a model, and all of them more."""
    row = min(shown, key=lambda each: float(each["relative_cost"]))
    other = min(costlier(row, priced), key=lambda each: float(each["avg_cost_usd"]))
    return "Not decided", (
        f": a usual session of {name_of(row)} {_ratio(row, other, sides)}, but its bill is not "
        f"lower ({usd(row['avg_cost_usd'])} a session, {usd(other['avg_cost_usd'])} with "
        f"{name_of(other)}): a few of its sessions cost very much, or its tasks are costlier ones."
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
    return f" Left out of the ratio: {listed(few)} that cost nothing." if few else ""


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
    return f"{said} (between {percent(saved[0])} and {percent(saved[1])})"


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
        return "Not decided", (
            f": {name_of(best)} {so_far}, but another model may be "
            f"{margin:g} points better{_what_it_takes(cheapest)}."
        )
    # As in the answer about quality: the first model that is shown to be better.
    others = [row for row in priced if row is not cheapest]
    other = next((row for row in others if sides.between(cheapest, row).is_worse), best)
    against = sides.between(cheapest, other)
    difference, low, high = against.difference
    value = difference or 0.0  # known, since their costs were compared for the same tasks
    ends = "" if low is None or high is None else f" ({between_points(low, high)})"
    saving = f": {name_of(cheapest)} {_saving(cheapest, other, sides)}"
    scores = f"scores {apart(value)} than {name_of(other)}{ends}"
    if against.is_worse:
        return "Take no cheaper one", f"{saving}, but {scores}."
    return "Not decided", (
        f"{saving}, but may be more than {margin:g} points worse than the best: it {scores}"
        f"{_what_it_takes(cheapest)}."
    )


def _what_it_takes(row: Row) -> str:
    """Say what would show that a model is not worse, if it is as good."""
    if row["not_worse_reason"] is not None:
        return f"; it cannot be told, since {row['not_worse_reason']}"
    if row["more_runs"]:
        return f"; about {whole(row['more_runs'])} more sessions with each would tell"
    if row["people_needed"]:
        return f"; it takes about {whole(row['people_needed'])} people to tell"
    return ""
