"""What people said of scores: which override counts for what, and how it shows on a card."""

import polars as pl

from evaluation_pipelines.numerics.division import divided
from evaluation_pipelines.schemas import OVERRIDES, UTC_TIME
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
        "made_at": UTC_TIME,
    }
)
"""Overrides as the ledger keeps them; a greater ``override_id`` is a newer one."""

_OF = ["organization_id", "session_key", "profile_id"]
_SAYS = ("override_score", "scale_min", "scale_max", "annotator", "reason", "made_at")


def to_100(score: str) -> pl.Expr:
    """A column on the row's own scale as 0-100."""
    low, high = pl.col("scale_min"), pl.col("scale_max")
    return divided(pl.col(score) - low, high - low) * 100


def newest_of_content(overrides: pl.DataFrame) -> pl.DataFrame:
    """The newest override of each session, profile and content."""
    return overrides.sort("override_id").unique(
        [*_OF, "content_hash"], keep="last", maintain_order=True
    )


def with_states(overrides: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """OVERRIDES: every override and whether it counts now.

    Args:
        overrides: OVERRIDE_ROWS.
        sessions: ``organization_id, session_key, content_hash, best_profile_id`` of the sessions
            they are about; an override whose session is not there any more is stale, and one of
            another profile than the best match counts for its card only.
    """
    now = sessions.select(
        "organization_id", "session_key", "best_profile_id", current="content_hash"
    )
    newest = newest_of_content(overrides)["override_id"].implode()
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
        overrides.join(now, on=["organization_id", "session_key"], how="left")
        .with_columns(
            state=state,
            override_100=to_100("override_score"),
            automatic_100=to_100("automatic_score"),
        )
        .select(OVERRIDES.schema.names())
        .cast(OVERRIDES.schema)
        .sort(OVERRIDES.order)
    )


def with_overrides(cards: pl.DataFrame, overrides: pl.DataFrame) -> pl.DataFrame:
    """Cards with ``human_override``, ``effective_score`` and ``effective_100``.

    An override of the card's content counts; one of other content only shows, as stale. The
    automatic score stays beside it. A score given on another scale is put on the card's.
    """
    mine = newest_of_content(overrides)
    others = overrides.sort("override_id").unique(_OF, keep="last", maintain_order=True)
    says = [pl.col(each).alias(f"own_{each}") for each in _SAYS]
    said = [pl.col(each).alias(f"other_{each}") for each in _SAYS]
    joined = cards.join(
        mine.select(*_OF, "content_hash", *says),
        on=[*_OF, "content_hash"],
        how="left",
        maintain_order="left",
    ).join(others.select(*_OF, *said), on=_OF, how="left", maintain_order="left")
    is_live = pl.col("own_override_score").is_not_null()
    given, low, high = (
        pl.col(f"own_{each}") for each in ("override_score", "scale_min", "scale_max")
    )
    is_same_scale = (low == pl.col("scale_min")) & (high == pl.col("scale_max"))
    moved = pl.col("scale_min") + divided(given - low, high - low) * (
        pl.col("scale_max") - pl.col("scale_min")
    )
    corrected = pl.when(is_same_scale).then(given).otherwise(moved)
    return (
        joined.with_columns(
            human_override=pl.when(is_live)
            .then(_shown("own", stale=False))
            .when(pl.col("other_override_score").is_not_null())
            .then(_shown("other", stale=True)),
            effective_score=pl.when(is_live).then(corrected).otherwise("overall_score"),
        )
        .with_columns(effective_100=to_100("effective_score"))
        .drop(pl.selectors.starts_with("own_", "other_"))
    )


def _shown(prefix: str, *, stale: bool) -> pl.Expr:
    return pl.struct(
        pl.col(f"{prefix}_override_score").alias("override_score"),
        pl.col(f"{prefix}_annotator").alias("annotator"),
        pl.col(f"{prefix}_reason").alias("reason"),
        pl.col(f"{prefix}_made_at").alias("at"),
        pl.lit(stale).alias("stale"),
    ).cast(HUMAN_OVERRIDE)
