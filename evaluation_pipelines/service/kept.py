"""What a service keeps in memory: rows of lists, and results that are asked for repeatedly."""

import asyncio
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotReadyError
from dataclasses import dataclass, field
from datetime import date, datetime
from threading import Lock, get_native_id
from typing import Generic, TypeAlias, TypeVar

from fastapi.requests import HTTPConnection
from starlette.concurrency import run_in_threadpool

from evaluation_pipelines.attention.domain.items import Examined
from evaluation_pipelines.attention.gather import examine
from evaluation_pipelines.comparison.compare_models import compare_models, last_days
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.comparison.domain.groups import BY_MODEL, grouping
from evaluation_pipelines.judge_changes.anchors import judge_changes
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.reporting.agent_changes import AgentChanges, AgentTimes, agent_changes
from evaluation_pipelines.reporting.books import COMPARED, ComparedTables
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
    SESSION_EVALUATIONS,
    Table,
)
from evaluation_pipelines.scorecards.audit_review import SessionEvents, session_events
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.scorecards.scorecard_queries import EmptyTimeRangeError
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.rebuild_queue import expired_dates
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.sessions import OfVersion, Sessions
from evaluation_pipelines.views.tool_calls import ToolCalls

BUILD_PATIENCE_S = 3.0
"""Seconds that an answer waits for a day that is being built."""

_EXAMINED_FOR_S = 60
_MOST_DAYS = 8
"""Days that are kept: a day of 100,000 sessions takes some 60 MB."""

_MOST_BYTES = 64 * 2**20
_BYTES_EACH = 2**16
"""What a frame takes in addition to its data; this also limits how many there are."""

_Files: TypeAlias = tuple[str, ...]
_Key: TypeAlias = tuple[str, str, str, date, str | None]
_Events: TypeAlias = OrderedDict[_Key, SessionEvents]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to compare.

    Attributes:
        organization: One organization; ``None`` for all.
        label: One label; ``None`` for all.
        span: Beginning and end; ``None`` in both for the last 28 complete days.
        by: Name of a grouping.
    """

    organization: str | None = None
    label: str | None = None
    span: tuple[datetime | None, datetime | None] = (None, None)
    by: str = BY_MODEL.by


class ComparedDays:
    """Compared tables of days; threads may share one.

    The books themselves are made for each request: they depend on the ledger, too.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[date, tuple[_Files, ComparedTables]] = OrderedDict()

    def read(self, stores: Stores, days: Sequence[date]) -> Mapping[date, ComparedTables]:
        """Return the tables of days; as ``ComparedTables.read``."""
        return {day: self._day_tables(stores, day) for day in days}

    def _day_tables(self, stores: Stores, day: date) -> ComparedTables:
        # Before the tables: files that come after it are read once more the next time.
        files = tuple(part.path for table in COMPARED for part in stores.lake.parts(table, [day]))
        with self._lock:
            known_files, tables = self._known.get(day, (None, None))
        if tables is None or known_files != files:
            tables = ComparedTables.read(stores, [day])[day]
        with self._lock:
            self._known[day] = (files, tables)
            self._known.move_to_end(day)
            while len(self._known) > _MOST_DAYS:
                self._known.popitem(last=False)
        return tables


