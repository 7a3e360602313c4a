"""The audit sample: sessions drawn at random for people to look at.

People override what caught their eye, which says little about all the rest. Only a sample that
nobody chose tells how far automatic scores can be trusted.
"""

import hashlib
from datetime import date

import polars as pl


def draw(evaluations: pl.DataFrame, day: date, size: int) -> pl.DataFrame:
    """Some sessions of a date: ``organization_id, session_key, profile_id, content_hash``.

    Every session with an automatic scorecard has the same chance. The date is the seed: the same
    sessions give the same sample, whoever draws it and in whichever order they stand.

    Args:
        evaluations: SESSION_EVALUATIONS of the date.
        day: the date.
        size: how many; fewer when there are fewer.
    """
    keys = ["organization_id", "session_key"]
    scored = evaluations.filter(pl.col("scorecard_100").is_not_null())
    lots = [
        hashlib.sha256("\0".join((day.isoformat(), *key)).encode()).hexdigest()
        for key in scored.select(keys).iter_rows()
    ]
    return (
        scored.select(*keys, "profile_id", "content_hash", lot=pl.Series(lots, dtype=pl.String))
        .sort("lot", *keys)
        .head(size)
        .drop("lot")
    )
