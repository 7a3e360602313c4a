"""Findings of a comparison in words for decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.arms import SESSIONS
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.effects import RELEVANT_POINTS
from evaluation_pipelines.comparison.domain.models import Row, has_few_people
from evaluation_pipelines.comparison.domain.obstacles import PERSONS_UNKNOWN
from evaluation_pipelines.comparison.domain.pairwise import (
    A_BETTER,
    B_BETTER,
    MAY_BE_CHANCE,
    MORE_DISQUALIFIED,
    NOT_DECIDED,
    TOO_FEW,
    is_tested,
)
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.formatting import points, signed

SOURCES = {
    "override": "human",
    "scorecard": "profile",
    "judge": "judge only",
    "composite": "composite",
    "status": "0, failed before any tool call",
}

MOST_REFUSED = 2
"""More pairs than this are only counted in a sentence."""

_UNKNOWN_SESSIONS = "people are unknown for more than a fifth of a model's sessions"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in one group of runs that are scored alike.

    Attributes:
        group: Values of label, profile, version and source.
        facts: What is decided, and why the rest is not, in sentences.
        is_decided: True if any model is shown to be better than another.
        models: Rows of ``model_comparison``, the best first.
        pairs: Rows of ``model_comparison_pairs`` of two ranked models.
        is_main: True for the group of its label with the most ranked runs.
    """

    group: tuple[object, ...]
    facts: tuple[str, ...]
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
    def with_few_people(self) -> list[Row]:
        """The ranked models that too few people used to compare them."""
        return [row for row in self.ranked if has_few_people(row)]

    @property
    def of_unknown_people(self) -> list[Row]:
        """The ranked models whose persons are unknown too often to compare them."""
        return [row for row in self.ranked if row["clustered_by"] == SESSIONS]

    @property
    def tested(self) -> list[Row]:
        """The pairs that a verdict can be given for."""
        return list(filter(is_tested, self.pairs))

    @property
    def refusal(self) -> str | None:
        """Why no two models can be compared whatever their scores; None if some can."""
        if not self.pairs or self.tested:
            return None
        reason = str(min(pair["reason"] for pair in self.pairs))
        return _UNKNOWN_SESSIONS if reason == PERSONS_UNKNOWN else reason

    def disqualified_winners(self, among: list[Row]) -> list[str]:
        """Say which of some models score more, but are disqualified too often to be better."""
        pairs = pairs_between(among, self.tested)
        return [_disqualified(pair) for pair in pairs if pair["reason"] == MORE_DISQUALIFIED]

    def refused_pairs(self, among: list[Row]) -> list[str]:
        """Say which of some models cannot be compared with each other; many are only counted."""
        pairs = [pair for pair in pairs_between(among, self.pairs) if not is_tested(pair)]
        if len(pairs) > MOST_REFUSED:
            return [f"{len(pairs)} pairs cannot be compared"]
        return [
            f"{name_of(pair, '_a')} and {name_of(pair, '_b')} cannot be compared: {pair['reason']}"
            for pair in pairs
        ]

    def not_shown_better(self, first: list[Row], others: list[Row]) -> list[str]:
        """Say which of the first models are not shown to be better than which of the others."""
        pairs = _open_across(first, others, self.pairs)
        if len(pairs) > MOST_REFUSED:
            return [f"{len(pairs)} pairs of these and lower models have no verdict"]
        names = {model_of(row) for row in first}
        ordered = [
            ("_a", "_b") if model_of(each, "_a") in names else ("_b", "_a") for each in pairs
        ]
        return [
            _not_shown(pair, best, other)
            for pair, (best, other) in zip(pairs, ordered, strict=True)
        ]

    @property
    def scored_by(self) -> str:
        """Source of the scores."""
        _, profile, version, source = self.group
        by = scored_by(profile, version, source)
        judges = {each for row in self.models for each in (row["judge_models"] or "").split(", ")}
        if not (names := ", ".join(sorted(judges - {""}))):
            return by
        flagged = sum(row["flagged_runs"] for row in self.models)
        doubts = f" ({flagged} flagged)" if flagged else ""
        return f"{by}, judge {names}{doubts}"


def scored_by(profile: object, version: object, source: object) -> str:
    """Return the source of a score, with its profile if it has one."""
    text = SOURCES.get(str(source), str(source))
    if profile is None:
        return text
    named = f"profile {profile} v{version}"
    return named if source == "scorecard" else f"{text}, {named}"


def findings(comparison: Comparison) -> list[Finding]:
    """Return what was found, groups with a ranking first, then by number of runs."""
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
    """Return a model with its provider and variant if they are known."""
    model, *details = model_of(row, side)
    if model is None:
        return "unknown model"
    known = [each for each in details if each not in (None, model)]
    return f"{model} ({', '.join(known)})" if known else str(model)


