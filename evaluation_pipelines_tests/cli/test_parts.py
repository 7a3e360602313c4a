"""``parts``: the current files of a table."""

import polars as pl

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import session


def test_parts_lists_the_current_files_and_no_other(built_days: Program) -> None:
    before = built_days("publish", "--files", "agent_sessions").out.splitlines()
    built_days.land("logs.jsonl", session("s4", 60), "ab")  # on June 1st
    built_days("ingest")
    built_days("build")
    after = built_days("publish", "--files", "agent_sessions").out.splitlines()

    assert pl.read_parquet(before).height == 3  # for an hour, readers can finish
    assert pl.read_parquet(after)["session_id"].to_list() == ["s0", "s4", "s1", "s2"]
    assert before[1:] == after[1:]
    one = built_days("publish", "--files", "agent_sessions", "--date", "2026-06-01")
    assert (one.code, one.out.splitlines()) == (0, after[:1])


def test_an_unknown_table_is_refused_with_those_there_are(three_days: Program) -> None:
    ran = three_days("publish", "--files", "sessions")
    assert ran.code == 2
    assert "there is no table sessions, only: " in " ".join(ran.err.split())
