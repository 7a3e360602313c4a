"""The audit sample: sessions drawn at random for people to review.

People override the scores that they happen to notice, which says little about all others. Only a
random sample shows how far automatic scores can be trusted.
"""

import hashlib
from datetime import date

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY


def draw(evaluations: pl.DataFrame, day: date, size: int) -> pl.DataFrame:
    """Draw the audit sample of a date.

    Every session with an automatic scorecard has the same chance. The date is the seed: the same
    sessions in any order have the same sample, on every machine.

    Args:
        evaluations: SESSION_EVALUATIONS of the date.
        day: The date.
        size: Number of sessions; all sessions are drawn if there are fewer.

    Returns:
        ``organization_id, session_key, profile_id, content_hash`` of the drawn sessions.
    """
    scored = evaluations.filter(pl.col("scorecard_100").is_not_null())
    lots = [
        hashlib.sha256("\0".join((day.isoformat(), *key)).encode()).hexdigest()
        for key in scored.select(SESSION_KEY).iter_rows()
    ]
    return (
        scored.select(
            *SESSION_KEY, "profile_id", "content_hash", lot=pl.Series(lots, dtype=pl.String)
        )
        .sort("lot", *SESSION_KEY)
        .head(size)
        .drop("lot")
    )
