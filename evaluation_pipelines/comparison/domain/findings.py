"""What a comparison found: by label, as alerts, and as a list for other programs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison, Question, stratified
from evaluation_pipelines.comparison.domain.differences import choice
from evaluation_pipelines.comparison.domain.models import (
    Row,
    counted,
    group_of,
    has_few_people,
    has_values,
    model_of,
    name_of,
    parts,
)
from evaluation_pipelines.comparison.domain.money import Sides, sides_of
from evaluation_pipelines.comparison.domain.pairwise import (
    A_BETTER,
    B_BETTER,
    TOO_FEW,
    is_tested,
    persons_unknown,
)
from evaluation_pipelines.comparison.domain.people import Chosen
from evaluation_pipelines.comparison.domain.regressions import (
    ALERT,
    INSUFFICIENT,
    alert_sentences,
)
from evaluation_pipelines.comparison.domain.runs import GROUP, SESSIONS, Nouns, arms_of
from evaluation_pipelines.formatting import whole

SOURCES = {
    "override": "human",
    "scorecard": "profile",
    "judge": "judge only",
    "composite": "composite",
    "status": "0, failed before any tool call",
}


@dataclass(frozen=True, eq=False)
class Finding:
    """What was found in one group of comparable runs.

    Attributes:
        group: Values of label, profile, version and source.
        models: Rows of ``model_comparison``, the best first.
        pairs: Rows of ``model_comparison_pairs`` of two ranked models.
        is_main: True for the group of its label with the most ranked runs.
        question: What was compared.
    """

    group: tuple[object, ...]
    models: tuple[Row, ...]
    pairs: tuple[Row, ...]
    is_main: bool
    question: Question

    @property
    def nouns(self) -> Nouns:
        """Words for models and sessions."""
        return self.question.nouns

    @property
    def label(self) -> str:
        """The classification label."""
        return str(self.group[0])

    @property
    def is_decided(self) -> bool:
        """True if any model is shown to be better than another."""
        return any(pair["verdict"] in (A_BETTER, B_BETTER) for pair in self.pairs)

    @cached_property
    def sides(self) -> Sides:
        """The pairs by their models."""
        return sides_of(self.pairs)

    @property
    def ranked(self) -> list[Row]:
        """The ranked models."""
        return [row for row in self.models if row["state"] == "ranked"]

    @property
    def models_with_few_people(self) -> list[Row]:
        """The ranked models that too few people used to compare them."""
        return [row for row in self.ranked if has_few_people(row)]

    @property
    def models_with_unknown_people(self) -> list[Row]:
        """The ranked models whose people are unknown too often to compare them."""
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
        if reason != persons_unknown(self.nouns):
            return reason
        nouns = self.nouns
        return f"people are unknown for more than a fifth of {nouns.a_model}'s {nouns.sessions}"

    @property
    def scored_by(self) -> str:
        """Source of the scores."""
        _, profile, version, source = self.group
        by = scored_by(profile, version, source)
        judges = {word for row in self.models for word in (row["judge_models"] or "").split(", ")}
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
    pairs: dict[tuple[object, ...], list[Row]] = {}
    for found_in, frame in ((groups, comparison.models), (pairs, comparison.pairs)):
        for row in frame.iter_rows(named=True):
            found_in.setdefault(group_of(row), []).append(row)
    found, labels = list[Finding](), set[object]()
    sizes = {
        group: (-runs_in(row for row in rows if row["state"] == "ranked"), -runs_in(rows))
        for group, rows in groups.items()
    }
    for group in sorted(groups, key=lambda group: sizes[group]):
        models = sorted(
            groups[group], key=lambda row: (row["rank"] or 999, -(row["avg_score"] or 0))
        )
        ranked = [row for row in models if row["state"] == "ranked"]
        of_ranked = pairs_between(ranked, pairs.get(group, ()))
        is_main = group[0] not in labels
        labels.add(group[0])
        found.append(Finding(group, tuple(models), tuple(of_ranked), is_main, comparison.question))
    return found


def runs_in(rows: Iterable[Row]) -> int:
    """Return the number of runs of some models."""
    return sum(row["runs"] for row in rows)


def pairs_between(models: Sequence[Row], pairs: Sequence[Row]) -> list[Row]:
    """Return the pairs of some models."""
    names = set(map(model_of, models))
    return [pair for pair in pairs if {model_of(pair, side) for side in ("_a", "_b")} <= names]


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
    runs = _ranked_runs(finding, comparison)
    chosen: dict[tuple[object, ...], Chosen] = {}
    for pair in finding.tested:
        keys = model_of(pair, "_a"), model_of(pair, "_b")
        first, second = arms_of([runs[key] for key in keys]).sides
        in_first, in_second, _ = choice(first, second, comparison.question.min_runs)
        for key, rows in zip(keys, (in_first, in_second), strict=True):
            chosen[key] = np.logical_or(chosen.get(key, rows), rows)
    used = [runs[key].filter(pl.Series(rows)) for key, rows in chosen.items()] or [*runs.values()]
    people = set(chain.from_iterable(frame["person"].drop_nulls() for frame in used))
    compared, every = (sum(frame.height for frame in frames) for frames in (used, runs.values()))
    return Evidence(len(people), compared, every)


def _ranked_runs(
    finding: Finding, comparison: Comparison
) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return the runs that count of each ranked model of a finding."""
    names = {model_of(row) for row in finding.ranked}
    of_group = has_values(GROUP, dict(zip(GROUP, finding.group, strict=True)))
    scored = comparison.runs.filter(pl.col("score").is_not_null(), of_group)
    every = parts(stratified(scored, comparison.question.within))
    return {key[len(GROUP) :]: counted(part) for key, part in every if key[len(GROUP) :] in names}


