"""Events of the sessions that were looked at last: when they are read again."""

from dataclasses import replace
from datetime import date, datetime

import polars as pl
import pytest

from evaluation_pipelines.erasure.expire import Expire
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.review_material import SessionEvents, session_events
from evaluation_pipelines.service import recent_events
from evaluation_pipelines.service.recent_events import RecentEvents
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import claude, line

DAY = date(2026, 6, 1)


def land(workplace: Workplace, session: str, second: int = 0, name: str = "user_prompt") -> None:
    record = claude(name, second, session__id=session, prompt="Fix the login test.")
    workplace.land(f"{session}-{second}.jsonl", line(record))
    workplace.ingest()
    workplace.build()


def session_of(workplace: Workplace, name: str) -> SessionRow:
    rows = workplace.stores.lake.read(AGENT_SESSIONS, [DAY], where=pl.col("session_id") == name)
    return rows.row(0, named=True)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the sessions that are read from the lake."""
    found: list[str] = []

    def noted(stores: Stores, session: SessionRow, now: datetime) -> SessionEvents | None:
        found.append(session["session_id"])
        return session_events(stores, session, now)

    monkeypatch.setattr(recent_events, "session_events", noted)
    return found


def names(found: SessionEvents | None) -> list[str]:
    assert found is not None
    return found.events["event_name"].to_list()


def test_a_session_is_read_once_until_a_part_of_the_lake_changes(
    workplace: Workplace, read: list[str]
) -> None:
    land(workplace, "one")
    land(workplace, "two")
    recent, stores = RecentEvents(), workplace.stores
    for name in ("one", "two", "one", "two"):
        assert names(recent.read(stores, session_of(workplace, name), NOW)) == ["user_prompt"]
    assert read == ["one", "two"]
    # A hook is no work: the content of the session stays the same, and the event must be seen.
    before = session_of(workplace, "one")
    land(workplace, "one", 5, "hook_execution_complete")
    assert session_of(workplace, "one")["content_hash"] == before["content_hash"]
    assert len(names(recent.read(stores, session_of(workplace, "one"), NOW))) == 2
    assert read == ["one", "two", "one"]


def test_a_session_that_has_continued_has_no_events_of_its_old_content(
    workplace: Workplace, read: list[str]
) -> None:
    land(workplace, "one")
    recent, before = RecentEvents(), session_of(workplace, "one")
    assert recent.read(workplace.stores, before, NOW) is not None
    land(workplace, "one", 5)
    assert recent.read(workplace.stores, before, NOW) is None
    assert recent.read(workplace.stores, before, NOW) is None
    assert read == ["one"] * 3


def test_what_has_expired_is_no_longer_shown(workplace: Workplace) -> None:
    land(workplace, "one")
    recent, session = RecentEvents(), session_of(workplace, "one")
    found = recent.read(workplace.stores, session, NOW)
    assert found is not None
    assert found.events["content"].to_list() == ["Fix the login test."]
    settings = workplace.settings.model_copy(update={"keep_texts_days": 30})
    expiring = replace(workplace.stores, settings=settings)
    Expire(expiring, clock=lambda: NOW).run()
    left = recent.read(expiring, session, NOW)
    assert left is not None
    assert (left.events["content"].to_list(), left.expired) == ([None], "texts")


def test_what_takes_too_much_memory_is_not_kept(
    workplace: Workplace, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    land(workplace, "one")
    land(workplace, "two")
    one, two = (session_of(workplace, each) for each in ("one", "two"))
    found = session_events(workplace.stores, one, NOW)
    assert found is not None
    room = int(found.events.estimated_size()) + recent_events._BYTES_EACH
    monkeypatch.setattr(recent_events, "_MOST_BYTES", room + room // 2)
    recent = RecentEvents()
    for each in (one, two, two, one):  # there is room for one of them
        recent.read(workplace.stores, each, NOW)
    assert read == ["one", "two", "one"]
    monkeypatch.setattr(recent_events, "_MOST_BYTES", room - 1)
    for _ in range(2):
        recent.read(workplace.stores, two, NOW)
    assert read == ["one", "two", "one", "two", "two"]


def test_sessions_whose_events_have_expired_are_not_kept(
    workplace: Workplace, read: list[str]
) -> None:
    land(workplace, "one")
    session = session_of(workplace, "one")
    settings = workplace.settings.model_copy(update={"keep_events_days": 30})
    expiring, recent = replace(workplace.stores, settings=settings), RecentEvents()
    Expire(expiring, clock=lambda: NOW).run()
    for _ in range(2):
        assert names(recent.read(expiring, session, NOW)) == []
    assert read == ["one", "one"]
