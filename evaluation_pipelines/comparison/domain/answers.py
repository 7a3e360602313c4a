"""The verdicts of a comparison for each label, in sentences that need no statistics."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison, coverage, places
from evaluation_pipelines.comparison.domain.differences import MIN_PEOPLE
from evaluation_pipelines.comparison.domain.findings import (
    Evidence,
    Finding,
    apart,
    between_points,
    evidence,
    findings,
    model_of,
    name_of,
    pairs_between,
)
from evaluation_pipelines.comparison.domain.models import MOST_FREE, Row, has_cost, is_free
from evaluation_pipelines.comparison.domain.money import Sides, costlier, has_lower_bill
from evaluation_pipelines.comparison.domain.pairwise import SMALL
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL, SESSIONS
from evaluation_pipelines.comparison.domain.verdicts import RELEVANT_POINTS
from evaluation_pipelines.formatting import listed, percent, usd, whole
from evaluation_pipelines.schemas import DEMO_JUDGE, MIXED
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM


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


CAVEAT = (
    "Not controlled for: harder tasks within a task class, easier weeks, judge bias toward a "
    "model, other people."
)
"""Next to every answer that compares models: no interval covers it."""

SCALE = (
    f"Labels are compared separately. Scores run from 0 to 100, and {PASSES_FROM:g} passes. "
    "Parentheses show 95% intervals."
)

DEMO_CAVEAT = (
    f"Demo data: {DEMO_JUDGE} counted tool calls in place of a judge. "
    "Do not choose a model by these scores."
)

LOOK_ONCE = (
    "Read this report once, when you have a choice to make. If you check daily and stop at the "
    "first verdict, you will be wrong more often than stated."
)

MOST_MISSING = 5
"""More missing models than this are only counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A named answer: first what fits a cell of a table, then the rest of its sentences."""

    name: str
    first: str
    rest: str

    @property
    def sentence(self) -> str:
        """The whole answer."""
        return f"{self.first}{self.rest}"


@dataclass(frozen=True, slots=True)
class LabelAnswers:
    """What is known for a label, for one row of a table.

    Attributes:
        finding: Its sessions with comparable scores, of which there are most.
        answers: Its answers; empty without a ranking.
        too_few: Why there is no ranking; ``None`` if there is one.
        people: Number of people whose sessions the verdicts rest on.
        ranked: Number of its ranked sessions.
        sessions: Number of all its sessions.
    """

    finding: Finding
    answers: tuple[Answer, ...]
    too_few: str | None
    people: int
    ranked: int
    sessions: int


@lru_cache(maxsize=8)
def ranked_answers(comparison: Comparison) -> Sequence[tuple[Finding, tuple[Answer, ...]]]:
    """Return the answers for each label that has a ranking; once, pages ask for them often."""
    return [
        (each, answers_of(each, comparison))
        for each in findings(comparison)
        if each.is_main and each.ranked
    ]


@lru_cache(maxsize=8)
def label_answers(comparison: Comparison) -> Sequence[LabelAnswers]:
    """Return what is known for each label, those with a ranking first."""
    answers = {found.group: said for found, said in ranked_answers(comparison)}
    where = places(comparison)
    return [
        LabelAnswers(
            each,
            answers.get(each.group, ()),
            None if each.ranked else _too_few(each, comparison.question.min_runs),
            evidence(each, comparison).people if each.ranked else 0,
            _runs(each.ranked),
            _of_label(where, each).height,
        )
        for each in findings(comparison)
        if each.is_main
    ]


def answers_of(finding: Finding, comparison: Comparison) -> tuple[Answer, ...]:
    """Return the answers for one label that has a ranking."""
    lacking = [
        *_without_runs(finding, comparison),
        *map(_without_people, finding.with_few_people),
        *(f"{name_of(row)} (people unknown)" for row in finding.of_unknown_people),
    ]
    min_runs = comparison.question.min_runs
    return (
        Answer("Quality", *_quality(finding, min_runs, has_missing=bool(lacking))),
        Answer("Value", *which_for_money(finding)),
        Answer("Cost per session", *what_it_costs(finding.ranked)),
        Answer("Confidence", *_certainty(finding, comparison)),
        Answer("Coverage", *_coverage(finding, comparison, lacking)),
    )


def overview(comparison: Comparison) -> tuple[str, ...]:
    """Return how many sessions are ranked, why the rest is not, and how to read the report."""
    lines = coverage(comparison)
    total = sum(each.sessions for each in lines)
    if not total:
        return ()
    ranked = sum(each.sessions for each in lines if each.what == "ranked")
    left_out: dict[str, int] = {}
    for each in lines:
        if each.what != "ranked":
            left_out[each.what] = left_out.get(each.what, 0) + each.sessions
    few = [row for each in findings(comparison) for row in each.with_few_people]
    why = f"{_why(left_out, comparison.question.min_runs)}{_refused(few)}"
    return (f"{whole(ranked)} of {whole(total)} sessions are ranked.{why}", SCALE, LOOK_ONCE)


def demo_caveat(comparison: Comparison) -> str | None:
    """Return that a script took the place of the judge; None if none did."""
    judges = comparison.models["judge_models"].drop_nulls().str.split(", ").explode()
    return DEMO_CAVEAT if DEMO_JUDGE in judges else None


def without_ranking(found: Iterable[Finding], min_runs: int) -> str | None:
    """Return the labels whose models have too few sessions; None if there are none."""
    labels = [
        f"{each.label} ({_most_runs(each)})" for each in found if each.is_main and not each.ranked
    ]
    return (
        f"Too few sessions ({min_runs} per model needed): {', '.join(labels)}." if labels else None
    )


def _too_few(finding: Finding, min_runs: int) -> str:
    return f"{_most_runs(finding)} of {min_runs}"


def _most_runs(finding: Finding) -> str:
    runs = [row["runs"] for row in finding.models if row["state"] == "insufficient"]
    most = whole(max(runs, default=0))
    return f"one model, {most}" if len(runs) == 1 else f"max {most}"


_WHAT = {
    "no score": "no score",
    "disqualified": "disqualified",
    "mixed": "several models",
    "unknown model": "no model named",
    "elsewhere": "scored by another profile or judge",
}


def _why(left_out: Mapping[str, int], min_runs: int) -> str:
    few = {"insufficient": f"fewer than {min_runs} comparable sessions of the model"}
    why = [
        f"{whole(number)} ({(_WHAT | few)[what]})"
        for what, number in sorted(left_out.items(), key=lambda each: -each[1])
    ]
    return f" Not ranked: {', '.join(why)}." if why else ""


def _refused(few: list[Row]) -> str:
    """Return how many of the ranked sessions no verdict can be given for."""
    if not few:
        return ""
    number = whole(_runs(few))
    return f" No verdict for {number} ranked sessions, because too few people used their models."


def _quality(finding: Finding, min_runs: int, *, has_missing: bool) -> tuple[str, str]:
    ranked, few = finding.ranked, finding.with_few_people
    if len(ranked) == 1:
        only = f"only {name_of(ranked[0])} has at least {min_runs} sessions"
        return "nothing to compare", f": {only}."
    if finding.refusal is not None:
        return "no answer", f": {finding.refusal}.{_indication(finding)}"
    unknown = finding.of_unknown_people
    compared = [row for row in ranked if row not in few and row not in unknown]
    others = [row for row in compared if row["rank"] != 1]
    first = _shown_better_first([row for row in compared if row["rank"] == 1], others, finding)
    held, refused = finding.disqualified_winners(first), finding.refused_pairs(first)
    is_open = len(first) > 1 and not (len(first) == 2 and (refused or (held and not others)))
    small = _how_far_apart(first, finding) if is_open else []
    more = [
        *refused,
        *held,
        *(f"Too few people used {name_of(row)} {_people_of(row)}" for row in few),
        *(f"Most people who used {name_of(row)} are unknown" for row in unknown),
    ]
    names = [name_of(row) for row in first]
    if not others:
        equal = [f"{listed(names)} may be equally good"] if is_open and not refused else []
        return "inconclusive", f": {'. '.join([*equal, *small, *more])}."
    said = ["no clear winner"] if is_open else []
    said += [f"of the {len(compared)} comparable models"] if has_missing else []
    worse = listed([_behind(row, first, Sides.of(finding.pairs)) for row in others])
    sentences = [worse, *small, *more, *finding.not_shown_better(first, others)]
    how = f" ({', '.join(said)})" if said else ""
    return listed(names, "or"), f"{how}. {'. '.join(sentences)}."


def _people_of(row: Row) -> str:
    return f"({row['clusters']} of {MIN_PEOPLE})"


def _shown_better_first(first: list[Row], others: list[Row], finding: Finding) -> list[Row]:
    """Put models that are shown to be better than another before those that are not."""
    sides = Sides.of(finding.pairs)
    return sorted(
        first, key=lambda row: not any(sides.between(other, row).is_worse for other in others)
    )


def _how_far_apart(first: list[Row], finding: Finding) -> list[str]:
    """Return that some models differ by less than what matters, if that is shown of every two."""
    pairs = pairs_between(first, finding.pairs)
    if pairs and all(pair["reason"] == SMALL for pair in pairs):
        return [f"Any difference is below {RELEVANT_POINTS:g} points"]
    return []


def _behind(row: Row, first: list[Row], sides: Sides) -> str:
    for best in first:
        against = sides.between(row, best)
        value, low, high = against.difference
        if against.is_worse and value is not None and low is not None and high is not None:
            return (
                f"{name_of(row)} scores {apart(value)} than {name_of(best)} "
                f"({between_points(low, high)})"
            )
    return f"{name_of(row)} is worse than another model"


def _indication(finding: Finding) -> str:
    """Return what it looks like where no verdict can be given."""
    sides = {"A better": "_a", "B better": "_b"}
    hints = {
        f"{name_of(pair, sides[pair['indication']])} looks better than "
        f"{name_of(pair, '_b' if sides[pair['indication']] == '_a' else '_a')}"
        for pair in finding.pairs
        if pair["indication"] in sides
    }
    return f" So far {listed(sorted(hints))}." if hints else ""


def _certainty(finding: Finding, comparison: Comparison) -> tuple[str, str]:
    first, rest = _statistical_certainty(finding, comparison)
    if demo_caveat(comparison) is None:
        return first, rest
    return "none", f", because a script scored. With a real judge: {first}{rest}"


def _statistical_certainty(finding: Finding, comparison: Comparison) -> tuple[str, str]:
    rests_on = evidence(finding, comparison)
    if len(finding.ranked) == 1:
        return "none", f": nothing is compared ({_people(rests_on.people)})."
    claims = ["call a model better that is not"] if finding.is_decided else []
    if any(row["is_best_value"] for row in finding.ranked):
        claims.append("name a best value that is not one")
    if claims:
        said = f"at most 5 of 100 such reports {listed(claims)}"
        first, why = "high", said if len(claims) == 1 else f"{said}, each"
    else:
        first, why = "low", finding.refusal or _undecided(finding)
    if all(row["clustered_by"] == SESSIONS for row in finding.ranked):
        return first, f": {why}. {CAVEAT}"
    counted = "counted once" if rests_on.people == 1 else "each counted once"
    based_on = f"Based on {_people(rests_on.people)}, {counted}{_compared(rests_on)}."
    return first, f": {why}. {based_on} {CAVEAT}"


def _undecided(finding: Finding) -> str:
    held = finding.disqualified_winners(finding.ranked)
    others = ["the differences may be chance"] if len(held) < len(finding.tested) else []
    return listed([*held, *others])


def _compared(rests_on: Evidence) -> str:
    if rests_on.compared == rests_on.sessions:
        return ""
    return f", and {whole(rests_on.compared)} of {whole(rests_on.sessions)} ranked sessions"


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{whole(number)} people"


def _of_label(runs: pl.DataFrame, finding: Finding) -> pl.DataFrame:
    return runs.filter(pl.col(GROUP[0]).eq_missing(pl.lit(finding.group[0])))


def _coverage(finding: Finding, comparison: Comparison, lacking: Sequence[str]) -> tuple[str, str]:
    """Return how many sessions of the label are ranked, and what the ranking leaves out."""
    of_label = _of_label(places(comparison), finding)
    # Of another profile or judge are those that are ranked there, or too few of a model there.
    is_elsewhere = ~pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(value))
        for name, value in zip(GROUP, finding.group, strict=True)
    ) & pl.col("what").is_in(["ranked", "insufficient"])
    what = pl.when(is_elsewhere).then(pl.lit("elsewhere")).otherwise("what")
    left_out = dict(of_label.group_by(what=what).len().sort("what").iter_rows())
    ranked = left_out.pop("ranked", 0)
    why = f"{_why(left_out, comparison.question.min_runs)}{_refused(finding.with_few_people)}"
    people = _people_compared(finding, comparison)
    first = f"{whole(ranked)} of {whole(of_label.height)} sessions"
    return first, f" ranked.{why} {_missing(lacking)}{people}"


def _runs(rows: Iterable[Row]) -> int:
    return sum(row["runs"] for row in rows)


def _missing(lacking: Sequence[str]) -> str:
    """Return the models that were used and are not compared."""
    if not lacking:
        return "All models used are compared."
    more = len(lacking) - MOST_MISSING
    named = [*lacking[:MOST_MISSING], f"{more} more"] if more > 0 else [*lacking]
    return f"Not compared: {listed(named)}."


def _people_compared(finding: Finding, comparison: Comparison) -> str:
    """Return how many of the people who ran sessions of the label are compared."""
    every = _of_label(comparison.runs, finding)["person"].drop_nulls().n_unique()
    compared = evidence(finding, comparison).people
    if not finding.tested or not every:
        return ""
    if compared == every:
        return f" All {_people(every)} are compared."
    return f" {whole(compared)} of {_people(every)} are compared."


def _without_runs(finding: Finding, comparison: Comparison) -> Iterator[str]:
    scored = {model_of(row): row for row in finding.models}
    used = (
        _of_label(comparison.runs, finding)
        .group_by(MODEL)
        .len()
        .sort("len", *MODEL, descending=True)
    )
    for row in used.iter_rows(named=True):
        known = scored.get(model_of(row), {"runs": 0, "state": "insufficient"})
        if known["state"] == "insufficient" and row["model"] not in (None, MIXED):
            yield f"{name_of(row)} ({known['runs']} of {comparison.question.min_runs} sessions)"


def _without_people(row: Row) -> str:
    return f"{name_of(row)} ({row['clusters']} of {MIN_PEOPLE} people)"
