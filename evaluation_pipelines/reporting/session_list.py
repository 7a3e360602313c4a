"""Sessions of some dates with all that a list shows of them."""

from collections.abc import Collection
from datetime import date

import polars as pl

from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.scorecards.domain.evaluation import with_newest_overrides
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.storage.stores import Stores

SCORES = (
    *("quality", "autonomy", "productivity", "token_efficiency", "cost_efficiency"),
    *("composite", "recommendation", "reason"),
)
"""Columns of SESSION_PERFORMANCE in the list."""

EVALUATED = (
    *("effective_100", "effective_source", "provisional_100", "passed", "colour", "profile_id"),
    "judge_total",
)
"""Columns of SESSION_EVALUATIONS in the list."""


def sessions_of_dates(stores: Stores, days: Collection[date], chosen: pl.Expr) -> pl.DataFrame:
    """Return AGENT_SESSIONS of some dates with SCORES and EVALUATED, in no order.

    Overrides count from the moment they are made. What is not built yet is null.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    lake = stores.lake
    sessions = lake.read(AGENT_SESSIONS, days, where=chosen)
    days = sessions["session_date"].unique().to_list()
    is_one = pl.col("session_key").is_in(sessions["session_key"].unique().implode())
    performance = lake.read(SESSION_PERFORMANCE, days, [*SESSION_KEY, *SCORES], is_one)
    evaluations = lake.read(SESSION_EVALUATIONS, days, where=is_one)
    overrides = OverrideStore(stores.ledger).of_dates(days)
    evaluated = with_newest_overrides(evaluations, overrides).select(*SESSION_KEY, *EVALUATED)
    return sessions.join(performance, on=SESSION_KEY, how="left").join(
        evaluated, on=SESSION_KEY, how="left"
    )


def count_scored(stores: Stores, day: date, organization: str | None = None) -> int:
    """Return the number of sessions of a day with a score that counts, whoever gave it.

    Args:
        stores: The stores.
        day: The day.
        organization: One organization; ``None`` for all.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    owner = pl.col("organization_id") == organization if organization else pl.lit(value=True)
    return sessions_of_dates(stores, [day], owner)["effective_100"].count()
