"""Whether an agent is getting better: its scores of late against those just before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import polars as pl

from evaluation_pipelines.comparison.domain.before_after import BeforeAfter, Days, before_after
from evaluation_pipelines.comparison.domain.runs import RUNS, runs_of
from evaluation_pipelines.judge_changes.domain.scale import on_newest_scale
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    JUDGE_CHANGES,
    SESSION_EVALUATIONS,
    SESSION_KEY,
)
from evaluation_pipelines.service.recent_results import RecentResults
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores

AGENT_NAME = pl.coalesce("agent_id", "source_cli", pl.lit("unknown"))
"""Name of the agent of a session, as its evaluation has it."""


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """An agent, and the recent and the former days to compare, by preference."""

    organization: str
    agent: str
    choices: tuple[tuple[Days, Days], ...]


RecentAgentChanges: TypeAlias = RecentResults[AgentTimes, BeforeAfter]


def recent_agent_changes(stores: Stores) -> RecentAgentChanges:
    """Return the changes of agents that are asked for last; to get one raises LakeError."""

    def compute(asked: AgentTimes, _now: datetime) -> BeforeAfter:
        return agent_change(stores.lake.snapshot(), asked)

    tables = (AGENT_SESSIONS, SESSION_EVALUATIONS, JUDGE_CHANGES)
    return RecentResults("agents", stores.lake, tables, compute)


def agent_change(lake: Lake, asked: AgentTimes) -> BeforeAfter:
    """Compare the scores of an agent with those before.

    Raises:
        LakeError: A file cannot be read.
    """
    ends = [day for times in asked.choices for days in times for day in days]
    is_asked = pl.col("session_date").is_between(min(ends), max(ends))
    sessions = lake.select(
        AGENT_SESSIONS, is_asked, AGENT_NAME.eq(asked.agent), _is_of(asked.organization)
    )
    evaluations = lake.select(SESSION_EVALUATIONS, is_asked, _is_of(asked.organization))
    runs = runs_of(evaluations.join(sessions, on=SESSION_KEY, how="semi"), sessions)
    return before_after(on_one_scale(runs, lake.read_whole(JUDGE_CHANGES)), asked.choices)


def _is_of(name: str) -> pl.Expr:
    """Return whether a row is of an organization."""
    return pl.col("organization_id") == name


def on_one_scale(runs: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Return RUNS on the scale of the newest judge; cut trends keep runs of before apart."""
    day = pl.col("started_at").dt.date()
    rows = runs.with_columns(session_date=day, effective_100="score")
    scaled, turns = on_newest_scale(rows, changes)
    cuts = [each.changed_on for each in turns if each.shift is None]
    eras: Sequence[pl.Expr] = [(day >= cut).cast(pl.Int64) for cut in cuts]
    is_judged = pl.col("judge_model").is_not_null()
    era = pl.when(is_judged).then(pl.sum_horizontal(pl.lit(0), *eras)).otherwise(0)
    kind = pl.concat_str(pl.col("task_class").fill_null(""), era.cast(pl.String), separator="\0")
    return scaled.with_columns(task_class=kind).select(RUNS.names())
