"""Every session in memory: what is read again, and when."""

from datetime import date

import polars as pl
import pytest

from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.service import session_table
from evaluation_pipelines.service.session_table import SessionTable
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import DAY_S, session


def test_only_dates_with_new_files_are_read_again(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[date] = []
    whole = session_table._read

    def noted(lake: Lake, day: date) -> pl.DataFrame:
        read.append(day)
        return whole(lake, day)

    monkeypatch.setattr(session_table, "_read", noted)
    table = SessionTable(workplace.stores)
    assert table.rows().is_empty()
    fill(workplace, session("one"), session("two", DAY_S))
    assert table.rows()["session_id"].to_list() == ["two", "one"]  # the newest first
    assert table.rows()["session_id"].to_list() == ["two", "one"]
    assert read == workplace.lake.partitions(AGENT_SESSIONS)
    workplace.land("more.jsonl", session("three", DAY_S + 60))
    workplace.ingest()
    workplace.build()
    assert table.rows()["session_id"].to_list() == ["three", "two", "one"]
    assert [each.day for each in read] == [1, 2, 2]


def test_the_dates_of_sessions_are_those_that_meet_a_condition(workplace: Workplace) -> None:
    fill(workplace, session("one"), session("two", DAY_S))
    table, every = SessionTable(workplace.stores), pl.lit(value=True)
    first, second = workplace.lake.partitions(AGENT_SESSIONS)
    assert sorted(table.dates(pl.all_horizontal(every, every & every))) == [first, second]
    assert table.dates(pl.col("session_id") == "two") == [second]
    assert table.dates(pl.col("session_id") == "three") == []
