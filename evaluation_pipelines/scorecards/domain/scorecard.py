"""Scorecards: the criteria of one profile version, weighed into one score for each session."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.numerics.division import divided
from evaluation_pipelines.profiles.domain.profile import Criterion, JudgeProfile
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines.schemas.scorecards import CRITERIA_SCORES
from evaluation_pipelines.scorecards.domain.disqualifiers import TRIGGERED
from evaluation_pipelines.scorecards.domain.heuristics import (
    MIDPOINT,
    heuristic_scores,
    score_column,
    unknown_criteria,
)
from evaluation_pipelines.scorecards.domain.judged import KEYS, judged_scores, why_not_judged

HEURISTIC_CONFIDENCE = 0.9
FALLBACK_CONFIDENCE = 0.1
NOT_JUDGED = "no judge has scored this content with this profile version"
NO_EVIDENCE = "every criterion is unknown"

_NAMESPACE = uuid.UUID("6f0a3a5e-6a52-5d0c-9c55-6b1a6c1f3c11")
_AUTOMATIC = [
    each
    for each in SCORECARDS.schema
    if each not in ("human_override", "effective_score", "effective_100", "scored_at")
]
_SCORE = ("overall_score", "confidence", "fallback", "disqualifier_triggered")

UNSCORED = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "profile_id": pl.String(),
        "reason": pl.String(),
    }
)


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards of one profile version without what people said, and why sessions have none.

    ``cards`` has the columns of SCORECARDS but for the override, the effective scores and
    ``scored_at``; ``unscored`` those of UNSCORED.
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
) -> Cards:
    """Score sessions by one profile version.

    The score is the weighted mean of the criteria that are known, 0 to 1, put on the scale. A
    disqualified session has the lowest score whatever the criteria say. What only a judge can
    score and none has scored gets no card, or with ``allow_fallback`` one at the midpoint that
    counts nowhere.

    Args:
        profile: the version.
        evidence: sessions to score, as :func:`heuristics.evidence` gives them, with
            ``is_best_match``.
        results: JUDGE_RESULTS.
        triggered: TRIGGERED, of the sessions with texts; only read if there are disqualifiers.
        allow_fallback: whether to write cards for what no judge has scored.
    """
    frame = _with_criteria(profile, evidence, results)
    frame = _with_disqualifiers(profile, frame, triggered)
    frame = _with_share(profile, frame, allow_fallback=allow_fallback)
    scored = frame.filter(pl.col("share").is_not_null())
    return Cards(_finished(profile, scored), _unscored(profile, frame))


def keep_times(new: pl.DataFrame, old: pl.DataFrame, now: pl.Expr) -> pl.DataFrame:
    """New cards with ``scored_at``: that of the old card where the score is still the same."""
    before = old.select(
        "card_id", "scored_at", *(pl.col(each).alias(f"old_{each}") for each in _SCORE)
    )
    same = (
        pl.all_horizontal(pl.col(each).eq_missing(pl.col(f"old_{each}")) for each in _SCORE)
        & pl.col("scored_at").is_not_null()
    )
    return (
        new.join(before, on="card_id", how="left", validate="1:1", maintain_order="left")
        .with_columns(scored_at=pl.when(same).then("scored_at").otherwise(now))
        .drop(f"old_{each}" for each in _SCORE)
    )


def kept_cards(old: pl.DataFrame, rescored: pl.DataFrame) -> pl.DataFrame:
    """Old cards of a file that stay beside its new ones: those of other content or sessions.

    Args:
        old: cards of one profile version as they lie in the lake.
        rescored: KEYS of all sessions that were looked at again, scored or not.
    """
    return old.join(rescored, on=KEYS, how="anti")


def card_id(profile: JudgeProfile, organization_id: str, session_key: str, content: str) -> str:
    """A UUID (version 5): the same card has the same id whenever it is made."""
    name = "\0".join((profile.id, str(profile.version), organization_id, session_key, content))
    return str(uuid.uuid5(_NAMESPACE, name))


def _with_criteria(
    profile: JudgeProfile, evidence: pl.DataFrame, results: pl.DataFrame
) -> pl.DataFrame:
    frame = evidence.with_columns(heuristic_scores(profile))
    for more in (judged_scores(profile, results), why_not_judged(profile, results)):
        frame = frame.join(more, on=KEYS, how="left", validate="1:1", maintain_order="left")
    return frame


def _with_disqualifiers(
    profile: JudgeProfile, frame: pl.DataFrame, triggered: pl.DataFrame
) -> pl.DataFrame:
    if not profile.disqualifiers:
        return frame.with_columns(
            disqualified=pl.lit(value=False),
            disqualifier_triggered=pl.lit(None, pl.String),
        )
    keys = ["organization_id", "session_key"]
    return frame.join(
        triggered.select(TRIGGERED.names()), on=keys, how="left", maintain_order="left"
    )


def _with_share(
    profile: JudgeProfile, frame: pl.DataFrame, *, allow_fallback: bool
) -> pl.DataFrame:
    """Adds ``share`` (0 to 1, null if unscored), ``fallback`` and ``confidence``."""
    needs_judge = bool(profile.judged)
    is_judged = pl.col("judge_confidence").is_not_null()
    is_scored = is_judged if needs_judge else pl.lit(value=True)
    mean = pl.when(is_scored).then(_weighted_mean(_criteria(profile)))
    is_out = pl.col("disqualified").fill_null(value=False)
    may_fall_back = pl.lit(allow_fallback and needs_judge) & ~pl.col("under_way").fill_null(
        value=False
    )
    falls_back = may_fall_back & ~is_judged & ~is_out
    by_rule = is_out & ~is_scored
    return frame.with_columns(
        share=pl.when(is_out).then(0.0).when(falls_back).then(MIDPOINT).otherwise(mean),
        fallback=falls_back,
        confidence=pl.when(falls_back)
        .then(FALLBACK_CONFIDENCE)
        .when(by_rule)
        .then(HEURISTIC_CONFIDENCE)
        .otherwise(_confidence(profile)),
    )


def _criteria(profile: JudgeProfile) -> tuple[Criterion, ...]:
    return (*profile.computed, *profile.judged)


def _weighted_mean(criteria: Sequence[Criterion]) -> pl.Expr:
    """Over the criteria that are known: the weights of the others are spread in proportion."""
    weighted = pl.sum_horizontal(pl.col(score_column(each.id)) * each.weight for each in criteria)
    known = _known_weight(criteria)
    return pl.when(known > 0).then(divided(weighted, known).clip(0, 1))


def _known_weight(criteria: Sequence[Criterion]) -> pl.Expr:
    return pl.sum_horizontal(
        pl.lit(0.0),
        *(pl.col(score_column(each.id)).is_not_null() * each.weight for each in criteria),
    )


def _confidence(profile: JudgeProfile) -> pl.Expr:
    """Of the parts by which it was scored: averaged by the weight of what is known of each."""
    computed, judged = _known_weight(profile.computed), _known_weight(profile.judged)
    of_judge = pl.col("judge_confidence").fill_null(0.0) * judged
    together = computed + judged
    # A disqualified session may have no criterion at all: the rule itself is what scored it.
    return (
        pl.when(together > 0)
        .then(divided(HEURISTIC_CONFIDENCE * computed + of_judge, together))
        .otherwise(HEURISTIC_CONFIDENCE)
    )


def _finished(profile: JudgeProfile, scored: pl.DataFrame) -> pl.DataFrame:
    identity = scored.select(KEYS).iter_rows()
    low, high = profile.scale.min, profile.scale.max
    return scored.with_columns(
        pl.Series("card_id", [card_id(profile, *each) for each in identity], pl.String),
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
        pl.struct(key=pl.lit(each.id), value=_on_scale(profile, each))
        for each in _criteria(profile)
    ]
    return pl.concat_list(entries).cast(CRITERIA_SCORES)


def _on_scale(profile: JudgeProfile, criterion: Criterion) -> pl.Expr:
    low, high = profile.scale.min, profile.scale.max
    return low + pl.col(score_column(criterion.id)) * (high - low)


def _reasoning(profile: JudgeProfile) -> pl.Expr:
    """The scores in words: what was weighed, what is unknown, what nobody computes."""
    unheard_of = unknown_criteria(profile)
    parts = []
    for each in _criteria(profile):
        score = _on_scale(profile, each).round(1).cast(pl.String)
        note = " (nobody computes this: midpoint)" if each.id in unheard_of else ""
        known = pl.format(f"{each.id} {{}} x {each.weight:g}{note}", score)
        parts.append(
            pl.when(score.is_not_null()).then(known).otherwise(pl.lit(f"{each.id} unknown"))
        )
    weighed = pl.concat_str(parts, separator=", ")
    out = pl.format("disqualified by {}", pl.col("disqualifier_triggered"))
    placeholder = pl.when("fallback").then(
        pl.format("a placeholder: {}", pl.col("judge_reason").fill_null(NOT_JUDGED))
    )
    first = pl.concat_str([out, placeholder, weighed], separator="; ", ignore_nulls=True)
    return pl.concat_str([first, pl.col("analysis")], separator="\n\n", ignore_nulls=True)


def _unscored(profile: JudgeProfile, frame: pl.DataFrame) -> pl.DataFrame:
    missing = frame.filter(pl.col("share").is_null())
    not_judged = pl.col("judge_reason").fill_null(NOT_JUDGED)
    waits = bool(profile.judged) & pl.col("judge_confidence").is_null()
    return missing.select(
        "organization_id",
        "session_key",
        profile_id=pl.lit(profile.id),
        reason=pl.when(waits).then(not_judged).otherwise(pl.lit(NO_EVIDENCE)),
    ).cast(UNSCORED)