@dataclass(frozen=True, slots=True)
class GotWorse:
    """An alert of the watch.

    Attributes:
        model: Name of the model.
        said: Which model, at which label, since when and how much.
        sessions: Keys of the worst sessions; none if all of them wait for a blind review.
    """

    model: str
    said: str
    sessions: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The whole alert."""
        return f"{self.said} Sessions: {', '.join(self.sessions)}" if self.sessions else self.said


def got_worse(comparison: Comparison) -> list[GotWorse]:
    """Return the alerts of the watch."""
    found = []
    for row in comparison.regressions.filter(state=ALERT).iter_rows(named=True):
        said = f"{name_of(row)} (label {row['classification_label']}): {alert_sentences(row)}"
        found.append(GotWorse(name_of(row), said, tuple(row["worst_sessions"])))
    return found


def watch_coverage(comparison: Comparison) -> str:
    """Return how many models are monitored for getting worse, each for one label."""
    states = comparison.regressions["state"]
    watched, every = int((states != INSUFFICIENT).sum()), len(states)
    few = "" if watched == every else " The rest have too few sessions."
    return f"Monitoring {whole(watched)} of {whole(every)} model-label pairs.{few}"


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
    models = comparison.models.rows(named=True)
    providers = Counter(name for name, _ in {(row["model"], row["provider"]) for row in models})

    def name(row: Row, side: str) -> str:
        model, provider, variant = model_of(row, side)
        details = [provider or "unknown provider"] if providers[model] > 1 else []
        details += [] if variant is None else [variant]
        return f"{model} ({', '.join(details)})" if details else str(model)

    def row_of(row: Row, sides: Sequence[str], **columns: str) -> dict[str, Any]:
        return {
            "label": row["classification_label"],
            **{f"model{side}": name(row, side) for side in sides},
            **{key: row[column] for key, column in columns.items()},
        }

    def ends(column: str) -> dict[str, str]:
        return {"low": f"{column}_low", "high": f"{column}_high"}

    corrected = {f"corrected_{end}": f"adjusted_{end}_holm" for end in ("low", "high")}
    money = {key: key for key in ("is_not_worse", "is_best_value")}
    return {
        "models": [
            row_of(row, ("",), runs="runs", mean="avg_score", **ends("avg_score")) for row in models
        ],
        "pairs": [
            row_of(
                row,
                ("_a", "_b"),
                difference="adjusted_difference",
                **ends("adjusted"),
                **corrected,
            )
            | {key: _code(row[key]) for key in ("verdict", "indication")}
            for row in comparison.pairs.iter_rows(named=True)
        ],
        "money": [
            row_of(row, ("",), per_dollar="score_per_dollar", **ends("score_per_dollar"), **money)
            for row in models
        ],
    }


def _code(verdict: str | None) -> str | None:
    short = "too few" if verdict == TOO_FEW else verdict
    return None if short is None else short.lower().replace(" ", "_")
