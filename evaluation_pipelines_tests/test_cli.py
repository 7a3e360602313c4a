"""``ingest``, ``build``, ``sessions``, ``status`` and ``demo``, as somebody runs them."""

import re
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.program import Program, Ran

DAY_S = 86_400


@pytest.fixture
def program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Program:
    return Program(tmp_path, monkeypatch, capsys)


def session(name: str, day: int = 0) -> bytes:
    """One line: a session of one prompt and one good tool call, some days after June 1st."""
    return line(
        claude("user_prompt", day * DAY_S, session__id=name),
        claude("tool_result", day * DAY_S + 1, session__id=name, tool_name="Read", success="true"),
    )


def built(ran: Ran) -> list[list[str]]:
    """Date, landed, duplicates, events, sessions and scored of each date that was built."""
    return ran.table()


# -- ingest ----------------------------------------------------------------------------------------


def test_ingest_says_what_it_read_and_a_second_one_that_there_is_nothing_new(
    program: Program,
) -> None:
    content = session("a") + session("b", 1)
    program.land("logs.jsonl", content)
    first = program("ingest")
    assert (first.code, first.err) == (0, "")
    assert first.out == f"ingest: 2 lines ({len(content)} bytes) of 1 file, 4 events on 2 dates\n"
    assert program("ingest").out == "ingest: 0 lines (0 bytes) of 0 files, 0 events on 0 dates\n"


def test_ingest_leaves_nothing_of_what_it_did_not_use_untold(program: Program) -> None:
    don = b'{"session_id": "a", "masque": "M", "donned_at": "2026-06-01T11:00:00Z"}\n'
    odd = line(claude("api_request", session__id="a", output_tokens="undefined"))
    early = line(claude("user_prompt", -40 * 365 * DAY_S, session__id="a"))
    foreign = line({**claude("x"), "body": {}}).replace(b"com.anthropic.claude_code", b"other")
    nobody = line(claude("user_prompt", session__id=""))
    program.land("logs.jsonl", session("a") + don + odd + early + foreign + nobody)
    program.land("more.jsonl", b'{"resourceSpans": []}\nnot json\n')
    program.land("old.jsonl.gz", b"\x1f\x8b")
    ran = program("ingest")
    assert ran.out.splitlines()[1:] == [
        "  attribution lines: 1",
        "  metrics and traces, not used: 1",
        "  records of agents that are not understood: 1",
        "  records without a session: 1",
        "  impossible times, replaced by the time observed: 1",
        "  impossible values, now null: 1",
    ]
    assert ran.err.splitlines() == [
        "warning: 1 line or record went to quarantine: data/lake/quarantine",
        "warning: old.jsonl.gz is not read: compressed files are not read yet",
    ]


# -- build -----------------------------------------------------------------------------------------


@pytest.fixture
def three_days(program: Program) -> Program:
    """June 1st, 2nd and 3rd have landed."""
    program.land("logs.jsonl", b"".join(session(f"s{day}", day) for day in range(3)))
    program("ingest")
    return program


def test_build_makes_the_dates_that_are_due_and_then_none(three_days: Program) -> None:
    ran = three_days("build")
    assert (ran.code, ran.err) == (0, "")
    assert built(ran) == [[f"2026-06-0{day}", "2", "0", "2", "1", "1"] for day in (1, 2, 3)]
    assert three_days("build").out == "build: nothing new\n"


@pytest.mark.parametrize(
    ("dates", "days"),
    [
        ("2026-06-02", ["2026-06-02"]),
        ("2026-06-01..2026-06-02", ["2026-06-01", "2026-06-02"]),
        ("2020-01-01..2099-12-31", ["2026-06-01", "2026-06-02", "2026-06-03"]),
    ],
)
def test_build_makes_the_dates_it_is_told_where_something_landed(
    three_days: Program, dates: str, days: list[str]
) -> None:
    ran = three_days("build", "--date", dates)
    assert [row[0] for row in built(ran)] == days
    folder = three_days.folder / "data" / "lake" / "agent_sessions"
    assert sorted(each.name for each in folder.iterdir()) == [f"session_date={day}" for day in days]


def test_build_of_a_date_without_telemetry_is_an_error_and_makes_nothing(
    three_days: Program,
) -> None:
    ran = three_days("build", "--date", "2026-05-31")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "error: no telemetry has landed on these dates: see status\n"
    assert not (three_days.folder / "data" / "lake" / "agent_events").exists()


@pytest.mark.parametrize("command", ["build", "sessions"])
@pytest.mark.parametrize(
    ("dates", "fault"),
    [
        ("yesterday", "Invalid isoformat string: 'yesterday'"),
        ("2026-06-31", "day"),
        ("2026-06-01..", "Invalid isoformat string: ''"),
        ("..2026-06-01", "Invalid isoformat string: ''"),
        ("2026-06-01..2026-06-02..2026-06-03", "Invalid isoformat string"),
        ("2026-06-02..2026-06-01", "the range ends before it begins"),
        ("", "Invalid isoformat string: ''"),
    ],
)
def test_dates_that_are_none_are_refused_before_anything_is_touched(
    program: Program, command: str, dates: str, fault: str
) -> None:
    ran = program(command, "--date", dates)
    assert (ran.code, ran.out) == (2, "")
    assert fault in re.sub(r"[\s│]+", " ", ran.err)
    assert list(program.folder.iterdir()) == []


