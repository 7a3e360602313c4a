"""What a comparison says about money, in words for decisions."""

from collections.abc import Sequence

from evaluation_pipelines.comparison.domain.findings import Finding, name_of
from evaluation_pipelines.comparison.domain.models import Row, has_cost
from evaluation_pipelines.comparison.domain.sides import Sides
from evaluation_pipelines.formatting import listed, percent, points, usd, whole


def which_for_money(finding: Finding) -> tuple[str, str]:
    """Return which model to take for the money, and the rest of the sentence: why."""
    ranked = finding.ranked
    if len(ranked) < 2:
        return "Nothing to compare", "."
    priced = [row for row in ranked if row["relative_cost"] is not None]
    if not priced:
        return _unpriced(finding)
    sides, best = Sides.of(finding.pairs), priced[0]
    picked = [row for row in priced if row["is_best_value"]]
    if not picked:
        cheapest = min(priced, key=lambda row: float(row["relative_cost"]))
        return _none_shown(cheapest, best, sides)
    (pick,) = picked
    other = best if pick is not best else priced[1]
    too = ", too" if [row for row in ranked if row["rank"] == 1] == [pick] else ""
    return f"Take {name_of(pick)}{too}", (
        f": it {_saving(pick, other, sides)}, and it is shown to be at most {pick['margin']:g} "
        "points behind any other model."
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
    return "Not known", ": the costs cannot be compared for the same kinds of task."


def _saving(row: Row, other: Row, sides: Sides) -> str:
    """Say how much less a session with a model costs than with another."""
    value, low, high = sides.between(row, other).cost_ratio
    if value is None or (low is not None and high is not None and low < 1 < high):
        return f"may cost as much as {name_of(other)}"
    what = "less" if value < 1 else "more"
    said = f"costs {percent(abs(1 - value))} {what} than {name_of(other)}"
    if low is None or high is None:
        return said
    saved = sorted(abs(1 - each) for each in (low, high))
    return f"{said} (between {percent(saved[0])} and {percent(saved[1])})"


def _none_shown(cheapest: Row, best: Row, sides: Sides) -> tuple[str, str]:
    margin = float(cheapest["margin"])
    if cheapest is best:
        return "Not decided", (
            f": {name_of(best)} costs least and scores highest so far, but it is not "
            f"shown that no other model is {margin:g} points better{_what_it_takes(cheapest)}."
        )
    against = sides.between(cheapest, best)
    difference, low, high = against.difference
    value = difference or 0.0  # known, since their costs were compared for the same tasks
    ends = "" if low is None or high is None else f" ({between_points(low, high)})"
    is_behind = against.is_worse or value <= -margin
    return "No cheaper one" if is_behind else "Not decided", (
        f": {name_of(cheapest)} {_saving(cheapest, best, sides)}, but is not shown to be within "
        f"{margin:g} points of the best: it scores {apart(value)}{ends}"
        f"{'' if is_behind else _what_it_takes(cheapest)}."
    )


def apart(value: float) -> str:
    """Format a difference: ``6.6 points less``."""
    return f"{points(abs(value))} points {'less' if value < 0 else 'more'}"


def between_points(low: float, high: float) -> str:
    """Format the interval of a difference without its sign, unless that is not certain."""
    if low < 0 < high:
        return f"between {points(-low)} less and {points(high)} more"
    first, second = sorted(abs(each) for each in (low, high))
    return f"between {points(first)} and {points(second)}"


def _what_it_takes(row: Row) -> str:
    """Say what would show that a model is not worse, if it is as good."""
    if row["not_worse_reason"] is not None:
        return f"; it cannot be told, since {row['not_worse_reason']}"
    if row["more_runs"]:
        return f"; about {whole(row['more_runs'])} more sessions with each would show it"
    if row["people_needed"]:
        return f"; it takes about {whole(row['people_needed'])} people to show it"
    return ""
