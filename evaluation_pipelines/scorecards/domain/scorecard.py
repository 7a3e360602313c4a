"""Scorecards: the criteria of a profile version combined into one score for each session."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.numerics.division import divided
from evaluation_pipelines.profiles.domain.profile import Criterion, JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.schemas import CONTENT_KEY, SCORECARDS, SESSION_KEY, Table
from evaluation_pipelines.schemas.scorecards import CRITERIA_SCORES, EFFECTIVE_SOURCES
from evaluation_pipelines.schemas.table import CheckResult, examples_of
from evaluation_pipelines.scorecards.domain.criteria import (
    MIDPOINT,
    TRIGGERED,
    heuristic_scores,
    judged_scores,
    score_column,
    unknown_criteria,
    why_not_judged,
)
from evaluation_pipelines.scorecards.domain.evaluation import EFFECTIVE_RANGE
from evaluation_pipelines.scorecards.domain.overrides import OVERRIDE_COLUMNS

HEURISTIC_CONFIDENCE = 0.9
FALLBACK_CONFIDENCE = 0.1
NOT_JUDGED = "no judge has scored this content with this profile version"
NO_POINTS = "the judge gave no points for its criteria"
NO_EVIDENCE = "every criterion is unknown"

_NAMESPACE = uuid.UUID("6f0a3a5e-6a52-5d0c-9c55-6b1a6c1f3c11")
_AUTOMATIC = [
    column for column in SCORECARDS.schema if column not in (*OVERRIDE_COLUMNS, "scored_at")
]
_SCORE_COLUMNS = ("overall_score", "confidence", "fallback", "disqualifier_triggered")

UNSCORED = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "profile_id": pl.String(),
        "reason": pl.String(),
    }
)


@dataclass(frozen=True, slots=True)
class ScoredCards:
    """Cards of one profile version without overrides, and the sessions without a card.

    ``cards`` has the columns of SCORECARDS except the override, the effective scores and
    ``scored_at``. ``unscored`` has the columns of UNSCORED, with the reason.
    """

    cards: pl.DataFrame
    unscored: pl.DataFrame


def score_cards(
    profile: JudgeProfile,
    evidence: pl.DataFrame,
    results: pl.DataFrame,
    triggered: pl.DataFrame,
    *,
    allow_fallback: bool = False,
) -> ScoredCards:
    """Score sessions by one profile version.

    The score is the weighted mean of the known criteria, 0 to 1, converted to the scale of the
    profile. A disqualified session has the lowest score regardless of its criteria. A session that
    only a judge can score and none has scored gets no card, or with ``allow_fallback`` a
    placeholder at the midpoint, which never counts.

    Args:
        profile: The version.
        evidence: Sessions to score, from :func:`heuristics.evidence`, with ``is_best_match``.
        results: JUDGE_RESULTS.
        triggered: TRIGGERED of the sessions with texts; only read if there are disqualifiers.
        allow_fallback: Whether to write placeholder cards.
    """
    frame = _with_criteria(profile, evidence, results)
    frame = _with_disqualifiers(profile, frame, triggered)
    frame = _with_share(profile, frame, allow_fallback=allow_fallback)
    scored = frame.filter(pl.col("share").is_not_null())
    return ScoredCards(_finished(profile, scored), _unscored(profile, frame))


def with_scored_at(new: pl.DataFrame, old: pl.DataFrame, now: pl.Expr) -> pl.DataFrame:
    """Add ``scored_at`` to new cards: that of the old card if the score is the same, else now."""
    before = old.select(
        "card_id",
        "scored_at",
        *(pl.col(column).alias(f"old_{column}") for column in _SCORE_COLUMNS),
    )
    same = (
        pl.all_horizontal(
            pl.col(column).eq_missing(pl.col(f"old_{column}")) for column in _SCORE_COLUMNS
        )
        & pl.col("scored_at").is_not_null()
    )
    return (
        new.join(before, on="card_id", how="left", validate="1:1", maintain_order="left")
        .with_columns(scored_at=pl.when(same).then("scored_at").otherwise(now))
        .drop(f"old_{column}" for column in _SCORE_COLUMNS)
    )


def kept_cards(old: pl.DataFrame, rescored: pl.DataFrame) -> pl.DataFrame:
    """Return the old cards of superseded content or of other sessions, which are kept.

    Args:
        old: Cards of one profile version in the lake.
        rescored: CONTENT_KEY of all sessions that were evaluated again, scored or not.
    """
    return old.join(rescored, on=CONTENT_KEY, how="anti")


def card_id(profile: JudgeProfile, organization_id: str, session_key: str, content: str) -> str:
    """Return a UUID (version 5): the same card always has the same id."""
    name = "\0".join((profile.id, str(profile.version), organization_id, session_key, content))
    return str(uuid.uuid5(_NAMESPACE, name))


def _with_criteria(
    profile: JudgeProfile, evidence: pl.DataFrame, results: pl.DataFrame
) -> pl.DataFrame:
    frame = evidence.with_columns(heuristic_scores(profile))
    for more in (judged_scores(profile, results), why_not_judged(profile, results)):
        frame = frame.join(more, on=CONTENT_KEY, how="left", validate="1:1", maintain_order="left")
    return frame


def _with_disqualifiers(
    profile: JudgeProfile, frame: pl.DataFrame, triggered: pl.DataFrame
) -> pl.DataFrame:
    if not profile.disqualifiers:
        return frame.with_columns(
            disqualified=pl.lit(value=False),
            disqualifier_triggered=pl.lit(None, pl.String),
        )
    return frame.join(
        triggered.select(TRIGGERED.names()), on=SESSION_KEY, how="left", maintain_order="left"
    )


def _with_share(
    profile: JudgeProfile, frame: pl.DataFrame, *, allow_fallback: bool
) -> pl.DataFrame:
    """Add ``share`` (0 to 1, null if unscored), ``fallback`` and ``confidence``."""
    needs_judge = bool(profile.judged)
    is_judged = _is_judged(profile)
    is_scored = is_judged if needs_judge else pl.lit(value=True)
    unknown = unknown_criteria(profile)
    # An unknown criterion is a midpoint for everybody: alone it says nothing of a session.
    has_evidence = _known_weight([c for c in _criteria(profile) if c.id not in unknown]) > 0
    mean = pl.when(is_scored, has_evidence).then(_weighted_mean(_criteria(profile)))
    is_disqualified = pl.col("disqualified").fill_null(value=False)
    may_fall_back = pl.lit(allow_fallback and needs_judge) & ~pl.col("under_way").fill_null(
        value=False
    )
    is_fallback = may_fall_back & ~is_judged & ~is_disqualified
    is_scored_by_rule = is_disqualified & ~is_scored
    return frame.with_columns(
        share=pl.when(is_disqualified).then(0.0).when(is_fallback).then(MIDPOINT).otherwise(mean),
        fallback=is_fallback,
        confidence=pl.when(is_fallback)
        .then(FALLBACK_CONFIDENCE)
        .when(is_scored_by_rule)
        .then(HEURISTIC_CONFIDENCE)
        .otherwise(_confidence(profile)),
    )


def _is_judged(profile: JudgeProfile) -> pl.Expr:
    """Return whether a judge gave points for a criterion of the profile: rubrics have others."""
    return pl.col("judge_confidence").is_not_null() & (_known_weight(profile.judged) > 0)


def _criteria(profile: JudgeProfile) -> tuple[Criterion, ...]:
    return (*profile.computed, *profile.judged)


def _weighted_mean(criteria: Sequence[Criterion]) -> pl.Expr:
    """Return the weighted mean of the known criteria, 0 to 1; null if none is known."""
    weighted = pl.sum_horizontal(
        pl.col(score_column(criterion.id)) * criterion.weight for criterion in criteria
    )
    known = _known_weight(criteria)
    return pl.when(known > 0).then(divided(weighted, known).clip(0, 1))


def _known_weight(criteria: Sequence[Criterion]) -> pl.Expr:
    return pl.sum_horizontal(
        pl.lit(0.0),
        *(
            pl.col(score_column(criterion.id)).is_not_null() * criterion.weight
            for criterion in criteria
        ),
    )


def _confidence(profile: JudgeProfile) -> pl.Expr:
    """Return the confidence of computed and judged criteria, averaged by their known weight."""
    computed, judged = _known_weight(profile.computed), _known_weight(profile.judged)
    of_judge = pl.col("judge_confidence").fill_null(0.0) * judged
    total = computed + judged
    # A disqualified session may have no known criterion: the disqualifier alone scores it.
    return (
        pl.when(total > 0)
        .then(divided(HEURISTIC_CONFIDENCE * computed + of_judge, total))
        .otherwise(HEURISTIC_CONFIDENCE)
    )


def _finished(profile: JudgeProfile, scored: pl.DataFrame) -> pl.DataFrame:
    contents = scored.select(CONTENT_KEY).iter_rows()
    low, high = profile.scale.min, profile.scale.max
    return scored.with_columns(
        pl.Series("card_id", [card_id(profile, *content) for content in contents], pl.String),
        profile_id=pl.lit(profile.id),
        profile_version=pl.lit(profile.version, pl.Int64),
        method=pl.lit(profile.method),
        scale_min=pl.lit(low),
        scale_max=pl.lit(high),
        overall_score=low + pl.col("share") * (high - low),
        criteria_scores=_criteria_scores(profile),
        reasoning=_reasoning(profile),
        duration_ms=pl.col("duration_s") * 1000,
    ).select(_AUTOMATIC)


def _criteria_scores(profile: JudgeProfile) -> pl.Expr:
    entries = [
        pl.struct(key=pl.lit(criterion.id), value=_on_scale(profile, criterion))
        for criterion in _criteria(profile)
    ]
    return pl.concat_list(entries).cast(CRITERIA_SCORES)


def _on_scale(profile: JudgeProfile, criterion: Criterion) -> pl.Expr:
    low, high = profile.scale.min, profile.scale.max
    return low + pl.col(score_column(criterion.id)) * (high - low)


def _reasoning(profile: JudgeProfile) -> pl.Expr:
    """Return the explanation of a score: weighted criteria, with unknown ones marked."""
    unknown = unknown_criteria(profile)
    parts = []
    for criterion in _criteria(profile):
        score = _on_scale(profile, criterion).round(1).cast(pl.String)
        note = " (unknown criterion: midpoint)" if criterion.id in unknown else ""
        known = pl.format(f"{criterion.id} {{}} x {criterion.weight:g}{note}", score)
        parts.append(
            pl.when(score.is_not_null()).then(known).otherwise(pl.lit(f"{criterion.id} unknown"))
        )
    weighted = pl.concat_str(parts, separator=", ")
    disqualified = pl.format("disqualified by {}", pl.col("disqualifier_triggered"))
    placeholder = pl.when("fallback").then(
        pl.format("a placeholder: {}", pl.col("judge_reason").fill_null(NOT_JUDGED))
    )
    score_text = pl.concat_str(
        [disqualified, placeholder, weighted], separator="; ", ignore_nulls=True
    )
    return pl.concat_str([score_text, pl.col("analysis")], separator="\n\n", ignore_nulls=True)


def _unscored(profile: JudgeProfile, frame: pl.DataFrame) -> pl.DataFrame:
    missing = frame.filter(pl.col("share").is_null())
    not_judged = pl.col("judge_reason").fill_null(
        pl.when(pl.col("judge_confidence").is_null())
        .then(pl.lit(NOT_JUDGED))
        .otherwise(pl.lit(NO_POINTS))
    )
    lacks_judge = bool(profile.judged) & ~_is_judged(profile)
    return missing.select(
        *SESSION_KEY,
        profile_id=pl.lit(profile.id),
        reason=pl.when(lacks_judge).then(not_judged).otherwise(pl.lit(NO_EVIDENCE)),
    ).cast(UNSCORED)


_ROUNDING = 1e-9
"""How far a score may be outside its scale because of floating-point addition."""

_LOWEST, _HIGHEST = EFFECTIVE_RANGE[0] - _ROUNDING, EFFECTIVE_RANGE[1] + _ROUNDING


def cards_are_on_their_scale(cards: pl.DataFrame, table: Table) -> CheckResult:
    """Every score is on the scale of its profile, and every confidence is from 0 to 1."""
    low, high = pl.col("scale_min") - _ROUNDING, pl.col("scale_max") + _ROUNDING
    fits = pl.all_horizontal(
        pl.col("overall_score").is_between(low, high),
        pl.col("effective_score").is_between(low, high),
        pl.col("effective_100").is_between(_LOWEST, _HIGHEST),
        pl.col("confidence").is_between(0, 1),
    )
    broken = cards.filter(~fits.fill_null(value=False))
    return CheckResult(
        table.name,
        "cards_are_on_their_scale",
        broken.is_empty(),
        "every score on the scale of its profile, every confidence from 0 to 1",
        f"{broken.height:,} cards that are not",
        examples_of(broken.select("session_key", "profile_id", "overall_score", "confidence")),
    )


def every_card_has_its_session(
    cards: pl.DataFrame, sessions: pl.DataFrame, table: Table
) -> CheckResult:
    """Every card has a session window; a warning, since old cards are kept."""
    orphans = cards.join(sessions, on=SESSION_KEY, how="anti").select(*SESSION_KEY, "profile_id")
    return CheckResult(
        table.name,
        "every_card_has_its_session",
        orphans.is_empty(),
        "a session window for every card",
        f"{orphans.height:,} cards whose window no longer exists",
        examples_of(orphans.sort(pl.all())),
        "warning",
    )


def profiles_are_sound(faults: Sequence[str], table: Table) -> CheckResult:
    """Every profile file is usable; a warning, since the last valid version stays in use."""
    return CheckResult(
        table.name,
        "profiles_are_sound",
        not faults,
        "every profile file valid and with a correct version",
        f"{len(faults):,} profile files that are not used",
        tuple(faults),
        "warning",
    )


def every_criterion_is_known(registry: Registry, table: Table) -> CheckResult:
    """Every criterion is computed or judged; a warning: an unknown one scores the midpoint."""
    newest = [registered.profile for registered in registry.newest() if registered.profile.enabled]
    unknown = [
        f"{profile.id} version {profile.version}: {name}"
        for profile in newest
        for name in unknown_criteria(profile)
    ]
    return CheckResult(
        table.name,
        "every_criterion_is_known",
        not unknown,
        "every criterion computed or judged",
        f"{len(unknown):,} unknown criteria, which always score the midpoint",
        tuple(unknown),
        "warning",
    )


def effective_scores_have_a_source(evaluations: pl.DataFrame, table: Table) -> CheckResult:
    """Every effective score is from 0 to 100 and has a source; no source without a score."""
    score, source = pl.col("effective_100"), pl.col("effective_source")
    has_source = source.is_in(EFFECTIVE_SOURCES) & (source != "none")
    fits = (
        pl.when(score.is_null())
        .then(source == "none")
        .otherwise(has_source & score.is_between(_LOWEST, _HIGHEST))
    )
    broken = evaluations.filter(~fits.fill_null(value=False))
    return CheckResult(
        table.name,
        "effective_scores_have_a_source",
        broken.is_empty(),
        "every effective score from 0 to 100 with its source, and no source without a score",
        f"{broken.height:,} sessions that break this rule",
        examples_of(broken.select("session_key", "effective_100", "effective_source")),
    )
