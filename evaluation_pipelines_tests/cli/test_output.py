"""Output to a terminal or a pipe: safe for any telemetry, and readable."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from evaluation_pipelines.cli.output import (
    csv_text,
    json_text,
    one_line,
    print_table,
    sanitize,
    short_key,
    write_output,
)
from evaluation_pipelines_tests import world
from evaluation_pipelines_tests.program import SCRIPT, Program
from evaluation_pipelines_tests.world import claude, line

MALICIOUS = "\x1b[31m[red]bold[/red]\n- a: b # \x9b2J\u202e\u2028\r\x07'\"{}"
"""Escape sequences, table markup, newlines, line separators and text direction."""


def session(name: str, model: str = "m", **resource: Any) -> bytes:
    """Return a session of one prompt, one successful tool call and one answer."""
    answered = {"model": model, "output_tokens": 1}
    return world.session(name, calls=[MALICIOUS], request=answered, **resource)


def assert_safe(output: str) -> None:
    assert output.replace("\n", "").isprintable()


# -- malicious telemetry ---------------------------------------------------------------------------


def test_malicious_names_are_safe_and_preserved(program: Program) -> None:
    content = session(MALICIOUS, MALICIOUS, masque__name=f"{MALICIOUS}\0")
    told = [
        program("score", "-", "--format", form, stdin=content) for form in ("yaml", "json", "table")
    ]
    for ran in told:
        assert ran.code == 0
        assert_safe(ran.out)
    document = yaml.safe_load(told[0].out)
    assert document["masque"] == MALICIOUS
    assert len(document) == 9  # partial and reason: its tokens are unknown
    (record,) = told[1].items()
    assert (record["masque"], record["session_id"]) == (MALICIOUS, MALICIOUS)
    # The key in the output finds the session.
    again = program("score", "-", "--session", record["session_key"], stdin=content)
    assert yaml.safe_load(again.out)["masque"] == MALICIOUS
    _, _, rows = told[2].out.partition("─\n")
    assert len(rows.splitlines()) == 1
    assert rows.count("\ufffd[31m[red]bold[/red]\ufffd- a: b") == 3  # key, masque and model


def test_malicious_names_are_safe_in_all_commands_on_the_stores(program: Program) -> None:
    foreign = claude("x", event__name=MALICIOUS)
    program.land("logs.jsonl", session(MALICIOUS, MALICIOUS, masque__name=MALICIOUS))
    program.land("other.jsonl", line({**foreign, "body": {}}).replace(b"anthropic", b"\\u001b[0m"))
    program.land(f"{MALICIOUS.replace('/', '')}.jsonl.gz", b"")
    for command in ("ingest", "build", "sessions", "status"):
        ran = program(command)
        assert ran.code == 0
        assert_safe(ran.out + ran.err)
    assert "not stored: 1 record" in ran.out


def test_malicious_arguments_are_safe_in_errors(program: Program) -> None:
    for arguments in (
        ("score", MALICIOUS),
        ("score", "-", "--session", MALICIOUS),
        ("build", "--date", MALICIOUS),
    ):
        ran = program(*arguments, stdin=session("s"))
        assert ran.code in (1, 2)
        assert_safe(ran.err)


def test_sanitized_text_keeps_its_lines_and_one_line_has_one() -> None:
    assert sanitize("Zoë\n\x1b[1m") == "Zoë\n\ufffd[1m"
    assert one_line("a\nb") == "a\ufffdb"


# -- terminals -------------------------------------------------------------------------------------

COLUMNS = ("key", "score #", "note")
ROWS = [("k" * 30, 9.5, "n" * 30), ("k", None, "n" * 500)]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A terminal of 80 columns without colors."""
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_counts_in_a_table_have_separators_and_ids_and_ordinals_have_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("Title", ("id #", "sessions #"), [(12345, 12345)], essential=2)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["12345", "12,345"]
    ordinals = ("call #", "repeats call #", "version #", "calls #")
    print_table("Title", ordinals, [(1234,) * 4], essential=4)
    assert capsys.readouterr().out.split()[-4:] == ["1234", "1234", "1234", "1,234"]


def test_a_pipe_gets_all_columns_and_only_very_long_cells_are_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("Title", COLUMNS, ROWS, essential=1)
    title, heading, rule, first, second = capsys.readouterr().out.splitlines()
    assert (title, heading.split(), set(rule)) == ("Title", ["key", "score", "note"], {"─"})
    assert first.split() == ["k" * 30, "9.5", "n" * 30]
    assert second.split() == ["k", "-", "n" * 119 + "…"]


@pytest.mark.usefixtures("terminal")
def test_a_narrow_terminal_leaves_out_the_last_columns_and_names_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """30, 5 and 20 characters and twice 3 between are 61 of 80: 39 are left for the note."""
    print_table("Title", COLUMNS, ROWS, essential=2)
    assert f"{'n' * 38}…\n(a wider window shows in full: note)\n" in capsys.readouterr().out
    columns = ("entry", "organization", "score #", "note", "last")
    rows = [("k" * 30, "acme", 9.5, "n" * 30, "l" * 20)]  # without organization: 30+5+20+20+9 = 84
    print_table("Title", columns, rows, essential=1)
    shown = capsys.readouterr().out
    assert ("acme" in shown, "nnn" in shown, "lll" in shown) == (False, True, False)
    assert shown.endswith("(a wider window also shows: organization, last)\n")