class RecentEvents:
    """Events of sessions as of the current parts of the lake; threads may share one.

    When a part has changed, whatever it holds, all are read again: nothing erased is shown.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OfVersion[_Events] = OfVersion(lambda _lake: OrderedDict())

    def read(self, stores: Stores, session: SessionRow, now: datetime) -> SessionEvents | None:
        """Return the events of a session; as ``session_events``."""
        key = (
            *(session["organization_id"], session["session_key"], session["content_hash"]),
            session["session_date"],
            expired_dates(stores.ledger).get(session["session_date"]),
        )
        with self._lock:
            known = self._known.of(stores.lake)
            if key in known:
                known.move_to_end(key)
                return known[key]
        found = session_events(stores, session, now)
        if found is not None and found.expired != "events":
            with self._lock:
                _keep(known, key, found)
        return found


class Kept:
    """What one service keeps; threads may share it.

    Attributes:
        sessions: The relation of sessions.
        tool_calls: The relation of tool calls.
        reviews: The sessions that wait for a blind review.
        compared_days: What the books of the days that were asked for last compare.
        events: Events of the sessions that were looked at last.
        comparisons: Comparisons of models.
        judge_changes: All changes of judges with their bridges, by one question.
        agent_changes: Changes of agents.
        examinations: What the doctor has found in the last minute, by the address of the service.
    """

    def __init__(self, stores: Stores) -> None:
        lake, scored = stores.lake, (AGENT_SESSIONS, SESSION_EVALUATIONS)
        self.sessions, self.tool_calls = Sessions(stores), ToolCalls(stores)
        self.reviews = BlindReviews(stores)
        self.compared_days, self.events = ComparedDays(), RecentEvents()
        self.comparisons = RecentResults[Asked, Comparison](
            "comparison", lake, scored, lambda asked, now: compared(stores, asked, now)
        )
        self.judge_changes = RecentResults[None, Sequence[JudgeChange]](
            "judge changes",
            lake,
            (JUDGE_CHANGES, JUDGE_ANCHORS, JUDGE_SCORES),
            lambda _, now: judge_changes(stores, now),
        )
        self.agent_changes = RecentResults[AgentTimes, AgentChanges](
            "agents",
            lake,
            (*scored, JUDGE_CHANGES),
            lambda asked, _: agent_changes(lake.snapshot(), asked),
        )
        self.examinations = RecentResults[str, Examined](
            "doctor",
            lake,
            (AGENT_EVENTS, AGENT_SESSIONS),
            lambda address, now: examine(stores, now, asks=True, serves_at=address),
            lasts_s=_EXAMINED_FOR_S,
        )

    def warm(self, now: datetime) -> None:
        """Read what most pages show. Raises LakeError and LedgerError."""
        self.sessions.rows(self.reviews.waiting(), now)
        self.comparisons.get(Asked(), now, patience_s=0)


def kept_of(connection: HTTPConnection) -> Kept:
    """Return what the service of a request keeps; a dependency of routes."""
    kept: Kept = connection.app.state.kept
    return kept


def compared(stores: Stores, asked: Asked, now: datetime) -> Comparison:
    """Make a comparison.

    Raises:
        GroupingError: Sessions cannot be compared by this.
        EmptyTimeRangeError: The range ends before it starts.
        LakeError: A file cannot be read.
    """
    since, until = asked.span
    last = last_days(now)[1] if until is None else until
    first = last_days(last)[0] if since is None else since
    if first >= last:
        raise EmptyTimeRangeError("from must be before to")
    by = grouping(asked.by)
    question = Question(
        first,
        last,
        label=asked.label,
        organization=asked.organization,
        margin=stores.settings.comparison_margin,
        nouns=by.nouns,
        by=by,
    )
    return compare_models(stores, question, now)


def _keep(known: _Events, key: _Key, found: SessionEvents) -> None:
    """Keep the events of a session, and of those before it what there is room for."""
    known[key] = found
    room = _MOST_BYTES
    for session in reversed(list(known)):
        room -= int(known[session].events.estimated_size()) + _BYTES_EACH
        if room < 0:
            del known[session]


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

        While a new one is computed it is the previous one, and ``None`` if there is none.
        """
        known = self._entry(asked, now)
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
        known = await run_in_threadpool(self._entry, asked, now, waiter)
        computed = asyncio.wrap_future(known.computed)
        try:
            await asyncio.wait([computed], timeout=_ANSWER_PATIENCE_S)
        finally:
            known.waiting.discard(waiter)
        if not computed.done() or computed.cancelled():
            raise ServiceError(
                503,
                "not_computed_yet",
                "This takes long to compute, and other requests are waiting.",
                "Try again in a minute.",
                {"Retry-After": "60"},
            )
        return computed.result()

    def _entry(self, asked: _Asked, now: datetime, waiter: object | None = None) -> _Known[_Result]:
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
