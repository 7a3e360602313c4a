"""What the books of days compare, in memory: what is read again, and what is forgotten."""

from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from evaluation_pipelines.reporting.compared_tables import ComparedTables
from evaluation_pipelines.reporting.reconciliation import settled_books
from evaluation_pipelines.service import compared_days
from evaluation_pipelines.service.compared_days import ComparedDays
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line

FIRST = date(2026, 6, 1)
SECOND, THIRD = FIRST + timedelta(days=1), FIRST + timedelta(days=2)


def build(workplace: Workplace, file: str, *sessions: tuple[str, int]) -> None:
    lines = (line(claude("user_prompt", second, session__id=name)) for name, second in sessions)
    workplace.land(file, b"".join(lines))
    workplace.ingest()
    workplace.build()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[date]:
    """The days whose tables are read from the lake."""
    found: list[date] = []
    whole = ComparedTables.read

    def noted(stores: Stores, days: Sequence[date]) -> dict[date, ComparedTables]:
        found.extend(days)
        return whole(stores, days)

    monkeypatch.setattr(ComparedTables, "read", noted)
    return found


def test_a_day_is_read_once_until_it_has_other_files(
    workplace: Workplace, read: list[date]
) -> None:
    build(workplace, "first.jsonl", ("one", 0), ("two", DAY_S))
    read.clear()
    stores, days = workplace.stores, ComparedDays()

    def books(day: date) -> tuple[int, bool]:
        found = settled_books(stores, day, NOW, read=days.read)
        return found.sessions.height, found.is_balanced

    assert [books(FIRST), books(FIRST), books(SECOND)] == [(1, True)] * 3
    assert read == [FIRST, SECOND]
    build(workplace, "more.jsonl", ("three", 100))
    read.clear()
    assert [books(FIRST), books(FIRST), books(SECOND)] == [(2, True), (2, True), (1, True)]
    assert read == [FIRST]


def test_a_day_without_telemetry_has_empty_books(workplace: Workplace) -> None:
    days = ComparedDays()
    found = settled_books(workplace.stores, FIRST, NOW, read=days.read)
    assert (found.sessions.height, found.is_balanced) == (0, True)


def test_the_days_that_were_asked_for_last_are_kept(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, read: list[date]
) -> None:
    build(workplace, "first.jsonl", ("one", 0), ("two", DAY_S), ("three", 2 * DAY_S))
    read.clear()
    monkeypatch.setattr(compared_days, "_MOST_DAYS", 2)
    days = ComparedDays()
    for day in (FIRST, SECOND, FIRST, THIRD, FIRST, SECOND):  # the third takes the second's place
        assert days.read(workplace.stores, [day])[day].windows.height == 1
    assert read == [FIRST, SECOND, THIRD, SECOND]
