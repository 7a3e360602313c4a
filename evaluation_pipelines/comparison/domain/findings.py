"""Findings of a comparison in words for decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.arms import PEOPLE
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.effects import RELEVANT_POINTS
from evaluation_pipelines.comparison.domain.models import Row, has_cost
from evaluation_pipelines.comparison.domain.pairwise import (
    A_BETTER,
    B_BETTER,
    NOT_DECIDED,
    TOO_FEW,
    are_too_few,
    is_small,
)
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.formatting import interval, listed, percent, points, signed, usd

SOURCES = {
    "override": "scores by people",
    "scorecard": "scorecards",
    "judge": "totals of a judge",
    "composite": "composites of session performance",
    "status": "0 for sessions that failed",
}


CAVEAT = (
    "What these figures cannot see: whether one model got the harder tasks of a kind, whether the "
    "judge favors a model, and a person unlike all of these."
)
"""Said next to every answer that compares models: no interval covers it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer for one group of runs that are scored alike.

    Attributes:
        group: Values of label, profile, version and source.
        headline: The answer in one sentence.
        sentences: The facts behind it.
        is_decided: True if any model is shown to be better than another.
        models: Rows of ``model_comparison``, the best first.
        pairs: Rows of ``model_comparison_pairs``.
        is_main: True for the group of its label with the most ranked runs.
    """

    group: tuple[object, ...]
    headline: str
    sentences: tuple[str, ...]
    is_decided: bool
    models: tuple[Row, ...]
    pairs: tuple[Row, ...]
    is_main: bool

    @property
    def label(self) -> str:
        """The classification label."""
        return str(self.group[0])

    @property
    def ranked(self) -> list[Row]:
        """The ranked models."""
        return [row for row in self.models if row["state"] == "ranked"]

    @property
    def caveat(self) -> str | None:
        """What an answer that compares models rests on; None if it compares none."""
        return CAVEAT if len(self.ranked) > 1 else None

    @property
    def scored_by(self) -> str:
        """Source of the scores."""
        _, profile, version, source = self.group
        return scored_by(profile, version, source)


def scored_by(profile: object, version: object, source: object) -> str:
    """Return the source of a score, with its profile if it has one."""
    text = SOURCES.get(str(source), str(source))
    return text if profile is None else f"{text}, profile {profile} version {version}"


def findings(comparison: Comparison) -> list[Finding]:
    """Return the answers, groups with a ranking first, then by number of runs."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in comparison.models.iter_rows(named=True):
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    order = sorted(groups, key=lambda group: (-_ranked_runs(groups[group]), -_runs(groups[group])))
    main: dict[object, tuple[object, ...]] = {}
    for group in order:
        main.setdefault(group[0], group)
    return [
        _finding(group, groups[group], comparison, is_main=main[group[0]] == group)
        for group in order
    ]


def name_of(row: Mapping[str, Any], side: str = "") -> str:
    """Return a model with its provider if that is known."""
    model, provider = row[f"model{side}"], row[f"provider{side}"]
    if model is None:
        return "unknown model"
    return str(model) if provider in (None, model) else f"{model} ({provider})"


def _runs(rows: Sequence[Row]) -> int:
    return sum(row["runs"] for row in rows)


def _ranked_runs(rows: Sequence[Row]) -> int:
    return _runs([row for row in rows if row["state"] == "ranked"])


def _finding(
    group: tuple[object, ...], rows: list[Row], comparison: Comparison, *, is_main: bool
) -> Finding:
    same = pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(value)) for name, value in zip(GROUP, group, strict=True)
    )
    pairs = comparison.pairs.filter(same).rows(named=True)
    ordered = sorted(rows, key=lambda row: (row["rank"] or 999, -(row["avg_score"] or 0)))
    ranked = [row for row in ordered if row["state"] == "ranked"]
    decided = [pair for pair in pairs if pair["verdict"] in (A_BETTER, B_BETTER)]
    return Finding(
        group,
        _headline(str(group[0]), ranked, pairs, comparison.question.min_runs),
        (*map(_shown, decided), *_costs(ranked, pairs), *_open(ranked, pairs)),
        bool(decided),
        tuple(ordered),
        tuple(pairs),
        is_main,
    )


def _headline(label: str, ranked: list[Row], pairs: Sequence[Row], min_runs: int) -> str:
    first = [name_of(row) for row in ranked if row["rank"] == 1]
    others = [name_of(row) for row in ranked if row["rank"] != 1]
    if not ranked:
        return f"{label}: too few runs, no model has {min_runs} of them."
    if len(ranked) == 1:
        return f"{label}: only {first[0]} has {min_runs} runs, so there is nothing to compare."
    few = _too_few(ranked, pairs)
    if not others:
        return f"{label}: {few or f'not decided. {listed(first)} may be equally good'}."
    worse = f"{listed(others)} {'is' if len(others) == 1 else 'are'} shown to be worse"
    said = f"; {few}" if few else ""
    if len(first) == 1:
        return f"{label}: take {first[0]} for quality; {worse}{said}."
    rest = said or ", the rest is not decided"
    return f"{label}: take {listed(first, 'or')} for quality; {worse}{rest}."


