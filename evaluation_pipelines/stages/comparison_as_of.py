"""Effective scores as they were at a past time, from what is kept: cards and overrides."""

from datetime import datetime

import polars as pl

from evaluation_pipelines.domain.schemas import SCORECARDS, SESSION_EVALUATIONS, UTC_TIME
from evaluation_pipelines.domain.scorecards.evaluation import PASSES_FROM
from evaluation_pipelines.domain.scorecards.overrides import newest_of_content, to_100
from evaluation_pipelines.stages.stores import Stores

NOT_BY_THEN = "it had not ended by then, or only its present score is kept"

_SESSION = ["organization_id", "session_key"]
_CONTENT = [*_SESSION, "content_hash", "profile_id"]


def evaluations_as_of(stores: Stores, started: pl.Expr, as_of: datetime) -> pl.DataFrame:
    """SESSION_EVALUATIONS of sessions that had begun, with the score that counted then.

    That is the newest card of the best match that was written by then, under the newest override
    of its content that was made by then. Where there is no such card the composite or status
    of today counts, if the session had ended by then; otherwise there is no score and it is said
    why. Model and label are those of the card where there is one.

    Args:
        stores: the stores.
        started: which sessions, by ``started_at``.
        as_of: the time.

    Raises:
        LakeError: a file cannot be read.
    """
    then = pl.lit(as_of).cast(UTC_TIME)
    now = stores.lake.select(SESSION_EVALUATIONS, started, pl.col("started_at") <= then)
    cards = stores.lake.select(SCORECARDS, started, pl.col("scored_at") <= then)
    told = stores.ledger.overrides.of_dates().filter(pl.col("made_at") <= then)
    known = now.join(_by_then(cards, told), on=_SESSION, how="left", validate="1:1")
    has_card = pl.col("then_card_id").is_not_null()
    lasting = pl.col("effective_source").is_in(["composite", "status"]) & (
        pl.col("ended_at") <= then
    )
    replaced = {
        name: pl.when(has_card).then(f"then_{name}").when(lasting).then(name)
        for name in ("effective_100", "profile_id", "profile_version", "disqualified", "confidence")
    }
    own = {
        name: pl.when(has_card).then(f"then_{name}")
        for name in ("card_id", "override_id", "override_100", "scorecard_100")
    }
    kept = {
        name: pl.coalesce(f"then_{name}", name)
        for name in ("model", "provider", "classification_label", "content_hash")
    }
    source = (
        pl.when(has_card)
        .then("then_effective_source")
        .when(lasting)
        .then("effective_source")
        .otherwise(pl.lit("none"))
    )
    reason = (
        pl.when(has_card).then(None).when(lasting).then("reason").otherwise(pl.lit(NOT_BY_THEN))
    )
    names = SESSION_EVALUATIONS.schema.names()
    return (
        known.with_columns(**replaced, **own, **kept, effective_source=source, reason=reason)
        .with_columns(passed=pl.col("effective_100") >= PASSES_FROM)
        .select(names)
        .cast(SESSION_EVALUATIONS.schema)
        .sort(SESSION_EVALUATIONS.order)
    )


def _by_then(cards: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """The card that counted for each session, its columns with the prefix ``then_``."""
    newest = (
        cards.filter("is_best_match", ~pl.col("fallback"))
        .sort("scored_at", "profile_version", "card_id")
        .unique(_SESSION, keep="last")
        .with_columns(scorecard_100=to_100("overall_score"))
    )
    live = newest_of_content(told).select(
        *_CONTENT,
        override_id=pl.col("override_id").cast(pl.String),
        override_100=to_100("override_score"),
    )
    overridden = pl.col("override_id").is_not_null()
    counted = newest.join(live, on=_CONTENT, how="left").with_columns(
        effective_100=pl.coalesce("override_100", "scorecard_100"),
        effective_source=pl.when(overridden)
        .then(pl.lit("override"))
        .otherwise(pl.lit("scorecard")),
        confidence=pl.when(overridden).then(1.0).otherwise("confidence"),
    )
    names = (
        "card_id content_hash profile_id profile_version disqualified confidence model provider "
        "classification_label scorecard_100 override_id override_100 effective_100 effective_source"
    ).split()
    return counted.select(*_SESSION, *(pl.col(name).alias(f"then_{name}") for name in names))
