"""What a service keeps of the lake in memory: what is read again, and what is forgotten."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

import polars as pl
import pytest

from evaluation_pipelines.erasure.expire import Expire
from evaluation_pipelines.reporting.books import ComparedTables, settled_books
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.audit_review import SessionEvents, session_events
from evaluation_pipelines.service import kept
from evaluation_pipelines.service.kept import ComparedDays, RecentEvents
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line

FIRST = date(2026, 6, 1)
SECOND, THIRD = FIRST + timedelta(days=1), FIRST + timedelta(days=2)


def land(workplace: Workplace, session: str, second: int = 0, name: str = "user_prompt") -> None:
    record = claude(name, second, session__id=session, prompt="Fix the login test.")
    workplace.land(f"{session}-{second}.jsonl", line(record))
    workplace.ingest()
    workplace.build()


def session_of(workplace: Workplace, name: str) -> SessionRow:
    rows = workplace.stores.lake.read(AGENT_SESSIONS, [FIRST], where=pl.col("session_id") == name)
    return rows.row(0, named=True)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the sessions that are read from the lake."""
    found: list[str] = []

    def noted(stores: Stores, session: SessionRow, now: datetime) -> SessionEvents | None:
        found.append(session["session_id"])
        return session_events(stores, session, now)

    monkeypatch.setattr(kept, "session_events", noted)
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
    one, two = (session_of(workplace, name) for name in ("one", "two"))
    found = session_events(workplace.stores, one, NOW)
    assert found is not None
    room = int(found.events.estimated_size()) + kept._BYTES_EACH
    monkeypatch.setattr(kept, "_MOST_BYTES", room + room // 2)
    recent = RecentEvents()
    for query in (one, two, two, one):  # there is room for one of them
        recent.read(workplace.stores, query, NOW)
    assert read == ["one", "two", "one"]
    monkeypatch.setattr(kept, "_MOST_BYTES", room - 1)
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


def build(workplace: Workplace, file: str, *sessions: tuple[str, int]) -> None:
    lines = (line(claude("user_prompt", second, session__id=name)) for name, second in sessions)
    workplace.land(file, b"".join(lines))
    workplace.ingest()
    workplace.build()


@pytest.fixture
def days_read(monkeypatch: pytest.MonkeyPatch) -> list[date]:
    """The days whose tables are read from the lake."""
    found: list[date] = []
    whole = ComparedTables.read

    def noted(stores: Stores, days: Sequence[date]) -> dict[date, ComparedTables]:
        found.extend(days)
        return whole(stores, days)

    monkeypatch.setattr(ComparedTables, "read", noted)
    return found


def test_a_day_is_read_once_until_it_has_other_files(
    workplace: Workplace, days_read: list[date]
) -> None:
    build(workplace, "first.jsonl", ("one", 0), ("two", DAY_S))
    days_read.clear()
    stores, days = workplace.stores, ComparedDays()

    def books(day: date) -> tuple[int, bool]:
        found = settled_books(stores, day, NOW, read=days.read)
        return found.sessions.height, found.is_balanced

    assert [books(FIRST), books(FIRST), books(SECOND)] == [(1, True)] * 3
    assert days_read == [FIRST, SECOND]
    build(workplace, "more.jsonl", ("three", 100))
    days_read.clear()
    assert [books(FIRST), books(FIRST), books(SECOND)] == [(2, True), (2, True), (1, True)]
    assert days_read == [FIRST]


def test_the_days_that_were_asked_for_last_are_kept(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, days_read: list[date]
) -> None:
    build(workplace, "first.jsonl", ("one", 0), ("two", DAY_S), ("three", 2 * DAY_S))
    days_read.clear()
    monkeypatch.setattr(kept, "_MOST_DAYS", 2)
    days = ComparedDays()
    for day in (FIRST, SECOND, FIRST, THIRD, FIRST, SECOND):  # the third takes the second's place
        assert days.read(workplace.stores, [day])[day].windows.height == 1
    assert days_read == [FIRST, SECOND, THIRD, SECOND]
