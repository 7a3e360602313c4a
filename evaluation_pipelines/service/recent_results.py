"""Results that take a page too long, computed in the background when their data has changed."""

import asyncio
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotReadyError
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock, get_native_id
from typing import Generic, TypeAlias, TypeVar

from starlette.concurrency import run_in_threadpool

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.views.by_date import OfVersion

PATIENCE_S = 0.1
"""How long a page waits for a result: it takes seconds where there are many sessions."""

_ANSWER_PATIENCE_S = 60.0
"""How long an answer that is nothing but a result waits for it."""

MOST_KNOWN = 32
_NICER = 10
_DAY_S = 86_400

_Asked = TypeVar("_Asked", bound=Hashable)
_Result = TypeVar("_Result")
_State: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class _Known(Generic[_Result]):
    """A result: of which state, what it was before, and who waits for it without a thread."""

    state: _State
    computed: Future[_Result]
    before: _Result | None = None
    waiting: set[object] = field(default_factory=set)


class RecentResults(Generic[_Asked, _Result]):
    """Answers to the questions that were asked last; threads may share one.

    Args:
        name: Name of the thread.
        lake: The lake.
        tables: Answers are computed again when one of these tables has other files.
        compute: Answers a question as of a time.
        most_known: Number of answers to keep.
        lasts_s: Answers are computed again in each such time; by default on a new UTC day.
    """

    def __init__(
        self,
        name: str,
        lake: Lake,
        tables: Sequence[Table],
        compute: Callable[[_Asked, datetime], _Result],
        most_known: int = MOST_KNOWN,
        lasts_s: int = _DAY_S,
    ) -> None:
        self._lake, self._compute = lake, compute
        self._most_known, self._lasts_s = most_known, lasts_s
        self._files = OfVersion(lambda lake: _paths(lake, tables))
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1, name, _give_way)
        self._known: OrderedDict[_Asked, _Known[_Result]] = OrderedDict()

    def get(self, asked: _Asked, now: datetime, patience_s: float = PATIENCE_S) -> _Result | None:
        """Return an answer; raises what ``compute`` raises.

        While a new one is computed it is the one of before, and ``None`` if there is none.
        """
        known = self._asked_for(asked, now)
        try:
            return known.computed.result(patience_s)
        except NotReadyError:
            return known.before

    async def answer(self, asked: _Asked, now: datetime) -> _Result:
        """Return an answer when it is computed, once for all who ask; raises what ``get`` raises.

        No thread waits for it meanwhile: those are for pages.

        Raises:
            ServiceError: 503, it takes too long.
        """
        waiter = object()
        known = await run_in_threadpool(self._asked_for, asked, now, waiter)
        computed = asyncio.wrap_future(known.computed)
        try:
            await asyncio.wait([computed], timeout=_ANSWER_PATIENCE_S)
        finally:
            known.waiting.discard(waiter)
        if not computed.done() or computed.cancelled():
            raise ServiceError(
                503,
                "not_computed_yet",
                "It takes long to compute this, and others have asked as well.",
                "Try again in a minute.",
                {"Retry-After": "60"},
            )
        return computed.result()

    def _asked_for(
        self, asked: _Asked, now: datetime, waiter: object | None = None
    ) -> _Known[_Result]:
        with self._lock:
            known = self._refreshed(asked, now)
            if waiter is not None:
                known.waiting.add(waiter)
            return known

    def _refreshed(self, asked: _Asked, now: datetime) -> _Known[_Result]:
        state = (now.timestamp() // self._lasts_s, self._files.of(self._lake))
        known = self._known.get(asked)
        if known is None or known.state != state or _has_failed(known):
            before = _result(known) if known else None
            computed = self._worker.submit(self._compute, asked, now)
            known = self._known[asked] = _Known(state, computed, before)
        self._known.move_to_end(asked)
        if len(self._known) > self._most_known:
            oldest = self._known.popitem(last=False)[1]
            if not oldest.waiting:
                oldest.computed.cancel()
        return known


def _paths(lake: Lake, tables: Sequence[Table]) -> tuple[str, ...]:
    return tuple(part.path for table in tables for part in lake.parts(table))


def _give_way() -> None:
    """Lower the priority of this thread, so that pages are answered first."""
    if sys.platform == "linux":  # elsewhere a priority is that of the whole process
        thread = get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICER)


def _has_failed(known: _Known[_Result]) -> bool:
    return known.computed.done() and known.computed.exception() is not None


def _result(known: _Known[_Result]) -> _Result | None:
    """Return the newest answer that is computed."""
    is_computed = known.computed.done() and not _has_failed(known)
    return known.computed.result() if is_computed else known.before
