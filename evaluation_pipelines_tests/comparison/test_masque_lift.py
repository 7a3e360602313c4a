"""The table of masque lift: ended sessions of all dates, replaced as a whole."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.masque_lift import compare_masques, write_masque_lift
from evaluation_pipelines.schemas import AGENT_SESSIONS, MASQUE_LIFT
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, session

NOON = datetime.fromisoformat("2026-06-01T12:00:00+00:00")


def fill(workplace: Workplace) -> None:
    """Build a session of Scout and one without a masque on each of two days."""
    for day in range(2):
        masques: dict[str, dict[str, Any]] = {"scout": {"masque__name": "Scout"}, "none": {}}
        for name, worn in masques.items():
            workplace.land("logs.jsonl", session(f"{name}-{day}", day * DAY_S, **worn), "ab")
    workplace.ingest()
    workplace.build()


def counts(workplace: Workplace, now: datetime, *dates: date) -> list[Any]:
    """Return the sessions on either side, of some dates or of all."""
    lake = workplace.lake
    chosen = dates or lake.partitions(AGENT_SESSIONS)
    lift = compare_masques(lake, workplace.settings, now, chosen)
    return lift.select("sessions", "baseline_sessions").rows()


def test_all_dates_are_compared_or_some(workplace: Workplace) -> None:
    fill(workplace)

    assert counts(workplace, NOW) == [(2, 2)]
    assert counts(workplace, NOW, NOON.date()) == [(1, 1)]


def test_open_sessions_are_left_out(workplace: Workplace) -> None:
    fill(workplace)
    # The sessions of the second day end one second after noon, and count half an hour later.
    second = NOON + timedelta(days=1, minutes=30)

    assert counts(workplace, second) == [(1, 1)]
    assert counts(workplace, second + timedelta(seconds=2)) == [(2, 2)]


def test_the_table_is_one_file_that_is_replaced(workplace: Workplace) -> None:
    assert write_masque_lift(workplace.stores, NOW).is_empty()
    fill(workplace)
    written = write_masque_lift(workplace.stores, NOW)

    assert pl.read_parquet(Path(workplace.lake.place(MASQUE_LIFT, None))).equals(written)
    assert written["composite_state"].to_list() == ["not yet: 2 of 5"]
