"""``status``: ingest positions, dates and quarantine."""

import json
import re
import sqlite3
import time
from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines_tests.program import Program, Ran
from evaluation_pipelines_tests.world import claude, line, session


def file_rows(ran: Ran) -> dict[str, list[str]]:
    """Return unread, last event (as ``*``), read and size of each file."""
    part = ran.out.partition("\n\n")[0].partition("─\n")[2]
    rows = [re.sub(r"\d+ (min|h|days) ago", "*", row).split() for row in part.splitlines()]
    return {name: values for name, *values in rows}


def test_status_shows_how_far_every_file_is_read(program: Program) -> None:
    program.land("logs.jsonl", session("a"))
    program("ingest")
    size, more = len(session("a")), len(session("b"))
    assert file_rows(program("status")) == {"logs.jsonl": ["0", "*", f"{size:,}", f"{size:,}"]}
    program.land("logs.jsonl", session("b"), "ab")
    program.land("new.jsonl", session("c"))
    assert file_rows(program("status")) == {
        "logs.jsonl": [f"{more:,}", "*", f"{size:,}", f"{size + more:,}"],
        "new.jsonl": [f"{more:,}", "-", "0", f"{more:,}"],
    }


def test_status_of_a_file_that_was_truncated(program: Program) -> None:
    path = program.land("logs.jsonl", session("a") + session("b"))
    program("ingest")
    two, one = 2 * len(session("a")), len(session("c"))
    path.write_bytes(session("c"))
    # The file is shorter than what was read of it, so all of it is new.
    assert file_rows(program("status")) == {"logs.jsonl": [f"{one:,}", "*", f"{two:,}", f"{one:,}"]}
    program("ingest")
    assert file_rows(program("status")) == {"logs.jsonl": ["0", "*", f"{one:,}", f"{one:,}"]}
    path.unlink()
    assert file_rows(program("status")) == {"logs.jsonl": ["-", "*", f"{one:,}", "-"]}


def test_status_shows_what_was_not_read_or_stored(program: Program) -> None:
    foreign = line({**claude("init"), "body": {}}).replace(b"com.anthropic.claude_code", b"other")
    program.land("logs.jsonl", session("a") + b"not json\n" + foreign + foreign)
    (program.land("link", b"").parent / "loop.jsonl").symlink_to("loop.jsonl")
    program("ingest")
    ran = program("status")
    assert (ran.code, ran.err) == (0, "")
    assert "not read: loop.jsonl: cannot be looked at: " in ran.out
    assert re.search(r"^2026-06-01 +due +2 +1 +[\d,]+$", ran.out, re.MULTILINE)
    place = f"logs.jsonl, byte {len(session('a')):,}"
    assert re.search(
        rf"\nquarantine: 1 of 4 lines\n  {place}: not JSON: .*\n"
        r"  all entries: evaluation-pipelines quarantine list\n"
        r"not stored: 2 records init from other\.events\n\njudge: \$0\.0000 ",
        ran.out,
    )


def test_status_shows_the_lines_that_were_quarantined_last(program: Program) -> None:
    program.land("logs.jsonl", b"a\nb\nc\nd\ne\nf\ng\n")
    program("ingest")
    program.land("logs.jsonl", b"h\ni\nj\nk\nl\n", "ab")
    program("ingest")
    shown = re.findall(r"^  logs\.jsonl, byte (\d+): not JSON", program("status").out, re.MULTILINE)
    # Twelve lines of two bytes: the last ten, newest first.
    assert list(map(int, shown)) == [22, 20, 18, 16, 14, 12, 10, 8, 6, 4]


def test_equal_lines_in_quarantine_are_shown_together(program: Program) -> None:
    """A small compressed file can have millions of them."""
    program.land("logs.jsonl", b"x\n" * 7 + session("a") + b"x\n")
    assert "8 lines or records could not be read" in program("ingest").err
    out = program("status").out
    assert "quarantine: 8 of 9 lines" in out
    assert "  logs.jsonl, byte 0 (8 equal lines): not JSON" in out
    group, *_ = program("quarantine", "list").table()
    assert group[1] == "8"


@pytest.mark.parametrize(
    ("error", "attempts", "is_due", "shown"),
    [
        ("CheckFailedError: none", 1, True, "is not built: CheckFailedError: none (1 attempt"),
        ("CheckFailedError: none", 1, False, "was built, but: CheckFailedError: none"),
        ("DamagedPartError: a", 1, False, "is not built: DamagedPartError: a (1 attempt"),
        ("DamagedPartError: a", 0, False, None),  # a reader met it: it is an item
    ],
)
def test_status_shows_why_a_date_is_not_as_it_should_be(
    program: Program, error: str, attempts: int, shown: str | None, *, is_due: bool
) -> None:
    program.land("logs.jsonl", session("a"))
    program("ingest")
    program("build")
    with sqlite3.connect(program.folder / "data/ledger.db") as ledger:
        ledger.execute(
            "update touched_dates set last_error = ?, attempts = ?, version = version + ?",
            (error, attempts, is_due),
        )
    lines = r"^2026-\d\d-\d\d ((?:is not|was) built.*)"
    told = re.findall(lines, program("status").out, re.MULTILINE)
    assert [line[: len(shown or "")] for line in told] == ([] if shown is None else [shown])


def test_status_shows_when_dates_with_open_sessions_are_built_again(program: Program) -> None:
    now_ns = time.time_ns()
    program.land("logs.jsonl", line(claude("user_prompt", now_ns)))
    program("ingest")
    program("build")
    (shown,) = (row for row in program("status").out.splitlines() if "open sessions" in row)

    found = re.search(r" has open sessions: built again after (.{16}) UTC$", shown)
    assert found
    ends_at = datetime.fromtimestamp(now_ns / 1e9, UTC) + timedelta(minutes=30)
    rebuilt_at = datetime.fromisoformat(f"{found[1]}+00:00")
    assert (
        timedelta() <= rebuilt_at - ends_at.replace(second=0, microsecond=0) <= timedelta(minutes=1)
    )


def test_of_many_files_the_unread_and_the_newest_are_listed(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.cli.status._MAX_FILES", 2)
    for name in "abcd":
        program.land(f"{name}.jsonl", session(name))
        program("ingest")
    program.land("a.jsonl", session("a")[:-9], "ab")
    ran = program("status")
    assert [row[0] for row in ran.table()[:2]] == ["a.jsonl", "d.jsonl"]
    assert "2 more files: --format json has all" in ran.out
    assert len(json.loads(program("status", "--format", "json").out)["files"]) == 4