def model_of(row: Mapping[str, Any], side: str = "") -> tuple[Any, ...]:
    """Return the columns that name a model."""
    return tuple(row[f"{name}{side}"] for name in MODEL)


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
    ordered = sorted(rows, key=lambda row: (row["rank"] or 999, -(row["avg_score"] or 0)))
    ranked = [row for row in ordered if row["state"] == "ranked"]
    pairs = pairs_between(ranked, comparison.pairs.filter(same).rows(named=True))
    decided = [pair for pair in pairs if pair["verdict"] in (A_BETTER, B_BETTER)]
    return Finding(
        group,
        (*map(_shown, decided), *_open(ranked, pairs)),
        bool(decided),
        tuple(ordered),
        tuple(pairs),
        is_main,
    )


def pairs_between(ranked: list[Row], pairs: Sequence[Row]) -> list[Row]:
    """Return the pairs of ranked models."""
    names = set(map(model_of, ranked))
    return [pair for pair in pairs if {model_of(pair, side) for side in ("_a", "_b")} <= names]


def apart(value: float) -> str:
    """Format a difference: ``6.6 points less``."""
    return f"{points(abs(value))} points {'less' if value < 0 else 'more'}"


def between_points(low: float, high: float) -> str:
    """Format the interval of a difference without its sign, unless that is not certain."""
    if low < 0 < high:
        return f"{signed(low)} to {signed(high)}"
    first, second = sorted(abs(each) for each in (low, high))
    return f"{points(first)} to {points(second)}"


def _shown(pair: Row) -> str:
    """Describe one decided pair, the better model first."""
    first, second = ("_a", "_b") if pair["verdict"] == A_BETTER else ("_b", "_a")
    between = between_points(pair["adjusted_low_holm"], pair["adjusted_high_holm"])
    return (
        f"{name_of(pair, first)} scores {apart(abs(pair['adjusted_difference']))} than "
        f"{name_of(pair, second)} with the same task mix ({between}), based on "
        f"{_people(pair)} people."
    )


def _not_shown(pair: Row, best: str, other: str) -> str:
    """Say that a model is not shown to be better than a model below it."""
    names = name_of(pair, best), name_of(pair, other)
    if not str(pair["reason"]).startswith(MAY_BE_CHANCE):
        return f"No verdict between {names[0]} and {names[1]}"
    ahead = pair["adjusted_difference"] * (1 if best == "_a" else -1)
    return f"{names[0]} scores {apart(ahead)} than {names[1]}, which may be chance"


def _disqualified(pair: Row) -> str:
    first, second = ("_a", "_b") if pair["adjusted_difference"] > 0 else ("_b", "_a")
    more = points(abs(pair["adjusted_difference"]))
    return (
        f"{name_of(pair, first)} scores {more} points more than {name_of(pair, second)}, but is "
        "disqualified more often"
    )


def _people(pair: Row) -> int:
    """Return the number of people whose runs were compared."""
    if pair["is_paired"]:
        return int(pair["people_both"])
    return int(pair["people_a"] + pair["people_b"] - pair["people_both"])


def _open(ranked: list[Row], pairs: Sequence[Row]) -> list[str]:
    """Describe pairs without a verdict: between the first models, then of these and the others.

    A model that may be chosen need not be shown to be better than each that may not.
    """
    first = [row for row in ranked if row["rank"] in (1, None)]
    among = list(filter(_is_open, pairs_between(first, pairs)))
    across = _open_across(first, [row for row in ranked if row not in first], pairs)
    if len(across) > MOST_REFUSED:
        counted = f"{len(across)} pairs of these and lower models have no verdict."
        return [*map(_not_decided, among), counted]
    return [*map(_not_decided, among), *map(_not_decided, across)]


def _open_across(first: list[Row], others: list[Row], pairs: Sequence[Row]) -> list[Row]:
    """Return the pairs without a verdict of one of the first models and one of the others."""
    inside = [*pairs_between(first, pairs), *pairs_between(others, pairs)]
    every = pairs_between([*first, *others], pairs)
    return [pair for pair in every if _is_open(pair) and pair not in inside]


def _is_open(pair: Row) -> bool:
    return pair["verdict"] in (NOT_DECIDED, TOO_FEW)


def _not_decided(pair: Row) -> str:
    """Explain why a pair is not decided, and whether more runs would help."""
    names = name_of(pair, "_a"), name_of(pair, "_b")
    if pair["adjusted_low_holm"] is None:
        return f"{names[0]} and {names[1]}: {pair['reason']}."
    between = between_points(pair["adjusted_low_holm"], pair["adjusted_high_holm"])
    found = f"{names[0]} scores {apart(pair['adjusted_difference'])} than {names[1]} ({between})"
    better = {A_BETTER: "_a", B_BETTER: "_b"}.get(pair["indication"])
    if better is not None:
        return (
            f"{found}. Indication: {name_of(pair, better)} looks better, no verdict "
            f"({pair['reason']})."
        )
    if not pair["reason"].startswith(MAY_BE_CHANCE):
        return f"{found}. No verdict: {pair['reason']}."
    if pair["reason"] == MAY_BE_CHANCE:
        return f"{found}, which may be chance."
    return (
        f"{found}, which may be chance. Detecting a {RELEVANT_POINTS:g}-point difference needs "
        f"about {pair['runs_needed']} sessions per model (now {pair['runs_a']} and "
        f"{pair['runs_b']})."
    )