def _too_few(ranked: list[Row], pairs: Sequence[Row]) -> str | None:
    """Describe which models are used by too few people to decide; None if there are none."""
    refused = [pair for pair in _between(ranked, pairs) if pair["verdict"] == TOO_FEW]
    if refused and len(refused) == len(_between(ranked, pairs)):
        return str(min(pair["reason"] for pair in refused))
    if refused:
        names = [f"{name_of(each, '_a')} and {name_of(each, '_b')}" for each in refused]
        return f"too few people to decide between {listed(names, 'or')}"
    if any(row["clustered_by"] != PEOPLE for row in ranked):
        return "no verdict, as the persons of more than a fifth of the runs are unknown"
    return None


def _between(ranked: list[Row], pairs: Sequence[Row]) -> list[Row]:
    """Return the pairs of ranked models."""
    names = {(row["model"], row["provider"]) for row in ranked}
    return [
        pair
        for pair in pairs
        if {(pair[f"model_{side}"], pair[f"provider_{side}"]) for side in "ab"} <= names
    ]


def _shown(pair: Row) -> str:
    """Describe one decided pair, the better model first."""
    first, second = ("_a", "_b") if pair["verdict"] == A_BETTER else ("_b", "_a")
    ends = sorted(abs(pair[name]) for name in ("adjusted_low", "adjusted_high"))
    return (
        f"{name_of(pair, first)} scores {points(abs(pair['adjusted_difference']))} points more "
        f"than {name_of(pair, second)} on the same mix of tasks "
        f"(95 % interval {interval(*map(points, ends))}), for these {_people(pair)} people."
    )


def _people(pair: Row) -> int:
    """Return the number of people whose runs were compared."""
    if pair["is_paired"]:
        return int(pair["people_both"])
    return int(pair["people_a"] + pair["people_b"] - pair["people_both"])


def _costs(ranked: list[Row], pairs: Sequence[Row]) -> list[str]:
    """Describe the cost of runs, the cheapest first."""
    known = sorted(filter(has_cost, ranked), key=lambda row: row["avg_cost_usd"])
    if not known:
        return []
    each = [f"{usd(row['avg_cost_usd'])} with {name_of(row)}" for row in known]
    said = [f"A run costs {listed(each)}."]
    cheapest, best = known[0], [row for row in known if row["rank"] == 1]
    if best and cheapest["rank"] != 1:
        said += _saved(cheapest, best[0], pairs)
    return said


def _saved(cheapest: Row, best: Row, pairs: Sequence[Row]) -> list[str]:
    """Describe what the cheapest model saves, for the same tasks as the verdict."""
    (pair,) = _between([cheapest, best], pairs)
    if pair["cost_ratio"] is None or pair["adjusted_difference"] is None:
        return []
    is_first = all(pair[f"{name}_a"] == cheapest[name] for name in MODEL)
    names = ("cost_ratio", "cost_ratio_low", "cost_ratio_high")
    shares = [pair[name] for name in names if pair[name] is not None]
    saved, *ends = (1 - (each if is_first else 1 / each) for each in shares)
    shown = f" (95 % interval {interval(*map(percent, sorted(ends)))})" if ends else ""
    lost = pair["adjusted_difference"] * (1 if is_first else -1)
    return [
        (
            f"{name_of(cheapest)} saves {percent(saved)} against {name_of(best)} on the same "
            f"mix of tasks{shown}, for {signed(lost)} points."
        )
    ]


def _open(ranked: list[Row], pairs: Sequence[Row]) -> list[str]:
    """Describe what would decide between the first models."""
    first = [row for row in ranked if row["rank"] == 1]
    return [
        _not_decided(pair)
        for pair in _between(first, pairs)
        if pair["verdict"] in (NOT_DECIDED, TOO_FEW)
    ]


def _not_decided(pair: Row) -> str:
    """Explain why a pair is not decided, and whether more runs would help."""
    names = f"{name_of(pair, '_a')} and {name_of(pair, '_b')}"
    if pair["adjusted_low"] is None:
        return f"{names}: {pair['reason']}."
    ends = interval(signed(pair["adjusted_low"]), signed(pair["adjusted_high"]))
    found = f"{names}: {signed(pair['adjusted_difference'])} points ({ends})"
    better = {A_BETTER: "_a", B_BETTER: "_b"}.get(pair["indication"])
    if better is not None:
        return (
            f"{found}: an indication that {name_of(pair, better)} is better, no verdict: "
            f"{pair['reason']}."
        )
    if (
        pair["verdict"] == TOO_FEW
        or pair["indication"] is not None
        or is_small(pair)
        or not are_too_few(pair, pair["runs_needed"])
    ):
        return f"{found}; {pair['reason']}."
    return (
        f"{found} may be chance. About {pair['runs_needed']} runs of each would settle a "
        f"difference of {RELEVANT_POINTS:g} points; there are {pair['runs_a']} and "
        f"{pair['runs_b']}."
    )
