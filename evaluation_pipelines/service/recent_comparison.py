"""Comparisons of models, computed in the background."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from fastapi.requests import HTTPConnection

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_EVALUATIONS
from evaluation_pipelines.service.gateway.comparison import compared
from evaluation_pipelines.service.recent_results import RecentResults
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class Asked:
    """What to compare.

    Attributes:
        organization: One organization; ``None`` for all.
        label: One label; ``None`` for all.
        span: Beginning and end; ``None`` in both for the last 28 complete days.
    """

    organization: str | None = None
    label: str | None = None
    span: tuple[datetime | None, datetime | None] = (None, None)


RecentComparison: TypeAlias = RecentResults[Asked, Comparison]


def recent_comparison_of(connection: HTTPConnection) -> RecentComparison:
    """Return the comparisons of the service of a request; a dependency of routes."""
    recent: RecentComparison = connection.app.state.recent_comparison
    return recent


def recent_comparison(stores: Stores) -> RecentComparison:
    """Return the comparisons that are asked for last.

    To get one raises EmptyTimeRangeError if the range ends before it begins, and LakeError.
    """

    def compute(asked: Asked, now: datetime) -> Comparison:
        return compared(stores, asked.organization, asked.label, asked.span, now)

    return RecentResults("comparison", stores.lake, (AGENT_SESSIONS, SESSION_EVALUATIONS), compute)
