"""What a service keeps in memory: rows of lists, and results that are asked for repeatedly."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from threading import Lock
from typing import TypeAlias

from fastapi.requests import HTTPConnection

from evaluation_pipelines.attention.domain.facts import Examined
from evaluation_pipelines.attention.gather import examine
from evaluation_pipelines.comparison.compare_models import compare_models, last_days
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.measure import judge_changes
from evaluation_pipelines.reporting.agent_changes import AgentChanges, AgentTimes, agent_changes
from evaluation_pipelines.reporting.compared_tables import COMPARED, ComparedTables
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.scorecards.review_material import SessionEvents, session_events
from evaluation_pipelines.scorecards.scorecard_queries import EmptyTimeRangeError
from evaluation_pipelines.service.recent_results import RecentResults
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.storage.ledger.rebuild_queue import expired_dates
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.by_date import OfVersion
from evaluation_pipelines.views.sessions import Sessions
from evaluation_pipelines.views.tools import ToolCalls

BUILD_PATIENCE_S = 3.0
"""Seconds that an answer waits for a day that is being built."""

_EXAMINED_FOR_S = 60
_MOST_DAYS = 8
"""Days that are kept: a day of 100 000 sessions takes some 60 MB."""

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
    """

    organization: str | None = None
    label: str | None = None
    span: tuple[datetime | None, datetime | None] = (None, None)


class ComparedDays:
    """Compared tables of days; threads may share one.

    The books themselves are made for each request: they depend on the ledger, too.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[date, tuple[_Files, ComparedTables]] = OrderedDict()

    def read(self, stores: Stores, days: Sequence[date]) -> Mapping[date, ComparedTables]:
        """Return the tables of days; as ``ComparedTables.read``."""
        return {day: self._of(stores, day) for day in days}

    def _of(self, stores: Stores, day: date) -> ComparedTables:
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


def kept_of(connection: HTTPConnection) -> Kept:
    """Return what the service of a request keeps; a dependency of routes."""
    kept: Kept = connection.app.state.kept
    return kept


def compared(stores: Stores, asked: Asked, now: datetime) -> Comparison:
    """Compare the models that are asked for.

    Raises:
        EmptyTimeRangeError: The range ends before it begins.
        LakeError: A file cannot be read.
    """
    since, until = asked.span
    last = last_days(now)[1] if until is None else until
    first = last_days(last)[0] if since is None else since
    if first >= last:
        raise EmptyTimeRangeError("from must be before to")
    margin = stores.settings.comparison_margin
    question = Question(
        first, last, label=asked.label, organization=asked.organization, margin=margin
    )
    return compare_models(stores, question, now)


def _keep(known: _Events, key: _Key, found: SessionEvents) -> None:
    """Keep the events of a session, and of those before it what there is room for."""
    known[key] = found
    room = _MOST_BYTES
    for each in reversed(list(known)):
        room -= int(known[each].events.estimated_size()) + _BYTES_EACH
        if room < 0:
            del known[each]
