"""The verdicts of a comparison for each label, in sentences that need no statistics.

They are the same on the HTML page, in Markdown and in the terminal. Method lines explain them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison, coverage, places
from evaluation_pipelines.comparison.domain.differences import MIN_PEOPLE
from evaluation_pipelines.comparison.domain.findings import (
    Evidence,
    Finding,
    evidence,
    findings,
    pairs_between,
    runs_in,
)
from evaluation_pipelines.comparison.domain.models import (
    MOST_FREE,
    Row,
    has_cost,
    has_values,
    is_free,
    known_costs,
    model_of,
    name_of,
)
from evaluation_pipelines.comparison.domain.money import Against, between, costlier, has_lower_bill
from evaluation_pipelines.comparison.domain.pairwise import (
    A_BETTER,
    B_BETTER,
    MAY_BE_CHANCE,
    NOT_DECIDED,
    SMALL,
    TOO_FEW,
    is_tested,
    more_disqualified,
)
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL, SESSIONS, Nouns
from evaluation_pipelines.comparison.domain.verdicts import RELEVANT_POINTS
from evaluation_pipelines.formatting import listed, usd, whole
from evaluation_pipelines.schemas import DEMO_JUDGE, MIXED
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

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

MOST_REFUSED = 2
"""More pairs than this are only counted in a sentence."""


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
        too_few: The most sessions of a model; ``None`` if there is a ranking.
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
def label_answers(comparison: Comparison) -> Sequence[LabelAnswers]:
    """Return what is known for each label, those with a ranking first; pages ask for it often."""
    labels = places(comparison).partition_by(GROUP[0], as_dict=True)
    return [
        LabelAnswers(
            finding,
            answers_of(finding, comparison) if finding.ranked else (),
            None if finding.ranked else _most_runs(finding),
            evidence(finding, comparison).people if finding.ranked else 0,
            runs_in(finding.ranked),
            labels[finding.group[0],].height,
        )
        for finding in findings(comparison)
        if finding.is_main
    ]


def overview(comparison: Comparison) -> tuple[str, ...]:
    """Return how many sessions are ranked, why the rest is not, and how to read the report."""
    numbers = Counter[str]()
    for line in coverage(comparison):
        numbers[line["what"]] += line["sessions"]
    if not numbers:
        return ()
    nouns, total = comparison.question.nouns, sum(numbers.values())
    few = [row for finding in findings(comparison) for row in finding.models_with_few_people]
    ranked = numbers.pop("ranked", 0)
    why = f"{_unranked_reasons(numbers, comparison)}{_refused(few, nouns)}"
    first = f"{whole(ranked)} of {whole(total)} {nouns.sessions} are ranked.{why}"
    return first, SCALE, LOOK_ONCE


def demo_caveat(comparison: Comparison) -> str | None:
    """Return that a script took the place of the judge; None if none did."""
    judges = comparison.models["judge_models"].drop_nulls().str.split(", ").explode()
    return DEMO_CAVEAT if DEMO_JUDGE in judges else None


def without_ranking(comparison: Comparison) -> str | None:
    """Return the labels whose models have too few sessions; None if there are none."""
    few = [answer for answer in label_answers(comparison) if answer.too_few is not None]
    labels = ", ".join(f"{answers.finding.label} ({answers.too_few})" for answers in few)
    question = comparison.question
    needed = f"{question.min_runs} per {question.nouns.model} needed"
    return f"Too few {question.nouns.sessions} ({needed}): {labels}." if few else None


def facts(finding: Finding) -> Iterator[str]:
    """Yield what is decided, then why the rest is not: the first models, and lower ones.

    A model that may be chosen need not be shown to be better than each that may not.
    """
    for pair in finding.pairs:
        if pair["verdict"] in (A_BETTER, B_BETTER):
            better = Against.of(pair, "a" if pair["verdict"] == A_BETTER else "b")
            said = better.scores(" with the same task mix")
            people = pair["people_both"]
            if not pair["is_paired"]:
                people = pair["people_a"] + pair["people_b"] - people
            yield f"{better.name} {said}, based on {people} people."
        if not finding.question.by.compares_models and not pair["people_both"]:
            names = [name_of(pair, "_a"), name_of(pair, "_b")]
            yield f"{listed(names)} share no known user, so people may explain the difference."
    first, nouns = [row for row in finding.ranked if row["rank"] in (1, None)], finding.nouns
    for pair in filter(_is_open, pairs_between(first, finding.pairs)):
        yield _not_decided(pair, nouns)
    others = [row for row in finding.ranked if row not in first]
    across = [_not_decided(against.pair, nouns) for against in _open_across(first, others, finding)]
    yield from _counted(across, f"pairs with lower-ranked {nouns.models} have no verdict.")


def _counted(said: Sequence[str], many: str) -> Sequence[str]:
    """Return some sentences; if there are too many, how many ``many`` there are."""
    return [f"{len(said)} {many}"] if len(said) > MOST_REFUSED else said


def _is_open(pair: Row) -> bool:
    return pair["verdict"] in (NOT_DECIDED, TOO_FEW)


def _open_across(first: list[Row], others: list[Row], finding: Finding) -> list[Against]:
    """Return the pairs without a verdict of one of the first models and one of the others."""
    names, lower = (set(map(model_of, rows)) for rows in (first, others))
    sides = {"a": ("_a", "_b"), "b": ("_b", "_a")}
    return [
        Against.of(pair, side)
        for pair in filter(_is_open, finding.pairs)
        for side, (best, other) in sides.items()
        if model_of(pair, best) in names and model_of(pair, other) in lower
    ]


def _not_decided(pair: Row, nouns: Nouns) -> str:
    """Explain why a pair is not decided, and whether more runs would help."""
    first, reason = Against.of(pair, "a"), pair["reason"]
    if pair["adjusted_low_holm"] is None:
        return f"{first.name} and {first.other}: {reason}."
    found = f"{first.name} {first.scores()}"
    if better := _indicated(pair):
        return f"{found}. Indication: {better.name} looks better, no verdict ({reason})."
    if not reason.startswith(MAY_BE_CHANCE):
        return f"{found}. No verdict: {reason}."
    needed = (
        f" Detecting a {RELEVANT_POINTS:g}-point difference needs about {pair['runs_needed']} "
        f"{nouns.sessions} per {nouns.model} (now {pair['runs_a']} and {pair['runs_b']})."
    )
    return f"{found}, which may be chance.{'' if reason == MAY_BE_CHANCE else needed}"


def _indicated(pair: Row) -> Against | None:
    """Return the model that looks better where no verdict can be given."""
    side = {A_BETTER: "a", B_BETTER: "b"}.get(pair["indication"])
    return None if side is None else Against.of(pair, side)


def answers_of(finding: Finding, comparison: Comparison) -> tuple[Answer, ...]:
    """Return the answers for one label that has a ranking."""
    lacking = [
        *_without_runs(finding, comparison),
        *(
            f"{name_of(row)} ({row['clusters']} of {MIN_PEOPLE} people)"
            for row in finding.models_with_few_people
        ),
        *(f"{name_of(row)} (people unknown)" for row in finding.models_with_unknown_people),
    ]
    return (
        Answer("Quality", *_quality(finding, has_missing=bool(lacking))),
        Answer("Value", *_value(finding)),
        Answer(f"Cost per {finding.nouns.session}", *_costs(finding)),
        Answer("Confidence", *_confidence(finding, comparison)),
        Answer("Coverage", *_coverage(finding, comparison, lacking)),
    )


def _quality(finding: Finding, *, has_missing: bool) -> tuple[str, str]:
    ranked, few, nouns = finding.ranked, finding.models_with_few_people, finding.nouns
    if len(ranked) == 1:
        only = f"only {name_of(ranked[0])} has at least {finding.question.min_runs}"
        return "nothing to compare", f": {only} {nouns.sessions}."
    if finding.refusal is not None:
        return "no answer", f": {finding.refusal}.{_looks_better(finding)}"
    unknown = finding.models_with_unknown_people
    compared = [row for row in ranked if row not in few and row not in unknown]
    others = [row for row in compared if row["rank"] != 1]
    first = sorted(
        (row for row in compared if row["rank"] == 1),
        # Models that are shown to be better than another come before those that are not.
        key=lambda row: not any(between(finding.sides, other, row).is_worse for other in others),
    )
    held, refused = _disqualified_winners(first, finding), _refused_pairs(first, finding)
    is_open = len(first) > 1 and not (len(first) == 2 and (refused or (held and not others)))
    among = pairs_between(first, finding.pairs)
    is_small = is_open and among and all(pair["reason"] == SMALL for pair in among)
    more = [
        *([f"Any difference is below {RELEVANT_POINTS:g} points"] if is_small else []),
        *refused,
        *held,
        *(f"Too few people used {name_of(row)} ({row['clusters']} of {MIN_PEOPLE})" for row in few),
        *(f"Most people who used {name_of(row)} are unknown" for row in unknown),
    ]
    names = list(map(name_of, first))
    if not others:
        equal = [f"{listed(names)} may be equally good"] if is_open and not refused else []
        return "inconclusive", f": {'. '.join([*equal, *more])}."
    said = ["no clear winner"] if is_open else []
    said += [f"of the {len(compared)} comparable {nouns.models}"] if has_missing else []
    worse = listed([_behind(row, first, finding) for row in others])
    sentences = [worse, *more, *_not_shown_better(first, others, finding)]
    how = f" ({', '.join(said)})" if said else ""
    return listed(names, "or"), f"{how}. {'. '.join(sentences)}."


def _looks_better(finding: Finding) -> str:
    found = {
        f"{better.name} looks better than {better.other}"
        for better in map(_indicated, finding.pairs)
        if better is not None
    }
    return f" So far {listed(sorted(found))}." if found else ""


def _disqualified_winners(among: list[Row], finding: Finding) -> list[str]:
    """Say which of some models score more, but are disqualified too often to be better."""
    pairs = (
        Against.of(pair, "a" if pair["adjusted_difference"] > 0 else "b")
        for pair in pairs_between(among, finding.tested)
        if pair["reason"] == more_disqualified(finding.nouns)
    )
    return [
        f"{pair.name} {pair.scores(has_ends=False)}, but is disqualified more often"
        for pair in pairs
    ]


def _refused_pairs(among: list[Row], finding: Finding) -> Sequence[str]:
    """Say which of some models cannot be compared with each other; many are only counted."""
    refused = [
        f"{name_of(pair, '_a')} and {name_of(pair, '_b')} cannot be compared: {pair['reason']}"
        for pair in pairs_between(among, finding.pairs)
        if not is_tested(pair)
    ]
    return _counted(refused, "pairs cannot be compared")


def _not_shown_better(first: list[Row], others: list[Row], finding: Finding) -> Sequence[str]:
    """Say which of the first models are not shown to be better than which of the others."""
    said = [
        f"{against.name} {against.scores(has_ends=False)}, which may be chance"
        if str(against.pair["reason"]).startswith(MAY_BE_CHANCE)
        else f"No verdict between {against.name} and {against.other}"
        for against in _open_across(first, others, finding)
    ]
    return _counted(said, f"pairs with lower-ranked {finding.nouns.models} have no verdict")


def _behind(row: Row, first: list[Row], finding: Finding) -> str:
    for against in (between(finding.sides, row, other) for other in first):
        if against.is_worse and None not in against.difference:
            return f"{against.name} {against.scores()}"
    return f"{name_of(row)} is worse than another {finding.nouns.model}"


def _value(finding: Finding) -> tuple[str, str]:
    """Return the model of best value, and the sentences that say why."""
    ranked, nouns = finding.ranked, finding.nouns
    if len(ranked) < 2:
        return "nothing to compare", "."
    priced = [row for row in ranked if row["relative_cost"] is not None]
    if not priced:
        return _unpriced(finding)
    if all(map(is_free, ranked)):
        return "no difference", f": {nouns.sessions} with these {nouns.models} cost nothing."
    best = priced[0]
    picked = [row for row in priced if row["is_best_value"]]
    if not picked:
        if shown := [row for row in priced if row["is_not_worse"]]:
            return _dearer_bill(shown, priced, finding)
        # One that may be as good comes before one that is not, however little it costs.
        maybe = [
            row
            for row in priced
            if row["rank"] == 1 and row is not best and between(finding.sides, row, best).is_cheaper
        ]
        cheapest = min(maybe or priced, key=lambda row: float(row["relative_cost"]))
        return _none_shown(cheapest, priced, finding)
    (pick,) = picked
    others = [row for row in costlier(pick, ranked) if has_lower_bill(pick, row)]
    saving = _saving(pick, best if best in others else others[0], finding)
    free = [_free_runs(row, nouns) for row in priced if row["zero_cost_runs"] and not is_free(row)]
    left_out = f" Not in the ratio: {listed(free)}, which cost nothing." if free else ""
    return name_of(pick), (
        f". It {saving} and is at most {pick['margin']:g} points behind every other "
        f"{nouns.model}.{left_out}"
    )


def _costs(finding: Finding) -> tuple[str, str]:
    """Return the mean cost of each model with a known one, the cheapest first."""
    known = sorted(filter(has_cost, finding.ranked), key=lambda row: float(row["avg_cost_usd"]))
    if not known:
        return "unknown", f": too few {finding.nouns.sessions} have a known cost."
    return " · ".join(f"{name_of(row)} {usd(row['avg_cost_usd'])}" for row in known), ""


def _unpriced(finding: Finding) -> tuple[str, str]:
    if finding.refusal is not None:
        return "no answer", f": {finding.refusal}."
    nouns, ranked = finding.nouns, finding.ranked
    if without := [name_of(row) for row in ranked if not has_cost(row)]:
        few = f"too few {nouns.sessions} with {listed(without, 'or')}"
        return "unknown", f": {few} have a known cost."
    # Too many of these cost nothing for a geometric mean, but not all.
    partly = [
        _free_runs(row, nouns)
        for row in ranked
        if MOST_FREE * known_costs(row) < row["zero_cost_runs"] < known_costs(row)
    ]
    if partly:
        return "unknown", f": {listed(partly)} cost nothing, and a ratio needs costs above 0."
    return "unknown", ": costs cannot be compared for the same tasks."


def _dearer_bill(shown: Sequence[Row], priced: Sequence[Row], finding: Finding) -> tuple[str, str]:
    """Return that a usual session costs less with a model, and all of them more."""
    row = min(shown, key=lambda row: float(row["relative_cost"]))
    other = min(costlier(row, priced), key=lambda row: float(row["avg_cost_usd"]))
    usual, nouns = between(finding.sides, row, other).costs, finding.nouns
    return "inconclusive", (
        f". A usual {nouns.session} with {name_of(row)} {usual}, but its mean is not lower "
        f"({usd(row['avg_cost_usd'])}, {usd(other['avg_cost_usd'])} with {name_of(other)}). "
        f"A few of its {nouns.sessions} are very expensive, or its tasks cost more."
    )


def _none_shown(cheapest: Row, priced: Sequence[Row], finding: Finding) -> tuple[str, str]:
    margin, best, takes = float(cheapest["margin"]), priced[0], _needed_sessions(cheapest, finding)
    nouns = finding.nouns
    if cheapest is best:
        has_lowest = all(has_lower_bill(best, peer) for peer in costlier(best, priced))
        least = f"costs least{'' if has_lowest else f' for a usual {nouns.session}'}"
        so_far = "costs nothing" if len(priced) == 1 else f"{least} and scores highest so far"
        return "inconclusive", (
            f". {name_of(best)} {so_far}, but another {nouns.model} may be {margin:g} points "
            f"better.{takes}"
        )
    # As in the answer about quality: the first model that is shown to be better.
    others = [row for row in priced if row is not cheapest]
    beats = (row for row in others if between(finding.sides, cheapest, row).is_worse)
    against = between(finding.sides, cheapest, other := next(beats, best))
    saving = f". {name_of(cheapest)} {_saving(cheapest, other, finding)}"
    if against.is_worse:
        return "no cheaper alternative", f"{saving} but {against.scores()}."
    return "inconclusive", (
        f"{saving} but may be more than {margin:g} points worse than the best. It "
        f"{against.scores()}.{takes}"
    )


def _needed_sessions(row: Row, finding: Finding) -> str:
    """Return what would show that a model is not worse, if it is as good."""
    nouns = finding.nouns
    if row["not_worse_reason"] is not None:
        return f" More {nouns.sessions} cannot settle it: {row['not_worse_reason']}."
    if row["more_runs"]:
        more = f"{whole(row['more_runs'])} more {nouns.sessions}"
        return f" About {more} per {nouns.model} would settle it."
    if row["people_needed"]:
        return f" About {whole(row['people_needed'])} people would settle it."
    return ""


def _free_runs(row: Row, nouns: Nouns) -> str:
    number, known = whole(row["zero_cost_runs"]), whole(known_costs(row))
    return f"{number} of {known} {nouns.sessions} with {name_of(row)}"


def _saving(row: Row, other: Row, finding: Finding) -> str:
    """Say how much less a session with a model costs than with another."""
    if is_free(row):
        return "costs nothing"
    against = between(finding.sides, row, other)
    value, *_ = against.cost_ratio
    if value is None or (value < 1) is has_lower_bill(row, other):
        return against.costs
    return f"{against.costs} for a usual {finding.nouns.session}, but not on average"


def _confidence(finding: Finding, comparison: Comparison) -> tuple[str, str]:
    first, rest = _statistical_confidence(finding, comparison)
    if demo_caveat(comparison) is None:
        return first, rest
    would_be = f"With a real judge, confidence would be {first}{rest}"
    return "none", f", because a script scored. {would_be}"


def _statistical_confidence(finding: Finding, comparison: Comparison) -> tuple[str, str]:
    rests_on, nouns = evidence(finding, comparison), finding.nouns
    if len(finding.ranked) == 1:
        return "none", f": nothing is compared ({_people(rests_on.people)})."
    claims = [f"wrongly call {nouns.a_model} better"] if finding.is_decided else []
    if any(row["is_best_value"] for row in finding.ranked):
        claims.append("wrongly name a best value")
    if claims:
        each = "" if len(claims) == 1 else ", each"
        first, why = "high", f"at most 5 in 100 such reports {listed(claims)}{each}"
    else:
        held = _disqualified_winners(finding.ranked, finding)
        others = ["the differences may be chance"] if len(held) < len(finding.tested) else []
        first, why = "low", finding.refusal or listed([*held, *others])
    if not all(row["clustered_by"] == SESSIONS for row in finding.ranked):
        why += f". {_based_on(rests_on, nouns)}"
    said = caveat(nouns)
    if not finding.question.by.compares_models:
        said = f"{said.removesuffix('.')}, other models."
    return first, f": {why}. {said}"


def caveat(nouns: Nouns) -> str:
    """Return what no interval covers: it stands next to every answer that compares models."""
    return (
        "Not controlled for: harder tasks within a task class, easier weeks, judge bias toward "
        f"{nouns.a_model}, other people."
    )


def _based_on(rests_on: Evidence, nouns: Nouns) -> str:
    counted = "counted once" if rests_on.people == 1 else "each counted once"
    compared = ""
    if rests_on.compared != rests_on.sessions:
        of_ranked = f"{whole(rests_on.compared)} of {whole(rests_on.sessions)}"
        compared = f", and {of_ranked} ranked {nouns.sessions}"
    return f"Based on {_people(rests_on.people)}, {counted}{compared}"


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{whole(number)} people"


def _coverage(finding: Finding, comparison: Comparison, lacking: Sequence[str]) -> tuple[str, str]:
    """Return how many sessions of the label are ranked, and what the ranking leaves out."""
    of_label = _label_runs(places(comparison), finding)
    # Of another profile or judge are those that are ranked there, or too few of a model there.
    is_elsewhere = ~has_values(GROUP, dict(zip(GROUP, finding.group, strict=True))) & pl.col(
        "what"
    ).is_in(["ranked", "insufficient"])
    what = pl.when(is_elsewhere).then(pl.lit("elsewhere")).otherwise("what")
    left_out = dict(of_label.group_by(what=what).len().sort("what").iter_rows())
    ranked = left_out.pop("ranked", 0)
    nouns = finding.nouns
    few = finding.models_with_few_people
    why = f"{_unranked_reasons(left_out, comparison)}{_refused(few, nouns)}"
    first = f"{whole(ranked)} of {whole(of_label.height)} {nouns.sessions}"
    missing = f"{_missing(lacking, nouns)}{_compared_people(finding, comparison)}"
    return first, f" ranked.{why} {missing}"


def _label_runs(runs: pl.DataFrame, finding: Finding) -> pl.DataFrame:
    return runs.filter(pl.col(GROUP[0]).eq_missing(pl.lit(finding.group[0])))


def _most_runs(finding: Finding) -> str:
    runs = [row["runs"] for row in finding.models if row["state"] == "insufficient"]
    most = whole(max(runs, default=0))
    return f"one {finding.nouns.model}, {most}" if len(runs) == 1 else f"max {most}"


def _unranked_reasons(left_out: Mapping[str, int], comparison: Comparison) -> str:
    """Return the reasons of sessions that are not ranked, the most frequent first."""
    nouns, min_runs = comparison.question.nouns, comparison.question.min_runs
    reasons = {
        "mixed": f"several {nouns.models}",
        "unknown model": f"no {nouns.model} named",
        "elsewhere": "scored by another profile or judge",
        "insufficient": f"fewer than {min_runs} comparable {nouns.sessions} of the {nouns.model}",
    }
    why = [
        f"{whole(number)} ({reasons.get(what, what)})"
        for what, number in sorted(left_out.items(), key=lambda item: -item[1])
    ]
    return f" Not ranked: {', '.join(why)}." if why else ""


def _refused(few: list[Row], nouns: Nouns) -> str:
    """Return how many of the ranked sessions no verdict can be given for."""
    if not few:
        return ""
    number = f"{whole(runs_in(few))} ranked {nouns.sessions}"
    return f" No verdict for {number}, because too few people used their {nouns.models}."


def _missing(lacking: Sequence[str], nouns: Nouns) -> str:
    """Return the models that were used and are not compared."""
    if not lacking:
        return f"All {nouns.models} used are compared."
    more = len(lacking) - MOST_MISSING
    named = [*lacking[:MOST_MISSING], f"{more} more"] if more > 0 else [*lacking]
    return f"Not compared: {listed(named)}."


def _compared_people(finding: Finding, comparison: Comparison) -> str:
    """Return how many of the people who ran sessions of the label are compared."""
    every = _label_runs(comparison.runs, finding)["person"].drop_nulls().n_unique()
    compared = evidence(finding, comparison).people
    if not finding.tested or not every:
        return ""
    if compared == every:
        return f" All {_people(every)} are compared."
    return f" {whole(compared)} of {_people(every)} are compared."


def _without_runs(finding: Finding, comparison: Comparison) -> Iterator[str]:
    scored = {model_of(row): row for row in finding.models}
    of_label = _label_runs(comparison.runs, finding).group_by(MODEL).len()
    for row in of_label.sort("len", *MODEL, descending=True).iter_rows(named=True):
        known = scored.get(model_of(row), {"runs": 0, "state": "insufficient"})
        if known["state"] == "insufficient" and row["model"] not in (None, MIXED):
            of = f"{known['runs']} of {finding.question.min_runs} {finding.nouns.sessions}"
            yield f"{name_of(row)} ({of})"
