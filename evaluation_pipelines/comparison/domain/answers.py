"""The first screen of the report: questions of who has to choose a model, answered in a sentence.

The sentences are the same on the HTML page, in Markdown and in the terminal. They can be understood
without statistics; the method is explained with the figures.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from evaluation_pipelines.comparison.domain.arms import SESSIONS
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.coverage import coverage, places
from evaluation_pipelines.comparison.domain.differences import MIN_PEOPLE
from evaluation_pipelines.comparison.domain.evidence import Evidence, evidence
from evaluation_pipelines.comparison.domain.findings import (
    Finding,
    apart,
    between_points,
    findings,
    model_of,
    name_of,
    pairs_between,
)
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.comparison.domain.money_sentences import what_it_costs, which_for_money
from evaluation_pipelines.comparison.domain.pairwise import SMALL
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.comparison.domain.sides import Sides
from evaluation_pipelines.formatting import listed, whole
from evaluation_pipelines.schemas import DEMO_JUDGE, MIXED
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

CAVEAT = (
    "It cannot see whether one model got the harder tasks of a kind, whether the weeks in which it "
    "was used more were easier, whether the judge favors a model, or how others would fare with it."
)
"""Said next to every answer that compares models: no interval covers it."""

SCALE = (
    "Each kind of work (label) is compared by itself. Scores go from 0 to 100; a session passes "
    f"from {PASSES_FROM:g} on. In parentheses is how far chance may have moved a figure: for at "
    "least 19 of 20 figures the true one lies between these two."
)

DEMO_CAVEAT = (
    f"This is a demo: {DEMO_JUDGE}, a script without any understanding, scored in place of a "
    "judge. What is said of models is an example: choose none by it."
)

LOOK_ONCE = (
    "This report is for looking at once, when there is something to choose: whoever looks every "
    "day and stops at the first answer is wrong more often than it says."
)

MOST_MISSING = 5
"""More missing models than this are only counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A question and its answer: a sentence, which begins with what is most important."""

    question: str
    first: str
    rest: str = ""

    @property
    def sentence(self) -> str:
        """The whole answer."""
        return f"{self.first}{self.rest}"


@lru_cache(maxsize=8)
def ranked_answers(comparison: Comparison) -> Sequence[tuple[Finding, tuple[Answer, ...]]]:
    """Return the answers for each label that has a ranking; once, pages ask for them often."""
    return [
        (each, answers_of(each, comparison))
        for each in findings(comparison)
        if each.is_main and each.ranked
    ]


def answers_of(finding: Finding, comparison: Comparison) -> tuple[Answer, ...]:
    """Return the answers for one label that has a ranking."""
    lacking = [
        *_without_runs(finding, comparison),
        *map(_without_people, finding.with_few_people),
        *(f"{name_of(row)} (its persons are unknown)" for row in finding.of_unknown_people),
    ]
    min_runs = comparison.question.min_runs
    return (
        Answer("Which model for quality?", *_quality(finding, min_runs, has_missing=bool(lacking))),
        Answer("Which model for the money?", *which_for_money(finding)),
        Answer("What does it cost?", what_it_costs(finding.ranked)),
        Answer("How sure is that?", _certainty(finding, comparison)),
        Answer("How many sessions?", _sessions(finding, comparison)),
        Answer("Who is missing?", f"{_missing(lacking)}{_people_missing(finding, comparison)}"),
    )


def overview(comparison: Comparison) -> tuple[str, ...]:
    """Return how many sessions are ranked, what was left out and why, and how to use the report."""
    lines = coverage(comparison)
    total = sum(each.sessions for each in lines)
    if not total:
        return ()
    ranked = sum(each.sessions for each in lines if each.what == "ranked")
    left_out: dict[str, int] = {}
    for each in lines:
        if each.what != "ranked":
            left_out[each.what] = left_out.get(each.what, 0) + each.sessions
    said = f"{whole(ranked)} of {whole(total)} sessions are ranked"
    few = [row for each in findings(comparison) for row in each.with_few_people]
    ranking = f"{said}{_why(left_out, comparison.question.min_runs)}{_refused(few)}."
    return (ranking, SCALE, LOOK_ONCE)


def demo_caveat(comparison: Comparison) -> str | None:
    """Say that a script took the place of the judge; None if none did."""
    judges = comparison.models["judge_models"].drop_nulls().str.split(", ").explode()
    return DEMO_CAVEAT if DEMO_JUDGE in judges else None


def without_ranking(found: Iterable[Finding], min_runs: int) -> str | None:
    """Name the labels whose models cannot be compared for want of runs; None if there are none."""
    labels = [
        f"{each.label} ({_most_runs(each)})" for each in found if each.is_main and not each.ranked
    ]
    if not labels:
        return None
    takes = f"which takes {min_runs} sessions of each"
    return (
        f"Too few to compare models, {takes}: {listed(labels)}. That a model got worse can be told "
        "from fewer sessions, since it is compared with itself, before and after."
    )


def _most_runs(finding: Finding) -> str:
    runs = [row["runs"] for row in finding.models if row["state"] == "insufficient"]
    most = whole(max(runs, default=0))
    return f"only one model, {most}" if len(runs) == 1 else f"at most {most} of a model"


_WHAT = {
    "no score": "without a score",
    "disqualified": "disqualified by a rule",
    "mixed": "with several models",
    "unknown model": "that name no model",
    "elsewhere": "scored by another profile or judge and compared apart",
}


def _why(left_out: Mapping[str, int], min_runs: int) -> str:
    if not left_out:
        return "; none is left out"
    few = {"insufficient": f"of models with fewer than {min_runs} sessions that are scored alike"}
    said = [
        f"{whole(number)} {(_WHAT | few)[what]}"
        for what, number in sorted(left_out.items(), key=lambda each: -each[1])
    ]
    return f"; left out are {listed(said)}"


def _refused(few: list[Row]) -> str:
    """Say how many of the ranked sessions no verdict can be given for."""
    number = _runs(few)
    said = "of them cannot be compared, since too few people used their models"
    return f"; but {whole(number)} {said}" if few else ""


def _quality(finding: Finding, min_runs: int, *, has_missing: bool) -> tuple[str, str]:
    ranked, few = finding.ranked, finding.with_few_people
    if len(ranked) == 1:
        return (
            "Nothing to compare",
            f": only {name_of(ranked[0])} has at least {min_runs} sessions.",
        )
    if finding.refusal is not None:
        return "No answer", f": {finding.refusal}{_indication(finding)}."
    unknown = finding.of_unknown_people
    compared = [row for row in ranked if row not in few and row not in unknown]
    others = [row for row in compared if row["rank"] != 1]
    first = _shown_better_first([row for row in compared if row["rank"] == 1], others, finding)
    names = [name_of(row) for row in first]
    left_out = "".join(f"; too few people used {name_of(row)} {_people_of(row)}" for row in few)
    left_out += "".join(f"; who used {name_of(row)} is mostly unknown" for row in unknown)
    held = finding.disqualified_winners(first)
    left_out = "".join(f"; {each}" for each in held) + left_out
    refused = finding.refused_pairs(first)
    left_out = "".join(f"; {each}" for each in refused) + left_out
    if not others:
        if len(first) == 2 and held:
            return "Not decided", f": {left_out.removeprefix('; ')}."
        equal = f"{listed(names)} may be equally good{_how_far_apart(first, finding)}"
        equal = _open(first) if refused else equal
        return "Not decided", f": {equal}{left_out}."
    worse = listed([_behind(row, first, Sides.of(finding.pairs)) for row in others])
    is_open = len(first) > 1 and not (len(first) == 2 and refused)
    rest = f"; {_open(first)}{_how_far_apart(first, finding)}" if is_open else ""
    left_out += "".join(f"; {each}" for each in finding.not_shown_better(first, others))
    of_all = f", of the {len(compared)} that can be compared" if has_missing else ""
    return f"Take {listed(names, 'or')}{of_all}", f": {worse}{rest}{left_out}."


def _people_of(row: Row) -> str:
    return f"({row['clusters']} of {MIN_PEOPLE})"


def _shown_better_first(first: list[Row], others: list[Row], finding: Finding) -> list[Row]:
    """Put models that are shown to be better than another before those that are not."""
    sides = Sides.of(finding.pairs)
    return sorted(
        first, key=lambda row: not any(sides.between(other, row).is_worse for other in others)
    )


def _open(first: list[Row]) -> str:
    which = (
        f"{listed([name_of(row) for row in first])} is better"
        if len(first) == 2
        else "these is the best"
    )
    return f"which of {which} is not decided"


def _how_far_apart(first: list[Row], finding: Finding) -> str:
    """Say that some models differ by less than what matters, if that is shown of every two."""
    pairs = pairs_between(first, finding.pairs)
    return f"; {SMALL}" if pairs and all(pair["reason"] == SMALL for pair in pairs) else ""


def _behind(row: Row, first: list[Row], sides: Sides) -> str:
    for best in first:
        against = sides.between(row, best)
        value, low, high = against.difference
        if against.is_worse and value is not None and low is not None and high is not None:
            return (
                f"{name_of(row)} scores {apart(value)} than {name_of(best)} "
                f"({between_points(low, high)})"
            )
    return f"{name_of(row)} is shown to be worse than another model"


def _indication(finding: Finding) -> str:
    """Say what it looks like where no verdict can be given."""
    sides = {"A better": "_a", "B better": "_b"}
    hints = {
        f"{name_of(pair, sides[pair['indication']])} looks better than "
        f"{name_of(pair, '_b' if sides[pair['indication']] == '_a' else '_a')}"
        for pair in finding.pairs
        if pair["indication"] in sides
    }
    return f"; so far {listed(sorted(hints))}" if hints else ""


def _certainty(finding: Finding, comparison: Comparison) -> str:
    said = _statistical_certainty(finding, comparison)
    if demo_caveat(comparison) is None:
        return said
    return f"Not at all, since a script scored. Of a judge's scores it would be said: {said}"


def _statistical_certainty(finding: Finding, comparison: Comparison) -> str:
    rests_on = evidence(finding, comparison)
    if len(finding.ranked) == 1:
        return f"Nothing is claimed. These are sessions of {_people(rests_on.people)}."
    claims = ["call a model better that is not"] if finding.is_decided else []
    if any(row["is_best_value"] for row in finding.ranked):
        claims.append("call one as good for the money that is not")
    if claims:
        said = f"Quite sure: of 100 such reports {listed([f'at most 5 {each}' for each in claims])}"
    else:
        why = finding.refusal or _undecided(finding)
        said = f"Not sure enough to choose: {why}"
    if all(row["clustered_by"] == SESSIONS for row in finding.ranked):
        return f"{said}. {CAVEAT}"
    who = f"this report speaks for people like the {whole(rests_on.people)} who ran these sessions"
    return f"{said}; {who}, each of whom counts once{_compared(rests_on)}. {CAVEAT}"


def _undecided(finding: Finding) -> str:
    held = finding.disqualified_winners(finding.ranked)
    others = ["the differences may be chance"] if len(held) < len(finding.tested) else []
    return listed([*held, *others])


def _compared(rests_on: Evidence) -> str:
    if rests_on.compared == rests_on.sessions:
        return ""
    return f"; {whole(rests_on.compared)} of the {whole(rests_on.sessions)} ranked sessions count"


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{whole(number)} people"


def _of_label(runs: pl.DataFrame, finding: Finding) -> pl.DataFrame:
    return runs.filter(pl.col(GROUP[0]).eq_missing(pl.lit(finding.group[0])))


def _sessions(finding: Finding, comparison: Comparison) -> str:
    """Say how many sessions of the label are ranked, and why the others are not."""
    of_label = _of_label(places(comparison), finding)
    # Of another profile or judge are those that are ranked there, or too few of a model there.
    is_elsewhere = ~pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(value))
        for name, value in zip(GROUP, finding.group, strict=True)
    ) & pl.col("what").is_in(["ranked", "insufficient"])
    what = pl.when(is_elsewhere).then(pl.lit("elsewhere")).otherwise("what")
    left_out = dict(of_label.group_by(what=what).len().sort("what").iter_rows())
    ranked = left_out.pop("ranked", 0)
    said = f"{whole(ranked)} of {whole(of_label.height)} sessions of this label are ranked"
    few = _refused(finding.with_few_people)
    return f"{said}{_why(left_out, comparison.question.min_runs)}{few}."


def _runs(rows: Iterable[Row]) -> int:
    return sum(row["runs"] for row in rows)


def _missing(lacking: list[str]) -> str:
    """List models that were used and are not compared."""
    if not lacking:
        return "No model: all that were used are compared."
    more = len(lacking) - MOST_MISSING
    return f"{listed([*lacking[:MOST_MISSING], f'{more} more'] if more > 0 else lacking)}."


def _people_missing(finding: Finding, comparison: Comparison) -> str:
    """Say how many of the people who ran sessions of the label are compared."""
    every = _of_label(comparison.runs, finding)["person"].drop_nulls().n_unique()
    compared = evidence(finding, comparison).people
    if not finding.tested or not every:
        return ""
    who = f"{_people(every)} who ran sessions of this label are compared"
    return f" All {who}." if compared == every else f" {whole(compared)} of the {who}."


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
            number = f"{known['runs']} of the {comparison.question.min_runs} sessions that it takes"
            yield f"{name_of(row)} ({number})"


def _without_people(row: Row) -> str:
    return f"{name_of(row)} ({row['clusters']} of the {MIN_PEOPLE} people that it takes)"
