"""Changes of judges with their bridges, measured in the background."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.measure import judge_changes
from evaluation_pipelines.schemas import JUDGE_ANCHORS, JUDGE_CHANGES, JUDGE_SCORES
from evaluation_pipelines.service.recent_results import RecentResults
from evaluation_pipelines.storage.stores import Stores

ALL_CHANGES = "all"
"""The only question."""

RecentJudgeChanges: TypeAlias = RecentResults[str, Sequence[JudgeChange]]


def recent_judge_changes(stores: Stores) -> RecentJudgeChanges:
    """Return all changes of judges; to get them raises LakeError and LedgerError."""

    def compute(_all: str, now: datetime) -> Sequence[JudgeChange]:
        return judge_changes(stores, now)

    tables = (JUDGE_CHANGES, JUDGE_ANCHORS, JUDGE_SCORES)
    return RecentResults("judge changes", stores.lake, tables, compute)