def test_a_date_that_cannot_be_built_is_an_error_and_the_others_are_built(
    three_days: Program,
) -> None:
    (landed,) = (three_days.folder / "data" / "lake").glob(
        "agent_events_landed/session_date=2026-06-02/*.parquet"
    )
    content = landed.read_bytes()
    landed.write_bytes(b"not parquet")

    failed = three_days("build")
    assert failed.code == 1
    assert [row[0] for row in built(failed)] == ["2026-06-01", "2026-06-03"]
    assert failed.err.startswith("error: 2026-06-02: agent_events was not built: QueryError: ")
    assert str(landed.relative_to(three_days.folder)) in failed.err

    # It waits for its second attempt: nothing else is due, but it is not forgotten.
    waiting = three_days("build")
    assert (waiting.code, waiting.out) == (0, "build: nothing new\n")
    assert waiting.err.startswith("warning: 2026-06-02 is not built: QueryError: ")
    assert re.search(
        r"\(1 attempt, due \d\d:\d\d UTC; at once: "
        r"evaluation-pipelines build --date 2026-06-02\)\n$",
        waiting.err,
    )
    status = three_days("status").out
    assert re.search(r"^2026-06-02 +due +2 ", status, re.MULTILINE)
    assert re.search(r"^2026-06-02 is not built: QueryError: ", status, re.MULTILINE)

    for _ in range(3):
        three_days("build", "--date", "2026-06-02")
    status = three_days("status").out
    assert re.search(r"^2026-06-02 +given up ", status, re.MULTILINE)
    assert "(4 attempts, given up; at once: " in status

    landed.write_bytes(content)
    mended = three_days("build", "--date", "2026-06-02")
    assert (mended.code, mended.err) == (0, "")
    assert built(mended) == [["2026-06-02", "2", "0", "2", "1", "1"]]
    assert "not built" not in three_days("status").out


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
    program.land("old.jsonl.zst", b"\x28\xb5\x2f\xfd")
    program("ingest")
    ran = program("status")
    assert (ran.code, ran.err) == (0, "")
    assert "not read: old.jsonl.zst: compressed files are not read yet\n" in ran.out
    assert re.search(r"^2026-06-01 +due +2 +1 +\d+$", ran.out, re.MULTILINE)
    assert ran.out.endswith(
        "\nquarantine: 1 of 4 lines, see data/lake/quarantine\n"
        "not stored: 2 records init of other.events\n"
    )


# -- demo, settings, help --------------------------------------------------------------------------


def test_demo_shows_the_samples_and_a_second_one_the_same_without_reading_anything(
    program: Program,
) -> None:
    first, second = program("demo"), program("demo")
    assert (first.code, first.err, second.code, second.err) == (0, "", 0, "")
    assert first.out.startswith("1 file of genuine agent telemetry in data/landing\n")
    assert re.search(r"^2026-11-21 +269 +0 +269 +17 +14$", first.out, re.MULTILINE)
    assert "ingest: 0 lines (0 bytes) of 0 files, 0 events on 0 dates\n" in second.out
    assert "build: nothing new\n" in second.out
    assert first.out.partition("\nSessions\n")[2] == second.out.partition("\nSessions\n")[2]
    # 9.0 by the reference (8.978728): of the two better ones one has no known tokens (9.39).
    assert "The best one with all dimensions known, 75d72f58-" in first.out
    table = program.folder / "data/lake/agent_events/session_date=2026-11-21/agent_events.parquet"
    assert pl.read_parquet(table).height == 269


@pytest.mark.parametrize("command", ["ingest", "build", "sessions", "status", "demo"])
def test_a_setting_that_cannot_be_used_is_told_without_a_traceback(
    program: Program, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("EVAL_START_DATE", "soon")
    ran = program(command)
    assert (ran.code, ran.out) == (1, "")
    first, second = ran.err.splitlines()
    assert first == "error: These settings cannot be used:"
    assert second.startswith("  EVAL_START_DATE='soon': ")
    assert list(program.folder.iterdir()) == []


def test_a_ledger_that_is_none_is_told_in_one_line(program: Program) -> None:
    (program.folder / "data").mkdir()
    (program.folder / "data" / "ledger.db").write_bytes(b"something else" * 100)
    ran = program("status")
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(r"error: The ledger .*ledger\.db failed .*\n", ran.err)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_command(program: Program, option: str) -> None:
    ran = program(option)
    assert ran.code == 0
    for command in ("ingest", "build", "score", "sessions", "status", "demo"):
        assert command in ran.out
    assert "- for standard input" in " ".join(program("score", option).out.split())


def test_the_version_is_the_installed_one(program: Program) -> None:
    ran = program("--version")
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", ran.out)
