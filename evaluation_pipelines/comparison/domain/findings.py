"""What a comparison found: by label, as alerts, and as a list for other programs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison, stratified
from evaluation_pipelines.comparison.domain.differences import choice
from evaluation_pipelines.comparison.domain.models import Row, counted, has_few_people, parts
from evaluation_pipelines.comparison.domain.pairwise import (
    A_BETTER,
    B_BETTER,
    MAY_BE_CHANCE,
    MORE_DISQUALIFIED,
    NOT_DECIDED,
    PERSONS_UNKNOWN,
    TOO_FEW,
    is_tested,
)
from evaluation_pipelines.comparison.domain.people import Chosen
from evaluation_pipelines.comparison.domain.regressions import ALERT, INSUFFICIENT, alert_sentences
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL, SESSIONS, arms_of
from evaluation_pipelines.comparison.domain.verdicts import RELEVANT_POINTS
from evaluation_pipelines.formatting import points, signed, whole

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


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is compared of the sessions of ranked models; without a verdict, what they are.

    Attributes:
        people: Known people of the sessions that are compared.
        compared: Number of these sessions.
        sessions: Number of all sessions of ranked models.
    """

    people: int
    compared: int
    sessions: int


def evidence(finding: Finding, comparison: Comparison) -> Evidence:
    """Return what the verdicts of a finding rest on: the runs that any of its pairs compares."""
    runs = _runs_of_ranked(finding, comparison)
    sessions = sum(each.height for each in runs.values())
    chosen: dict[tuple[object, ...], Chosen] = {}
    for pair in finding.tested:
        _add(chosen, pair, runs, comparison.question.min_runs)
    used = [runs[key].filter(pl.Series(rows)) for key, rows in chosen.items()]
    counts = used or list(runs.values())
    people = set(chain.from_iterable(each["person"].drop_nulls() for each in counts))
    return Evidence(len(people), sum(each.height for each in counts), sessions)


def _add(
    chosen: dict[tuple[object, ...], Chosen],
    pair: Row,
    runs: dict[tuple[object, ...], pl.DataFrame],
    min_runs: int,
) -> None:
    """Add the runs that a pair compares."""
    keys = model_of(pair, "_a"), model_of(pair, "_b")
    first, second = arms_of([runs[key] for key in keys]).sides
    found = choice(first, second, min_runs)
    for key, rows in zip(keys, (found.first, found.second), strict=True):
        chosen[key] = np.logical_or(chosen.get(key, rows), rows)


def _runs_of_ranked(
    finding: Finding, comparison: Comparison
) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return the runs that count of each ranked model of a finding."""
    names = {model_of(row) for row in finding.ranked}
    scored = comparison.runs.filter(
        pl.col("score").is_not_null(),
        *(
            pl.col(name).eq_missing(pl.lit(value))
            for name, value in zip(GROUP, finding.group, strict=True)
        ),
    )
    every = parts(stratified(scored, comparison.question.within))
    return {key[len(GROUP) :]: counted(part) for key, part in every if key[len(GROUP) :] in names}


@dataclass(frozen=True, slots=True)
class GotWorse:
    """An alert of the watch: which model, at which label, since when and how much, where to look.

    Attributes:
        model: Name of the model.
        label: Classification label.
        change: Sentences on how much it got worse, and since when.
        sessions: Keys of the worst sessions; none if all of them wait for a blind review.
    """

    model: str
    label: str
    change: str
    sessions: tuple[str, ...]

    @property
    def said(self) -> str:
        """The alert without the sessions."""
        return f"{self.model} (label {self.label}): {self.change}"

    @property
    def sentence(self) -> str:
        """The whole alert."""
        return f"{self.said} Sessions: {', '.join(self.sessions)}" if self.sessions else self.said


def got_worse(comparison: Comparison) -> list[GotWorse]:
    """Return the alerts of the watch."""
    alerts = comparison.regressions.filter(pl.col("state") == ALERT)
    return [
        GotWorse(
            name_of(row),
            str(row["classification_label"]),
            alert_sentences(row),
            tuple(row["worst_sessions"]),
        )
        for row in alerts.iter_rows(named=True)
    ]


def watch_coverage(comparison: Comparison) -> str:
    """Return how many models are monitored for getting worse, each for one label."""
    states = comparison.regressions["state"]
    watched, every = int((states != INSUFFICIENT).sum()), len(states)
    few = "" if watched == every else " The rest have too few sessions."
    return f"Monitoring {whole(watched)} of {whole(every)} model-label pairs.{few}"


_VERDICTS = {
    A_BETTER: "a_better",
    B_BETTER: "b_better",
    NOT_DECIDED: "not_decided",
    TOO_FEW: "too_few",
}


def verdict_list(comparison: Comparison) -> dict[str, list[dict[str, Any]]]:
    """Return ``models``, ``pairs`` and ``money`` of a comparison.

    Each model has ``label, model, runs, mean, low, high``; each pair ``label, model_a, model_b,
    difference, low, high, corrected_low, corrected_high, verdict, indication``. Scores and
    differences are in points. ``low`` and ``high`` are a 95% interval of this model or pair alone;
    the corrected ends are those of all pairs of the report together, as the verdict is. ``verdict``
    is ``a_better``, ``b_better``, ``not_decided`` or ``too_few``; ``indication`` is what it looks
    like where the data cannot carry a verdict, else null. A model of several providers has its
    provider in brackets, one that ran in another way than the usual its variant.

    ``money`` has points per dollar of each model: ``label, model, per_dollar, low, high``, whether
    it is shown to be less than the margin below every other one (``is_not_worse``; null where that
    is not tested), and whether it is the cheapest of these (``is_best_value``).
    """
    several = _of_several_providers(comparison.models)
    return {
        "models": [
            {
                "label": row["classification_label"],
                "model": _name(row, "", several),
                "runs": row["runs"],
                "mean": row["avg_score"],
                "low": row["avg_score_low"],
                "high": row["avg_score_high"],
            }
            for row in comparison.models.iter_rows(named=True)
        ],
        "pairs": [
            {
                "label": row["classification_label"],
                "model_a": _name(row, "_a", several),
                "model_b": _name(row, "_b", several),
                "difference": row["adjusted_difference"],
                "low": row["adjusted_low"],
                "high": row["adjusted_high"],
                "corrected_low": row["adjusted_low_holm"],
                "corrected_high": row["adjusted_high_holm"],
                "verdict": _VERDICTS[row["verdict"]],
                "indication": None if row["indication"] is None else _VERDICTS[row["indication"]],
            }
            for row in comparison.pairs.iter_rows(named=True)
        ],
        "money": [
            {
                "label": row["classification_label"],
                "model": _name(row, "", several),
                "per_dollar": row["score_per_dollar"],
                "low": row["score_per_dollar_low"],
                "high": row["score_per_dollar_high"],
                "is_not_worse": row["is_not_worse"],
                "is_best_value": row["is_best_value"],
            }
            for row in comparison.models.iter_rows(named=True)
        ],
    }


def _of_several_providers(models: pl.DataFrame) -> set[str]:
    seen = Counter(model for model, _ in set(models.select("model", "provider").iter_rows()))
    return {model for model, number in seen.items() if number > 1}


def _name(row: Row, side: str, several: set[str]) -> str:
    model, provider, variant = (row[f"{name}{side}"] for name in MODEL)
    details = [provider or "unknown provider"] if model in several else []
    details += [] if variant is None else [variant]
    return f"{model} ({', '.join(details)})" if details else str(model)
