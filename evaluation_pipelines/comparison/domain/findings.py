"""Findings of a comparison in words for decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.effects import RELEVANT_POINTS
from evaluation_pipelines.comparison.domain.models import Row, has_cost
from evaluation_pipelines.comparison.domain.pairwise import (
    A_BETTER,
    NOT_DECIDED,
    are_too_few,
    is_small,
)
from evaluation_pipelines.comparison.domain.runs import GROUP
from evaluation_pipelines.formatting import interval, listed, percent, points, signed, usd

SOURCES = {
    "override": "scores by people",
    "scorecard": "scorecards",
    "judge": "totals of a judge",
    "composite": "composites of session performance",
    "status": "0 for sessions that failed",
}


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
    decided = [pair for pair in pairs if pair["verdict"] != NOT_DECIDED]
    return Finding(
        group,
        _headline(str(group[0]), ranked, comparison.question.min_runs),
        (*map(_shown, decided), *_costs(ranked), *_open(ranked, pairs)),
        bool(decided),
        tuple(ordered),
        tuple(pairs),
        is_main,
    )


def _headline(label: str, ranked: list[Row], min_runs: int) -> str:
    first = [name_of(row) for row in ranked if row["rank"] == 1]
    others = [name_of(row) for row in ranked if row["rank"] != 1]
    if not ranked:
        return f"{label}: too few runs, no model has {min_runs} of them."
    if len(ranked) == 1:
        return f"{label}: only {first[0]} has {min_runs} runs, so there is nothing to compare."
    if not others:
        return f"{label}: not decided. {listed(first)} may be equally good."
    worse = f"{listed(others)} {'is' if len(others) == 1 else 'are'} shown to be worse"
    if len(first) == 1:
        return f"{label}: take {first[0]} for quality; {worse}."
    return f"{label}: take {listed(first, 'or')} for quality; {worse}, the rest is not decided."


def _shown(pair: Row) -> str:
    """Describe one decided pair, the better model first."""
    first, second = ("_a", "_b") if pair["verdict"] == A_BETTER else ("_b", "_a")
    ends = sorted(abs(pair[name]) for name in ("adjusted_low", "adjusted_high"))
    return (
        f"{name_of(pair, first)} scores {points(abs(pair['adjusted_difference']))} points more "
        f"than {name_of(pair, second)} on the same mix of tasks "
        f"(95 % interval {interval(*map(points, ends))})."
    )


def _costs(ranked: list[Row]) -> list[str]:
    """Describe the cost of runs, the cheapest first."""
    known = sorted(filter(has_cost, ranked), key=lambda row: row["avg_cost_usd"])
    if not known:
        return []
    each = [f"{usd(row['avg_cost_usd'])} with {name_of(row)}" for row in known]
    said = [f"A run costs {listed(each)}."]
    cheapest, best = known[0], [row for row in known if row["rank"] == 1]
    if best and cheapest["rank"] != 1:
        saved = 1 - cheapest["avg_cost_usd"] / best[0]["avg_cost_usd"]
        lost = cheapest["avg_score"] - best[0]["avg_score"]
        said.append(
            f"{name_of(cheapest)} saves {percent(saved)} against {name_of(best[0])}, for "
            f"{signed(lost)} points of mean score, on whatever tasks each had."
        )
    return said


def _open(ranked: list[Row], pairs: Sequence[Row]) -> list[str]:
    """Describe what would decide between the first models."""
    first = {(row["model"], row["provider"]) for row in ranked if row["rank"] == 1}
    said = []
    for pair in pairs:
        sides = {(pair["model_a"], pair["provider_a"]), (pair["model_b"], pair["provider_b"])}
        if pair["verdict"] == NOT_DECIDED and sides <= first:
            said.append(_not_decided(pair))
    return said


def _not_decided(pair: Row) -> str:
    """Explain why a pair is not decided, and whether more runs would help."""
    names = f"{name_of(pair, '_a')} and {name_of(pair, '_b')}"
    if pair["adjusted_low"] is None:
        return f"{names}: {pair['reason']}."
    ends = interval(signed(pair["adjusted_low"]), signed(pair["adjusted_high"]))
    found = f"{names}: {signed(pair['adjusted_difference'])} points ({ends})"
    if is_small(pair) or not are_too_few(pair, pair["runs_needed"]):
        return f"{found}; {pair['reason']}."
    return (
        f"{found} may be chance. About {pair['runs_needed']} runs of each would settle a "
        f"difference of {RELEVANT_POINTS:g} points; there are {pair['runs_a']} and "
        f"{pair['runs_b']}."
    )
