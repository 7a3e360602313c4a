"""Overrides of scores by people: which of them count, and their effect on cards."""

import polars as pl

from evaluation_pipelines.numerics.division import divided
from evaluation_pipelines.schemas import OVERRIDES, SESSION_KEY, UTC_TIME
from evaluation_pipelines.schemas.scorecards import HUMAN_OVERRIDE

OVERRIDE_ROWS = pl.Schema(
    {
        "override_id": pl.Int64(),
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "session_date": pl.Date(),
        "profile_id": pl.String(),
        "profile_version": pl.Int64(),
        "content_hash": pl.String(),
        "override_score": pl.Float64(),
        "scale_min": pl.Float64(),
        "scale_max": pl.Float64(),
        "automatic_score": pl.Float64(),
        "is_confirmation": pl.Boolean(),
        "source": pl.String(),
        "annotator": pl.String(),
        "reason": pl.String(),
        "criterion_id": pl.String(),
        "made_at": UTC_TIME,
    }
)
"""Overrides as stored in the ledger; a greater ``override_id`` is newer."""

OVERRIDE_COLUMNS = ("human_override", "effective_score", "effective_100")
"""Columns of a card that depend on overrides."""

_SCORE_KEY = [*SESSION_KEY, "profile_id"]
_SHOWN = ("override_score", "scale_min", "scale_max", "annotator", "reason", "made_at")


def to_100(score: str) -> pl.Expr:
    """Return a score column on the scale of its row as 0-100."""
    low, high = pl.col("scale_min"), pl.col("scale_max")
    return divided(pl.col(score) - low, high - low) * 100


def newest_by_content(overrides: pl.DataFrame) -> pl.DataFrame:
    """Return the newest override of each session, profile and content."""
    return overrides.sort("override_id").unique(
        [*_SCORE_KEY, "content_hash"], keep="last", maintain_order=True
    )


def with_states(overrides: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return every override with the state that says whether it counts now: OVERRIDES.

    An override whose session no longer exists is stale. An override of a profile other than the
    best match counts for its card only.

    Args:
        overrides: OVERRIDE_ROWS.
        sessions: ``organization_id, session_key, content_hash, best_profile_id`` of their
            sessions.
    """
    now = sessions.select(*SESSION_KEY, "best_profile_id", current="content_hash")
    newest = newest_by_content(overrides)["override_id"].implode()
    is_current = pl.col("content_hash").eq_missing(pl.col("current"))
    state = (
        pl.when(~is_current)
        .then(pl.lit("stale"))
        .when(~pl.col("override_id").is_in(newest))
        .then(pl.lit("replaced"))
        .when(pl.col("profile_id").eq_missing(pl.col("best_profile_id")))
        .then(pl.lit("live"))
        .otherwise(pl.lit("card_only"))
    )
    return (
        overrides.join(now, on=SESSION_KEY, how="left")
        .with_columns(
            state=state,
            override_100=to_100("override_score"),
            automatic_100=to_100("automatic_score"),
        )
        .select(OVERRIDES.schema.names())
        .cast(OVERRIDES.schema)
        .sort(OVERRIDES.order)
    )


def outdated(states: pl.DataFrame) -> pl.DataFrame:
    """Return the newest override of each changed content that no override counts for.

    Args:
        states: OVERRIDES in their order.
    """
    subject = [*SESSION_KEY, "profile_id"]
    others = states.filter(pl.col("state") != "stale")
    stale = states.filter(state="stale").join(others, on=subject, how="anti", maintain_order="left")
    return stale.unique(subject, keep="last", maintain_order=True)


def with_overrides(cards: pl.DataFrame, overrides: pl.DataFrame) -> pl.DataFrame:
    """Add ``human_override``, ``effective_score`` and ``effective_100`` (0-100) to cards.

    An override of the card's content counts. An override of other content is only shown, as stale.
    The automatic score is kept. A score given on another scale is converted to the card's scale.
    """
    of_content = newest_by_content(overrides).select(
        *_SCORE_KEY, "content_hash", *(pl.col(column).alias(f"live_{column}") for column in _SHOWN)
    )
    of_session = (
        overrides.sort("override_id")
        .unique(_SCORE_KEY, keep="last", maintain_order=True)
        .select(*_SCORE_KEY, *(pl.col(column).alias(f"newest_{column}") for column in _SHOWN))
    )
    joined = cards.join(
        of_content, on=[*_SCORE_KEY, "content_hash"], how="left", maintain_order="left"
    ).join(of_session, on=_SCORE_KEY, how="left", maintain_order="left")
    is_live = pl.col("live_override_score").is_not_null()
    given, low, high = (
        pl.col(f"live_{column}") for column in ("override_score", "scale_min", "scale_max")
    )
    is_same_scale = (low == pl.col("scale_min")) & (high == pl.col("scale_max"))
    converted = pl.col("scale_min") + divided(given - low, high - low) * (
        pl.col("scale_max") - pl.col("scale_min")
    )
    corrected = pl.when(is_same_scale).then(given).otherwise(converted)
    return (
        joined.with_columns(
            human_override=pl.when(is_live)
            .then(_human_override("live", stale=False))
            .when(pl.col("newest_override_score").is_not_null())
            .then(_human_override("newest", stale=True)),
            effective_score=pl.when(is_live).then(corrected).otherwise("overall_score"),
        )
        .with_columns(effective_100=to_100("effective_score"))
        .drop(pl.selectors.starts_with("live_", "newest_"))
    )


def _human_override(prefix: str, *, stale: bool) -> pl.Expr:
    return pl.struct(
        pl.col(f"{prefix}_override_score").alias("override_score"),
        pl.col(f"{prefix}_annotator").alias("annotator"),
        pl.col(f"{prefix}_reason").alias("reason"),
        pl.col(f"{prefix}_made_at").alias("at"),
        pl.lit(stale).alias("stale"),
    ).cast(HUMAN_OVERRIDE)
