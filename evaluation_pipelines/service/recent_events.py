"""Events of the sessions that were looked at last: all their pages need the same."""

from collections import OrderedDict
from datetime import date, datetime
from threading import Lock
from typing import TypeAlias

from fastapi.requests import HTTPConnection

from evaluation_pipelines.scorecards.review_material import SessionEvents, session_events
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.storage.ledger.rebuild_queue import expired_dates
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.by_date import OfVersion

_MOST_BYTES = 64 * 2**20
_BYTES_EACH = 2**16
"""What a frame takes in addition to its data; this also limits how many there are."""

_Key: TypeAlias = tuple[str, str, str, date, str | None]
_Known: TypeAlias = OrderedDict[_Key, SessionEvents]


class RecentEvents:
    """Events of sessions as of the current parts of the lake; threads may share one.

    When a part has changed, whatever it holds, all are read again: nothing erased is shown.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OfVersion[_Known] = OfVersion(lambda _lake: OrderedDict())

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


def recent_events_of(connection: HTTPConnection) -> RecentEvents:
    """Return the events that the service of a request has read."""
    events: RecentEvents = connection.app.state.recent_events
    return events


def _keep(known: _Known, key: _Key, found: SessionEvents) -> None:
    """Keep the events of a session, and of those before it what there is room for."""
    known[key] = found
    room = _MOST_BYTES
    for each in reversed(list(known)):
        room -= int(known[each].events.estimated_size()) + _BYTES_EACH
        if room < 0:
            del known[each]
