"""``ingest``, ``build``, and what all commands have in common."""

import gzip
import json
import os
import re
import subprocess
import sys
from contextlib import closing

import pytest
import typer

from evaluation_pipelines.cli.filters import parse_dates
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S, claude, line, session

# -- ingest ----------------------------------------------------------------------------------------


def test_ingest_prints_what_it_read_and_a_second_one_reads_nothing(
    program: Program,
) -> None:
    content = session("a") + session("b", DAY_S)
    program.land("logs.jsonl", content)
    first = program("ingest")
    assert (first.code, first.err) == (0, "")
    assert len(content) == 1726
    assert first.out == "ingest: 2 lines (1.7 kB) of 1 file, 4 events on 2 dates\n"
    assert program("ingest").out == "ingest: 0 lines (0 bytes) of 0 files, 0 events on 0 dates\n"


def test_ingest_says_who_else_reads_telemetry(program: Program) -> None:
    program.land("logs.jsonl", session("a"))
    program.set("EVAL_LOCK_TIMEOUT_SECONDS", "1")
    ledger = open_ledger("sqlite:///data/ledger.db")
    with closing(ledger), held(ledger, "ingest"):
        ran, as_json = program("ingest"), program("ingest", "--format", "json")
    refused = f"Could not get the lock ingest within 1 s: process {os.getpid()} on "
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith(f"error: nothing was read: {refused}")
    assert as_json.code == 4
    assert json.loads(as_json.out)["busy"].startswith(refused)
    assert json.loads(program("ingest", "--format", "json").out)["busy"] is None


def test_ingest_prints_all_that_it_did_not_use(program: Program) -> None:
    don = b'{"session_id": "a", "masque": "M", "donned_at": "2026-06-01T11:00:00Z"}\n'
    odd = line(claude("api_request", session__id="a", output_tokens="undefined"))
    early = line(claude("user_prompt", -40 * 365 * DAY_S, session__id="a"))
    foreign = line({**claude("x"), "body": {}}).replace(b"com.anthropic.claude_code", b"other")
    no_session = line(claude("user_prompt", session__id=""))
    program.land("logs.jsonl", session("a") + don + odd + early + foreign + no_session)
    program.land("more.jsonl", b'{"resourceMetrics": []}\nnot json\n')
    program.land("old.jsonl.gz", gzip.compress(b"{}\n")[:-4])
    ran = program("ingest")
    assert ran.out.splitlines()[1:] == [
        "  attribution lines: 1",
        "  metrics, not used: 1",
        "  unrecognized records: 1",
        "  records without a session: 1",
        "  times missing or impossible, replaced by the time of ingest: 1",
        "  impossible values, set to null: 1",
    ]
    assert ran.err.splitlines() == [
        "warning: 1 line or record could not be read and went to quarantine: see quarantine list",
        "warning: not read: old.jsonl.gz: its end is missing. The lines before it are read",
    ]


# -- build -----------------------------------------------------------------------------------------


def test_build_builds_the_due_dates_and_then_none(three_days: Program) -> None:
    ran = three_days("build")
    assert (ran.code, ran.err) == (0, "")
    assert ran.table() == [[f"2026-06-0{day}", "2", "0", "2", "1", "1"] for day in (1, 2, 3)]
    assert three_days("build").out == "build: nothing new\n"


def test_build_builds_the_given_dates_with_telemetry(three_days: Program) -> None:
    lake = three_days.folder / "data" / "lake"
    ran = three_days("build", "--date", "2026-05-31")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "error: no telemetry has landed on these dates: see status\n"
    assert not (lake / "agent_events").exists()
    days = ["2026-06-01", "2026-06-02"]
    assert [
        row[0] for row in three_days("build", "--date", "2020-01-01..2026-06-02").table()
    ] == days
    built = sorted(path.name for path in (lake / "agent_sessions").iterdir())
    assert built == [f"session_date={day}" for day in days]


