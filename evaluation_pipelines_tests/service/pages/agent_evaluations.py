"""Evaluations of agents, and what a refresh of reputation makes of them."""

from datetime import datetime, timedelta

import polars as pl

from evaluation_pipelines.reputation.domain.agent_rating import agent_ratings, withheld
from evaluation_pipelines.reputation.domain.signals import agent_session_evaluations
from evaluation_pipelines.reputation.submitted import SubmittedEvaluation, SubmittedEvaluations
from evaluation_pipelines.schemas import (
    AGENT_SCORES,
    AGENT_SESSIONS,
    AGENT_WINDOWS,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace


def evaluate(workplace: Workplace, organization: str, agent: str, number: int) -> None:
    """Submit evaluations of an agent, one a minute; every tenth has failed."""
    store = SubmittedEvaluations(workplace.ledger)
    for place in range(number):
        sent = SubmittedEvaluation(
            organization,
            agent,
            passed=place % 10 != 0,
            evaluation_id=f"{agent}-{place}",
            evaluated_at=NOW - timedelta(minutes=number - place),
            latency_ms=40.0,
            model=None,
        )
        store.add(sent, "gate", NOW)


def export_agents(workplace: Workplace, now: datetime = NOW) -> None:
    """Write what a refresh of reputation would: scores and windows of the sessions' agents."""
    lake = workplace.lake
    days = lake.partitions(SESSION_EVALUATIONS)
    key = ["organization_id", "session_key"]
    latency = lake.read(AGENT_SESSIONS, days, [*key, "mean_api_ms"])
    rows = lake.read(SESSION_EVALUATIONS, days).join(latency, on=key)
    evaluations = agent_session_evaluations(rows.with_columns(is_terminal=True))
    of_agent = pl.len().over("organization_id", "agent_id").cast(pl.Int64)
    windows = evaluations.with_columns(evaluations_in_all=of_agent).select(
        AGENT_WINDOWS.schema.names()
    )
    lake.write(windows.sort(AGENT_WINDOWS.order), AGENT_WINDOWS, None)
    lake.write(withheld(agent_ratings(windows, windows.clear(), now)), AGENT_SCORES, None)
