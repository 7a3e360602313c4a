"""``publish``: what can be made is published, what cannot is said, and which files are current."""

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.reporting import publish
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import claude, line, session
from evaluation_pipelines_tests.world.built_before import build_by


def sessions(program: Program) -> int:
    link = str(program.folder / "data/analytics.duckdb")
    with duckdb.connect(link, read_only=True) as database:
        return len(database.table("sessions").fetchall())


def test_a_report_that_cannot_be_made_does_not_stop_publishing(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_by(program, session("a"))

    def fails(*_: object) -> None:
        raise ArithmeticError("a number that\x1b[31m was not expected")

    with monkeypatch.context() as patched:
        patched.setattr(publish, "refresh_comparison", fails)
        ran = program("publish")
    assert ran.code == 4
    assert "error: the comparison of models could not be updated: ArithmeticError" in ran.err
    assert "\x1b" not in ran.err
    assert ran.out.startswith("published ")
    assert sessions(program) == 1
    assert program("publish").code == 0


ABSURD_USD = (1e26, 1.7e308, "1e400", "Infinity", 10_001, -1)


def test_an_absurd_cost_is_unknown_and_stops_nothing(program: Program) -> None:
    for number, cost in enumerate(ABSURD_USD):
        name = f"s{number}"
        absurd = claude("api_request", 1, session__id=name, cost_usd=cost, request_id=name)
        program.land("logs.jsonl", session(name) + line(absurd), "ab")
    assert f"impossible values, set to null: {len(ABSURD_USD)}\n" in program("ingest").out
    program("build")
    assert program("publish").code == 0
    assert sessions(program) == len(ABSURD_USD)
    listed = program("sessions", "--format", "json")
    assert "Infinity" not in listed.out
    assert [item["cost_usd"] for item in listed.items()] == [None] * len(ABSURD_USD)


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
