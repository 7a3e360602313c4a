"""The relation of agents: their scores by evaluations, and the reputation of their identities."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import interval
from evaluation_pipelines.reputation.domain.agent_rating import agent_ratings, progress, withheld
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.submitted import (
    SubmittedEvaluations,
    agent_organizations,
    agent_window,
    agents_of_sessions,
)
from evaluation_pipelines.reputation.updates import scored_agents
from evaluation_pipelines.schemas import (
    AGENT_SCORES,
    AGENT_WINDOWS,
    AGENTS,
    REPUTATION_SCORES,
    Table,
)
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.storage.lake import DamagedPartError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.listing import AGENT_LISTING


def agents(
    stores: Stores,
    now: datetime,
    name: str | None = None,
    past: ReputationStore | None = None,
    unread: list[str] | None = None,
    waiting: Collection[SessionKey] = (),
) -> pl.DataFrame:
    """Return agents, the best first: AGENTS.

    ClickHouse is not asked: its last export and the evaluations in the ledger have all that counts.

    Args:
        stores: The stores.
        now: Time of scores from evaluations that are not exported yet.
        name: Only agents of this name: those of all organizations.
        past: Reputation as of ``now``, which is in the past: it has no export.
        unread: Gets the error of each damaged export, which counts as empty then.
        waiting: Sessions that wait for a blind review and do not count, unless ``past`` is given.

    Raises:
        ClickHouseError: ``past`` cannot be read.
        LakeError: An export cannot be read, and ``unread`` is ``None``.
        LedgerError: The ledger cannot be used.
    """
    if past is None:
        scores = _scores(stores, now, name, _export(stores, AGENT_SCORES, unread), waiting)
        known = _export(stores, REPUTATION_SCORES, unread)
    else:
        scores = scored_agents(past, now, [] if name is None else [name])
        known = past.scores_as_of(now)
    rows = scores.join(known.drop("score_7d_ago", "score_30d_ago"), on="identity_id", how="left")
    change = pl.col("score") - pl.col("score_30d_ago")
    return AGENT_LISTING.newest_first(
        rows.with_columns(change=change).select(AGENTS.schema.names())
    )


def score_cell(row: Mapping[str, Any]) -> str:
    """Return the score of an agent, or how many of the evaluations that it needs there are."""
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
    name: str | None,
    exported: pl.DataFrame,
    waiting: Collection[SessionKey],
) -> pl.DataFrame:
    """Return AGENT_SCORES with evaluations that are not exported yet."""
    if name is None:
        not_exported = SubmittedEvaluations(stores.ledger).agents_waiting()
        newer = list({*not_exported, *agents_of_sessions(stores, waiting)})
    else:
        exported = exported.filter(agent_id=name)
        newer = [(owner, name) for owner in agent_organizations(stores, name)]
    windows = [agent_window(stores, agent, now, waiting) for agent in newer]
    window = pl.concat([AGENT_WINDOWS.no_rows, *windows])
    before = exported.select(*AGENT_SCORES.key, earlier="score_30d_ago")
    new = (
        withheld(agent_ratings(window, window.clear(), now))
        .join(before, on=AGENT_SCORES.key, how="left")
        .with_columns(score_30d_ago="earlier")
    )
    keys = pl.DataFrame(newer, dict.fromkeys(AGENT_SCORES.key, pl.String), orient="row")
    others = exported.join(keys, on=AGENT_SCORES.key, how="anti")
    return pl.concat([others, new.select(exported.columns)])