def test_essential_columns_are_never_cut(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", "10")
    print_table("Title", COLUMNS, ROWS, essential=2)
    shown = capsys.readouterr().out
    assert "k" * 30 in shown
    assert "9.5" in shown


def test_keys_are_shortened_and_long_texts_cut_before_columns_are_left_out(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", "60")
    key = "f9ee754e-daba-49b9-a757-59c5984dedbd#scout-2"
    rows = [(key, "a long reason " * 8, 12345678.5)]
    print_table("Title", ("session key", "why", "score #", "more"), [(*rows[0], "m")], 3)
    shown = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    assert max(len(line) for line in shown.splitlines()[:4]) == 60
    # 17 of the key, 10 of the number, 4 of the last, 9 between: 20 are left of the reason.
    row = "f9ee754e…#scout-2   a long reason a lon…   12345678.5   m"
    assert row in [line.rstrip() for line in shown.splitlines()]
    assert "(a wider window shows in full: session key, why)\n" in shown


def test_a_heading_of_wide_characters_counts_as_wide_as_it_is_shown(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 columns: 4 of the heading, 3 between, 53 for the text; by characters it would be 55."""
    terminal.setenv("COLUMNS", "60")
    print_table("Title", ("名前", "why"), [("a", "w" * 100)], essential=2)
    rule = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()[2]
    assert rule == "─" * 60


# -- formats ---------------------------------------------------------------------------------------


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a longer text than the new one")
    write_output("a\n1\n", path)
    assert path.read_text() == "a\n1\n"
    write_output(b"\x00", path)
    assert path.read_bytes() == b"\x00"
    assert list(tmp_path.iterdir()) == [path]


# -- processes and pipes ---------------------------------------------------------------------------


def test_a_pipe_gets_only_the_result(program: Program) -> None:
    """There is no progress bar and no color."""
    program.land("logs.jsonl", session("s"))
    ran = program.process("ingest")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("ingest: 1 line ")
    assert_safe(ran.out)


def test_characters_that_the_encoding_lacks_are_escaped(program: Program) -> None:
    content = session("s", masque__name="Gärtner 花")
    ran = program.process("score", "-", stdin=content, PYTHONIOENCODING="ascii")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == r"masque: G\xe4rtner \u82b1"


def test_a_closed_pipe_is_not_an_error(program: Program) -> None:
    content = b"".join(session(f"{n:0500}") for n in range(300))  # more than the buffer of a pipe
    (program.folder / "logs.jsonl").write_bytes(content)
    command = [str(SCRIPT), "score", "--all", "--format", "json", "logs.jsonl"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=program.folder
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"{"
        process.stdout.close()
        errors = process.stderr.read().decode()
    assert errors == ""


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_a_named_pipe_can_be_scored(program: Program) -> None:
    pipe = Path(program.folder / "pipe")
    os.mkfifo(pipe)
    with subprocess.Popen([str(SCRIPT), "score", "pipe"], cwd=program.folder) as process:
        pipe.write_bytes(session("s"))
    assert process.returncode == 0


def test_json_has_no_numbers_that_json_does_not_know() -> None:
    value = {"a": [float("nan"), 1.5, (float("inf"),)], "b": {"c": -float("inf")}}
    assert json.loads(json_text(value)) == {"a": [None, 1.5, [None]], "b": {"c": None}}


def test_csv_has_no_characters_that_a_terminal_obeys() -> None:
    text = csv_text(pl.DataFrame({"agent": [MALICIOUS, "=1+1", "plain"], "n": [1, -2, 3]}))
    assert_safe(text)
    assert text.splitlines()[2:] == ["'=1+1,-2", "plain,3"]


@pytest.mark.parametrize(
    ("text", "is_escaped"),
    [
        ("=1+1", True),
        ("\uff1d1+1", True),  # full-width equals sign
        (" =1+1", True),
        (" \uff0b1", True),
        ("\uff0d2", True),
        ("\uff20sum", True),
        (" plain", False),
        ("\uff11=2", False),  # full-width digit
        ("", False),
    ],
)
def test_what_a_spreadsheet_would_run_is_escaped(text: str, is_escaped: bool) -> None:
    line = csv_text(pl.DataFrame({"agent": [text]})).splitlines()[1].strip('"')

    assert line == f"'{text}" if is_escaped else line == text


def test_a_short_key_keeps_the_window_and_the_beginning_of_the_session_id() -> None:
    whole = "f9ee754e-daba-49b9-a757-59c5984dedbd#scout-2"
    assert short_key(whole) == "f9ee754e…#scout-2"
    assert short_key("s1#baseline-1") == "s1#baseline-1"
    assert short_key("no window") == "no window"