@pytest.mark.parametrize(
    "dates",
    [
        *("", "yesterday", "2026-06-31", "2026-06-01..", "..2026-06-01"),
        *("2026-06-01..2026-06-02..2026-06-03", "2026-06-02..2026-06-01"),
    ],
)
def test_invalid_dates_are_refused(dates: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not a date|the range ends before it starts"):
        parse_dates(dates)


def test_invalid_dates_are_refused_before_anything_is_written(program: Program) -> None:
    for command in ("build", "sessions"):
        assert program(command, "--date", "2026-06-02..2026-06-01").code == 2
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
    assert failed.code == 4
    assert [row[0] for row in failed.table()] == ["2026-06-01", "2026-06-03"]
    assert failed.err.startswith(
        "error: 2026-06-02: agent_events was not built: DamagedPartError: "
    )
    assert str(landed.relative_to(three_days.folder)) in failed.err

    # Its second attempt is not due yet, but its error is still shown.
    waiting = three_days("build")
    assert (waiting.code, waiting.out) == (0, "build: nothing new\n")
    said = r"(1 attempt, due \d\d:\d\d UTC, to build it now: evaluation-pipelines build --date "
    shown = rf"warning: 2026-06-02 is not built: DamagedPartError: .*\{said}2026-06-02\)\n"
    assert re.fullmatch(shown, waiting.err, re.DOTALL)
    for _ in range(3):
        three_days("build", "--date", "2026-06-02")
    status = three_days("status").out
    assert re.search(r"^2026-06-02 +damaged +2 ", status, re.MULTILINE)
    assert re.search(r"^2026-06-02 is not built: .*\(4 attempts, parked, ", status, re.MULTILINE)

    landed.write_bytes(content)
    fixed = three_days("build", "--date", "2026-06-02")
    assert (fixed.code, fixed.err) == (0, "")
    assert fixed.table() == [["2026-06-02", "2", "0", "2", "1", "1"]]
    assert "not built" not in three_days("status").out


# -- settings and help --------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["ingest", "build", "sessions", "status", "demo"])
def test_an_invalid_setting_is_an_error_without_a_traceback(program: Program, command: str) -> None:
    program.set("EVAL_START_DATE", "soon")
    ran = program(command)
    assert (ran.code, ran.out) == (1, "")
    first, second = ran.err.splitlines()
    assert first == "error: These settings cannot be used:"
    assert second.startswith("  EVAL_START_DATE='soon': ")
    assert list(program.folder.iterdir()) == []


def test_an_invalid_ledger_is_an_error_of_one_line(program: Program) -> None:
    (program.folder / "data").mkdir()
    (program.folder / "data" / "ledger.db").write_bytes(b"something else" * 100)
    ran = program("status")
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(r"error: The ledger .*ledger\.db failed .*\n", ran.err)


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["--help"], {"polars", "duckdb", "sqlalchemy", "pydantic", "numpy", "fastapi", "uvicorn"}),
        (["--version"], {"polars", "duckdb", "sqlalchemy", "pydantic", "numpy"}),
        # The engine of the ledger is a third of the start; nothing is stored here.
        (["score", "--help"], {"sqlalchemy", "numpy", "dagster"}),
        (["sessions", "--help"], {"duckdb", "numpy", "rapidfuzz", "dagster"}),
    ],
)
def test_a_command_loads_no_engine_that_it_does_not_need(
    words: list[str], unneeded: set[str]
) -> None:
    code = (
        "import sys; from evaluation_pipelines.cli.program import main\n"
        f"sys.argv = ['evaluation-pipelines', *{words}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"sys.exit(', '.join({unneeded} & sys.modules.keys()) or 0)"
    )
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("settings", "--format", "json"), 0),
        (("--help",), 0),
        (("doctor", "--offline"), 1),
        (("doctor", "--offline", "--format", "json"), 1),
    ],
)
def test_a_reader_that_leaves_early_is_no_error_and_a_failure_stays_one(
    program: Program, arguments: tuple[str, ...], code: int
) -> None:
    command = [sys.executable, "-c", "from evaluation_pipelines.cli.program import main; main()"]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=program.folder
    ) as ran:
        assert ran.stdout
        assert ran.stderr
        ran.stdout.close()
        said = ran.stderr.read()
    assert (ran.returncode, said) == (code, b"")
