"""Whether agents are getting better: their recent scores against those just before.

Pages and the digest ask here, so that one question has one answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from evaluation_pipelines.comparison.domain.before_after import BeforeAfter, Days, before_after
from evaluation_pipelines.comparison.domain.runs import RUNS, runs_of
from evaluation_pipelines.judge_changes.domain.judges import on_newest_scale
from evaluation_pipelines.reputation.domain.signals import AGENT_NAME
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    JUDGE_CHANGES,
    SESSION_EVALUATIONS,
    SESSION_KEY,
)
from evaluation_pipelines.scorecards.domain.withheld import SessionKey, withhold
from evaluation_pipelines.storage.lake import Lake

AGENT = ("organization_id", "agent_name")
"""Columns of :func:`scored_runs` that name an agent."""

_NAME = AGENT_NAME.alias("agent_name")

AgentKey: TypeAlias = tuple[str, str]
"""Organization and name of an agent: agents of one name in two organizations are two."""

AgentChanges: TypeAlias = Mapping[AgentKey, BeforeAfter]


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """What to compare.

    Attributes:
        organization: One organization; ``None`` for all.
        agent: Name of one agent; ``None`` for all.
        choices: The recent and the former days, by preference.
        withheld: Sessions whose scores are left out, since the visitor may review them blind.
    """

    organization: str | None
    agent: str | None
    choices: tuple[tuple[Days, Days], ...]
    withheld: frozenset[SessionKey] = frozenset()


def agent_changes(lake: Lake, asked: AgentTimes) -> AgentChanges:
    """Compare the scores of the agents of each organization with those before.

    Agents without a session in these days are left out.

    Raises:
        LakeError: A file cannot be read.
    """
    found = changes_by(scored_runs(lake, asked), AGENT, asked.choices)
    return {(owner, name): after for (owner, name), after in found.items()}


def scored_runs(lake: Lake, asked: AgentTimes) -> pl.DataFrame:
    """Return RUNS of these days on the scale of the newest judge, with ``agent_name``.

    Raises:
        LakeError: A file cannot be read.
    """
    ends = [day for times in asked.choices for days in times for day in days]
    of_days = pl.col("session_date").is_between(min(ends), max(ends))
    owner, name = asked.organization, asked.agent
    of_owner = pl.lit(value=True) if owner is None else pl.col("organization_id") == owner
    of_agent = pl.lit(value=True) if name is None else AGENT_NAME.eq(name)
    sessions = lake.select(AGENT_SESSIONS, of_days, of_agent, of_owner)
    evaluations = lake.select(SESSION_EVALUATIONS, of_days, of_owner)
    shown = withhold(evaluations.join(sessions, on=SESSION_KEY, how="semi"), asked.withheld)
    runs = on_one_scale(runs_of(shown, sessions), lake.read_whole(JUDGE_CHANGES))
    return runs.join(sessions.select(*SESSION_KEY, _NAME), on=SESSION_KEY)


def changes_by(
    runs: pl.DataFrame, columns: Sequence[str], choices: Sequence[tuple[Days, Days]]
) -> dict[tuple[str, ...], BeforeAfter]:
    """Compare the scores of runs with those before, for each value of some columns.

    Args:
        runs: Rows of :func:`scored_runs`.
        columns: Columns without unknown values that count; rows with one are left out.
        choices: The recent and the former days, by preference.
    """
    parts = runs.drop_nulls(columns).partition_by(columns, as_dict=True, maintain_order=True)
    return {tuple(map(str, key)): before_after(rows, choices) for key, rows in parts.items()}


def on_one_scale(runs: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Return RUNS on the scale of the newest judge; cut trends keep earlier runs separate."""
    day = pl.col("started_at").dt.date()
    rows = runs.with_columns(
        session_date=day, effective_100="score", automatic_judge_model="judge_model"
    )
    scaled, turns = on_newest_scale(rows, changes)
    cuts = [turn.changed_on for turn in turns if turn.shift is None]
    eras: Sequence[pl.Expr] = [(day >= cut).cast(pl.Int64) for cut in cuts]
    is_judged = pl.col("judge_model").is_not_null()
    era = pl.when(is_judged).then(pl.sum_horizontal(pl.lit(0), *eras)).otherwise(0)
    kind = pl.concat_str(pl.col("task_class").fill_null(""), era.cast(pl.String), separator="\0")
    return scaled.with_columns(task_class=kind).select(RUNS.names())
