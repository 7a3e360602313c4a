"""The changes of agents that are asked for last, kept while the tables stay as they are."""

from datetime import datetime
from typing import TypeAlias

from evaluation_pipelines.reporting.agent_changes import AgentChanges, AgentTimes, agent_changes
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_CHANGES, SESSION_EVALUATIONS
from evaluation_pipelines.service.recent_results import RecentResults
from evaluation_pipelines.storage.stores import Stores

RecentAgentChanges: TypeAlias = RecentResults[AgentTimes, AgentChanges]


def recent_agent_changes(stores: Stores) -> RecentAgentChanges:
    """Return the changes of agents that are asked for last; to get one raises LakeError."""

    def compute(asked: AgentTimes, _now: datetime) -> AgentChanges:
        return agent_changes(stores.lake.snapshot(), asked)

    tables = (AGENT_SESSIONS, SESSION_EVALUATIONS, JUDGE_CHANGES)
    return RecentResults("agents", stores.lake, tables, compute)
