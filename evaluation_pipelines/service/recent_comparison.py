"""Comparisons of models, computed in the background when their sessions have changed."""

from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotReadyError
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import TypeAlias

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_EVALUATIONS
from evaluation_pipelines.service.gateway.comparison import compared
from evaluation_pipelines.storage.stores import Stores

PATIENCE_S = 0.1
"""How long a page waits for a comparison: it takes seconds where there are many sessions."""

_MOST_KNOWN = 32

_State: TypeAlias = tuple[object, ...]


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


@dataclass(slots=True)
class _Known:
    """A comparison: of which state, and what it was before."""

    state: _State
    computed: Future[Comparison]
    before: Comparison | None = None


class RecentComparison:
    """Comparisons that were asked for last; threads may share one."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1, "comparison")
        self._known: OrderedDict[Asked, _Known] = OrderedDict()

    def get(self, asked: Asked, now: datetime, patience_s: float = PATIENCE_S) -> Comparison | None:
        """Return a comparison.

        While a new one is computed it is the one of before, and ``None`` if there is none.

        Raises:
            EmptyTimeRangeError: The range ends before it begins.
            LakeError: A file cannot be read.
        """
        with self._lock:
            known = self._refreshed(asked, now)
        try:
            return known.computed.result(patience_s)
        except NotReadyError:
            return known.before

    def _refreshed(self, asked: Asked, now: datetime) -> _Known:
        state = (now.date(), self._files())
        known = self._known.get(asked)
        if known is None or known.state != state or _has_failed(known):
            before = _result(known) if known else None
            computed = self._worker.submit(
                compared, self._stores, asked.organization, asked.label, asked.span, now
            )
            known = self._known[asked] = _Known(state, computed, before)
        self._known.move_to_end(asked)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)[1].computed.cancel()
        return known

    def _files(self) -> tuple[str, ...]:
        lake = self._stores.lake
        tables = (AGENT_SESSIONS, SESSION_EVALUATIONS)
        return tuple(part.path for table in tables for part in lake.parts(table))


def _has_failed(known: _Known) -> bool:
    return known.computed.done() and known.computed.exception() is not None


def _result(known: _Known) -> Comparison | None:
    """Return the newest comparison that is computed."""
    is_computed = known.computed.done() and not _has_failed(known)
    return known.computed.result() if is_computed else known.before
