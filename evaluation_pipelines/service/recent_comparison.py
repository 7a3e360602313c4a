"""The usual comparison of models, computed in the background when its sessions have changed."""

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

_State: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class _Known:
    """The comparison of one organization: of which state, and what it was before."""

    state: _State
    computed: Future[Comparison]
    before: Comparison | None = None


class RecentComparison:
    """Comparisons of the last 28 complete days, one for each organization that asks."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1, "comparison")
        self._known: dict[str | None, _Known] = {}

    def get(
        self, organization: str | None, now: datetime, patience_s: float = PATIENCE_S
    ) -> Comparison | None:
        """Return the comparison of an organization, or of all.

        While a new one is computed it is the one of before, and ``None`` if there is none.

        Raises:
            LakeError: A file cannot be read.
        """
        with self._lock:
            known = self._refreshed(organization, now)
        try:
            return known.computed.result(patience_s)
        except NotReadyError:
            return known.before

    def _refreshed(self, organization: str | None, now: datetime) -> _Known:
        state = (now.date(), self._files())
        known = self._known.get(organization)
        if known is None or known.state != state:
            before = _result(known) if known else None
            computed = self._worker.submit(
                compared, self._stores, organization, None, (None, None), now
            )
            known = _Known(state, computed, before)
            self._known[organization] = known
        return known

    def _files(self) -> tuple[str, ...]:
        lake = self._stores.lake
        tables = (AGENT_SESSIONS, SESSION_EVALUATIONS)
        return tuple(part.path for table in tables for part in lake.parts(table))


def _result(known: _Known) -> Comparison | None:
    """Return the newest comparison that is computed."""
    is_computed = known.computed.done() and known.computed.exception() is None
    return known.computed.result() if is_computed else known.before
