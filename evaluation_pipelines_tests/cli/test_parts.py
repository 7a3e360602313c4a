"""``parts``: the current files of a table."""

import shutil

import polars as pl

from evaluation_pipelines_tests.otlp_builders import session
from evaluation_pipelines_tests.program import Program


def test_parts_lists_the_current_files_and_no_other(three_days: Program) -> None:
    three_days("build")
    before = three_days("parts", "agent_sessions").out.splitlines()
    three_days.land("logs.jsonl", session("s4", 60), "ab")  # on June 1st
    three_days("ingest")
    three_days("build")
    after = three_days("parts", "agent_sessions").out.splitlines()

    assert pl.read_parquet(before).height == 3  # for an hour, readers can finish
    assert pl.read_parquet(after)["session_id"].to_list() == ["s0", "s4", "s1", "s2"]
    assert before[1:] == after[1:]
    one = three_days("parts", "agent_sessions", "--date", "2026-06-01")
    assert (one.code, one.out.splitlines()) == (0, after[:1])


def test_an_unknown_table_is_refused_with_those_there_are(three_days: Program) -> None:
    ran = three_days("parts", "sessions")
    assert ran.code == 2
    assert "there is no table sessions, only: " in " ".join(ran.err.split())


def test_a_deleted_table_is_shown_and_can_be_built_again(three_days: Program) -> None:
    three_days("build")
    shutil.rmtree(three_days.folder / "data/lake/agent_sessions")
    listed = three_days("parts", "agent_sessions")
    assert (listed.code, listed.out) == (1, "")
    assert "is missing. Build its date again: evaluation-pipelines build --damaged" in listed.err
    shown = three_days("status").out.splitlines()
    (line,) = [each for each in shown if "missing" in each]
    assert line.startswith("data/lake/agent_sessions/session_date=2026-06-01/")
    assert line.endswith(
        " and 2 more of agent_sessions are missing. Build its date again: "
        "evaluation-pipelines build --damaged"
    )
    three_days("build", "--damaged")
    assert len(three_days("parts", "agent_sessions").out.splitlines()) == 3
    assert "missing" not in three_days("status").out


def test_a_damaged_file_is_named(three_days: Program) -> None:
    three_days("build")
    path = three_days("parts", "agent_sessions", "--date", "2026-06-02").out.strip()
    file = three_days.folder / path
    file.write_bytes(file.read_bytes()[:-1])
    ran = three_days("parts", "agent_sessions")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"error: {path} is damaged: its content does not have the checksum in the ledger. "
        "Build its date again: evaluation-pipelines build --damaged\n"
    )
    three_days("build", "--date", "2026-06-02")
    assert three_days("parts", "agent_sessions").code == 0
