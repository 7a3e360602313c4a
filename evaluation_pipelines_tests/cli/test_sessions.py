"""``sessions``: sessions of the lake as table, JSON and CSV."""

import csv

import pytest

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S, claude, line


def test_sessions_lists_the_newest_of_the_lake_oldest_first(built_days: Program) -> None:
    rows = built_days("sessions").table()
    # Quality, autonomy 1 / 1 * 2, productivity 1 / 1 * 10 = 10; no tokens, no cost:
    # (0.30 * 10 + 0.25 * 2 + 0.20 * 10) / 0.75 = 5.5 / 0.75 = 7.33
    # What counts is the scorecard: 0.5 * 73.3 + 0.5 * 100 of tool effectiveness.
    assert [row[:12] for row in rows[:3]] == [
        [
            *(f"s{day}#baseline-1", "86.7", "green", "claude-code", "-", "Not", "scored", "7.3"),
            *("claude_code", f"2026-06-0{day + 1}", "12:00", "1"),
        ]
        for day in range(3)
    ]
    some = built_days("sessions", "--limit", "1")
    assert "s2#baseline-1" in some.out
    assert some.out.endswith("2 older sessions not shown: use --limit or --date\n")
    assert "s1#baseline-1" not in some.out


def test_sessions_of_some_dates(built_days: Program) -> None:
    rows = built_days("sessions", "--date", "2026-06-02..2099-01-01").table()
    assert [row[0] for row in rows] == ["s1#baseline-1", "s2#baseline-1"]
    none = built_days("sessions", "--date", "2026-05-01")
    lake = built_days.folder / "data" / "lake"
    assert (none.code, none.out) == (0, f"There are no sessions in {lake} on these dates.\n")


def test_dates_are_those_of_the_first_ingested_events_and_the_help_says_so(
    program: Program,
) -> None:
    """The tool call of June 2 comes first, the prompt of June 1 that began the session later."""
    program.land("a.jsonl", line(claude("tool_result", DAY_S, tool_name="Read", success="true")))
    program("ingest")
    program.land("b.jsonl", line(claude("user_prompt", 0)))
    program("ingest")
    program("build")
    (row,) = program("sessions", "--date", "2026-06-02").table()
    assert "2026-06-01" in row  # its start
    assert "no sessions" in program("sessions", "--date", "2026-06-01").out
    for command in (["sessions"], ["judge", "run"], ["reputation", "update"]):
        shown = " ".join(program(*command, "--help").out.replace("│", " ").split())
        assert "the UTC date of the session's first ingested event" in shown


@pytest.mark.parametrize("form", ["json", "csv"])
def test_no_sessions_are_an_empty_list_with_a_remark_on_standard_error(
    program: Program, form: str
) -> None:
    ran = program("sessions", "--format", form)
    assert ran.code == 0
    assert (ran.items() if form == "json" else list(csv.DictReader([ran.out]))) == []
    assert ran.err.startswith(f"There are no sessions in {program.folder}/data/lake yet. ")
    assert list(program.folder.iterdir()) == []
