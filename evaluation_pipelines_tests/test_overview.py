"""``sessions``, ``status`` and ``demo``: what lies in the stores, on the screen."""

import re

import polars as pl

from evaluation_pipelines_tests.otlp_builders import claude, line, session
from evaluation_pipelines_tests.program import Program, Ran

# -- sessions --------------------------------------------------------------------------------------


def test_sessions_lists_the_newest_of_the_lake_oldest_first(three_days: Program) -> None:
    three_days("build")
    rows = three_days("sessions").table()
    # Quality, autonomy 1 / 1 * 2, productivity 1 / 1 * 10 = 10; no tokens, no cost:
    # (0.30 * 10 + 0.25 * 2 + 0.20 * 10) / 0.75 = 5.5 / 0.75 = 7.33
    assert [row[:6] for row in rows] == [
        [f"s{day}#baseline-1", "7.3", "keep", f"2026-06-0{day + 1}", "12:00:00", "1"]
        for day in range(3)
    ]
    some = three_days("sessions", "--limit", "1")
    assert "s2#baseline-1" in some.out
    assert some.out.endswith("2 older ones not shown: use --limit or --date\n")
    assert "s1#baseline-1" not in some.out


def test_sessions_lists_those_of_some_dates(three_days: Program) -> None:
    three_days("build")
    rows = three_days("sessions", "--date", "2026-06-02..2099-01-01").table()
    assert [row[0] for row in rows] == ["s1#baseline-1", "s2#baseline-1"]
    none = three_days("sessions", "--date", "2026-05-01")
    assert (none.code, none.out) == (0, "There are no sessions on these dates in data/lake.\n")


def test_sessions_of_an_empty_lake_says_how_to_fill_it_and_creates_nothing(
    program: Program,
) -> None:
    ran = program("sessions")
    expected = "There are no sessions in data/lake yet. Run ingest and build, or demo.\n"
    assert (ran.code, ran.out, ran.err) == (0, expected, "")
    assert list(program.folder.iterdir()) == []


# -- status ----------------------------------------------------------------------------------------


def file_rows(ran: Ran) -> dict[str, list[str]]:
    """Unread, newest event, read and size of each file; the age of the event is left out."""
    part = ran.out.partition("\n\n")[0].partition("─\n")[2]
    rows = [re.sub(r"\d+ min ago", "*", row).split() for row in part.splitlines()]
    return {name: figures for name, *figures in rows}


def test_status_shows_how_far_every_file_is_read(program: Program) -> None:
    program.land("logs.jsonl", session("a"))
    program("ingest")
    size, more = len(session("a")), len(session("b"))
    assert file_rows(program("status")) == {"logs.jsonl": ["0", "*", f"{size}", f"{size}"]}
    program.land("logs.jsonl", session("b"), "ab")
    program.land("new.jsonl", session("c"))
    assert file_rows(program("status")) == {
        "logs.jsonl": [f"{more}", "*", f"{size}", f"{size + more}"],
        "new.jsonl": [f"{more}", "-", "0", f"{more}"],
    }


def test_status_knows_a_file_that_was_emptied_and_started_again(program: Program) -> None:
    path = program.land("logs.jsonl", session("a") + session("b"))
    program("ingest")
    two, one = 2 * len(session("a")), len(session("c"))
    path.write_bytes(session("c"))
    # Shorter than what was read of it: all of it is new.
    assert file_rows(program("status")) == {"logs.jsonl": [f"{one}", "*", f"{two}", f"{one}"]}
    program("ingest")
    assert file_rows(program("status")) == {"logs.jsonl": ["0", "*", f"{one}", f"{one}"]}
    path.unlink()
    assert file_rows(program("status")) == {"logs.jsonl": ["-", "*", f"{one}", "-"]}


def test_status_tells_what_was_not_read_or_stored(program: Program) -> None:
    foreign = line({**claude("init"), "body": {}}).replace(b"com.anthropic.claude_code", b"other")
    program.land("logs.jsonl", session("a") + b"not json\n" + foreign + foreign)
    (program.land("link", b"").parent / "loop.jsonl").symlink_to("loop.jsonl")
    program("ingest")
    ran = program("status")
    assert (ran.code, ran.err) == (0, "")
    assert "not read: loop.jsonl: cannot be looked at: " in ran.out
    assert re.search(r"^2026-06-01 +due +2 +1 +\d+$", ran.out, re.MULTILINE)
    assert ran.out.endswith(
        "\nquarantine: 1 of 4 lines, see data/lake/quarantine\n"
        "not stored: 2 records init of other.events\n"
    )


# -- demo ------------------------------------------------------------------------------------------


def test_demo_shows_sessions_and_masques_and_a_second_one_the_same_without_reading_anything(
    program: Program,
) -> None:
    first, second = program("demo"), program("demo")
    assert (first.code, second.code, second.err) == (0, 0, "")
    assert "lines or records went to quarantine" in first.err
    assert "ingest: 0 lines (0 bytes) of 0 files, 0 events on 0 dates\n" in second.out
    assert "build: nothing new\n" in second.out
    assert first.out.partition("\nSessions\n")[2] == second.out.partition("\nSessions\n")[2]
    assert re.search(r"^Firefighter +\d+ +\d\.\d +(keep|review) ", first.out, re.MULTILINE)
    assert (program.folder / "data/analytics.duckdb").is_symlink()
    assert "The best one with all dimensions known, " in first.out
    table = program.folder / "data/lake/agent_events/session_date=2026-11-21/agent_events.parquet"
    # The genuine sessions name no organization, the made-up team has two.
    is_genuine = (pl.col("source_cli") == "claude_code") & (pl.col("organization_id") == "default")
    assert pl.read_parquet(table).filter(is_genuine).height == 269
