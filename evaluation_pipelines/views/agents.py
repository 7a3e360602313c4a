"""The relation of agents: their ratings, and the reputation of their identities."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import interval
from evaluation_pipelines.reputation.domain.agent_rating import agent_ratings, progress, withheld
from evaluation_pipelines.reputation.domain.signals import AGENT_NAME, identity_id
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.submitted import (
    SubmittedEvaluations,
    agent_windows,
    counted,
)
from evaluation_pipelines.reputation.updates import scored_agents
from evaluation_pipelines.schemas import (
    AGENT_SCORES,
    AGENT_SESSIONS,
    AGENTS,
    REPUTATION_SCORES,
    SESSION_KEY,
    Table,
)
from evaluation_pipelines.scorecards.domain.withheld import WAITS, hide
from evaluation_pipelines.storage.lake import DamagedPartError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.listing import AGENT_LISTING


def agents(
    stores: Stores,
    now: datetime,
    windows: pl.DataFrame | None = None,
    past: ReputationStore | None = None,
    unread: list[str] | None = None,
    waiting: pl.DataFrame = AGENT_SESSIONS.no_rows,
) -> pl.DataFrame:
    """Return agents, the best first: AGENTS.

    ClickHouse is not asked: its last export and the evaluations in the ledger have all that counts.

    Args:
        stores: The stores.
        now: Time of scores from evaluations that are not exported yet.
        windows: Only the agents of these evaluations: AGENT_WINDOWS.
        past: Reputation as of ``now``, which is in the past: it has no export.
        unread: Gets the error of each damaged export, which counts as empty then.
        waiting: As for :func:`reputations`; these sessions are no evaluations.

    Raises:
        ClickHouseError: ``past`` cannot be read.
        LakeError: An export cannot be read, and ``unread`` is ``None``.
        LedgerError: The ledger cannot be used.
    """
    if past is None:
        scores = _scores(stores, now, windows, _export(stores, AGENT_SCORES, unread), waiting)
        known = _export(stores, REPUTATION_SCORES, unread)
    else:
        scores, known = scored_agents(past, now), past.scores_as_of(now)
    rows = scores.join(known.drop("score_7d_ago", "score_30d_ago"), on="identity_id", how="left")
    change = pl.col("score") - pl.col("score_30d_ago")
    shown = reputations(rows.with_columns(change=change), waiting)
    return AGENT_LISTING.newest_first(shown.select(AGENTS.schema.names()))


def reputations(rows: pl.DataFrame, waiting: pl.DataFrame) -> pl.DataFrame:
    """Return rows of identities with WAITS; if it is true, the columns of WITHHELD are null.

    They are aggregates of many sessions that only ClickHouse has: without one of these they cannot
    be computed here.

    Args:
        rows: Rows with ``identity_id``.
        waiting: Rows of the sessions that wait for a blind review, with columns of AGENT_SESSIONS.
    """
    ids = [str(identity_id(*agent)) for agent in _agent_names(waiting)]
    return hide(rows.with_columns(pl.col("identity_id").is_in(ids).alias(WAITS)))


def _agent_names(sessions: pl.DataFrame) -> list[tuple[str, str]]:
    """Return organization and name of the agents of sessions."""
    return sessions.select("organization_id", AGENT_NAME).unique().rows()


def score_cell(row: Mapping[str, Any]) -> str:
    """Return an agent's rating, or how many of the evaluations that it needs there are."""
    return progress(row) or AGENT_LISTING.cell(row, "score")


def passed_interval(row: Mapping[str, Any]) -> str:
    """Return the 90% interval of the share passed."""
    low, high = (AGENT_LISTING.cell(row, f"pass_rate_{end}") for end in ("low", "high"))
    return interval(low, high)


def _export(stores: Stores, table: Table, unread: list[str] | None) -> pl.DataFrame:
    try:
        return stores.lake.read_whole(table)
    except DamagedPartError as error:
        if unread is None:
            raise
        unread.append(str(error))
        return table.no_rows


def _scores(
    stores: Stores,
    now: datetime,
    windows: pl.DataFrame | None,
    exported: pl.DataFrame,
    waiting: pl.DataFrame,
) -> pl.DataFrame:
    """Return AGENT_SCORES with evaluations that are not exported yet."""
    others = exported.clear()
    if windows is None:
        not_exported = SubmittedEvaluations(stores.ledger).agents_waiting()
        newer = {*not_exported, *_agent_names(waiting)}
        windows = agent_windows(stores, newer, now, not_exported)
        others = exported.join(windows, on=AGENT_SCORES.key, how="anti")
    window = counted(windows, waiting.select(SESSION_KEY).rows())
    before = exported.select(*AGENT_SCORES.key, earlier="score_30d_ago")
    new = (
        withheld(agent_ratings(window, window.clear(), now))
        .join(before, on=AGENT_SCORES.key, how="left")
        .with_columns(score_30d_ago="earlier")
    )
    return pl.concat([others, new.select(exported.columns)])
