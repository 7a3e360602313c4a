"""What reaches a screen or a pipe: harmless whatever telemetry holds, and readable."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from evaluation_pipelines.cli.output import one_line, print_table, sanitize
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.program import SCRIPT, Program

EVIL = "\x1b[31m[red]bold[/red]\n- a: b # \x9b2J\u202e\u2028\r\x07'\"{}"
"""Escape sequences, markup of our table library, a new line, what ends a line or turns letters."""


def session(name: str, model: str = "m", **resource: object) -> bytes:
    """A session of one prompt, one answer and one good tool call."""
    return line(
        claude("user_prompt", session__id=name),
        claude("api_request", 1, session__id=name, model=model, output_tokens=1),
        claude("tool_result", 2, session__id=name, tool_name=EVIL, success="true"),
        **resource,
    )


def assert_harmless(output: str) -> None:
    assert output.replace("\n", "").isprintable()


# -- telemetry that means harm ---------------------------------------------------------------------


def test_evil_names_are_harmless_in_yaml_and_survive_it(program: Program) -> None:
    ran = program("score", "-", stdin=session("s", masque__name=f"{EVIL}\0"))
    assert ran.code == 0
    assert_harmless(ran.out)
    document = yaml.safe_load(ran.out)
    assert document["masque"] == EVIL
    assert len(document) == 6


def test_evil_names_are_harmless_in_json_and_survive_it(program: Program) -> None:
    content = session(EVIL, masque__name=EVIL)
    ran = program("score", "-", "--format", "json", stdin=content)
    assert_harmless(ran.out)
    (record,) = json.loads(ran.out)
    assert (record["masque"], record["session_id"]) == (EVIL, EVIL)
    # The key from there finds the session again.
    again = program("score", "-", "--session", record["session_key"], stdin=content)
    assert yaml.safe_load(again.out)["masque"] == EVIL


def test_evil_names_make_no_more_documents_of_a_stream(program: Program) -> None:
    content = session(f"---\n{EVIL}") + session("good")
    ran = program("score", "-", "--all", stdin=content)
    assert_harmless(ran.out)
    assert [each["masque"] for each in yaml.safe_load_all(ran.out)] == ["baseline", "baseline"]


def test_evil_names_fill_one_line_of_a_table_and_are_no_markup(program: Program) -> None:
    content = session(EVIL, EVIL, masque__name=EVIL)
    ran = program("score", "-", "--format", "table", stdin=content)
    assert_harmless(ran.out)
    _, _, rows = ran.out.partition("─\n")
    assert len(rows.splitlines()) == 1
    assert rows.count("\ufffd[31m[red]bold[/red]\ufffd- a: b") == 3  # key, masque and model


def test_evil_names_are_harmless_wherever_the_stores_show_them(program: Program) -> None:
    foreign = claude("x", event__name=EVIL)
    program.land("logs.jsonl", session(EVIL, EVIL, masque__name=EVIL))
    program.land("other.jsonl", line({**foreign, "body": {}}).replace(b"anthropic", b"\\u001b[0m"))
    program.land(f"{EVIL.replace('/', '')}.jsonl.gz", b"")
    for command in ("ingest", "build", "sessions", "status"):
        ran = program(command)
        assert ran.code == 0
        assert_harmless(ran.out + ran.err)
    assert "not stored: 1 record" in ran.out


def test_evil_arguments_come_back_harmless(program: Program) -> None:
    for arguments in (
        ("score", EVIL),
        ("score", "-", "--session", EVIL),
        ("build", "--date", EVIL),
    ):
        ran = program(*arguments, stdin=session("s"))
        assert ran.code in (1, 2)
        assert_harmless(ran.err)


def test_harmless_text_keeps_its_lines_and_one_line_keeps_to_one() -> None:
    assert sanitize("Zoë\n\x1b[1m") == "Zoë\n\ufffd[1m"
    assert one_line("a\nb") == "a\ufffdb"


# -- screens ---------------------------------------------------------------------------------------

COLUMNS = ("key", "score #", "note")
ROWS = [("k" * 30, 9.5, "n" * 30), ("k", None, "n" * 500)]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A terminal without colours, of 80 columns."""
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_pipe_gets_every_column_and_cells_cut_only_when_absurd(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("Title", COLUMNS, ROWS, essential=1)
    title, heading, rule, first, second = capsys.readouterr().out.splitlines()
    assert (title, heading.split(), set(rule)) == ("Title", ["key", "score", "note"], {"─"})
    assert first.split() == ["k" * 30, "9.5", "n" * 30]
    assert second.split() == ["k", "-", "n" * 119 + "…"]


@pytest.mark.usefixtures("screen")
def test_a_narrow_screen_leaves_out_the_last_columns_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("Title", COLUMNS, ROWS, essential=2)
    shown = capsys.readouterr().out
    assert "nnn" not in shown
    assert "9.5" in shown
    assert shown.endswith("(a wider window also shows: note)\n")


def test_what_is_essential_is_never_cut(
    screen: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.setenv("COLUMNS", "10")
    print_table("Title", COLUMNS, ROWS, essential=2)
    shown = capsys.readouterr().out
    assert "k" * 30 in shown
    assert "9.5" in shown


def test_a_wide_screen_shows_everything(
    screen: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.setenv("COLUMNS", "200")
    print_table("Title", COLUMNS, ROWS, essential=1)
    assert "wider" not in capsys.readouterr().out


# -- processes and pipes ---------------------------------------------------------------------------


def test_in_a_pipe_there_is_nothing_but_the_result(program: Program) -> None:
    """No progress bar and no colour."""
    program.land("logs.jsonl", session("s"))
    ran = program.process("ingest")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("ingest: 1 line ")
    assert_harmless(ran.out)


def test_the_exit_code_of_a_mistake_is_1_and_its_message_one_line(program: Program) -> None:
    ran = program.process("score", "missing.jsonl")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "error: missing.jsonl: No such file or directory\n"


def test_an_output_that_cannot_spell_a_name_shows_its_numbers(program: Program) -> None:
    content = session("s", masque__name="Gärtner 花")
    ran = program.process("score", "-", stdin=content, PYTHONIOENCODING="ascii")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == r"masque: G\xe4rtner \u82b1"


def test_a_reader_that_goes_away_is_no_crash(program: Program) -> None:
    content = b"".join(session(f"{n:0500}") for n in range(300))  # more than a pipe holds
    (program.folder / "logs.jsonl").write_bytes(content)
    command = [str(SCRIPT), "score", "--all", "--format", "json", "logs.jsonl"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=program.folder
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"["
        process.stdout.close()
        complaints = process.stderr.read().decode()
    assert complaints == ""


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_a_named_pipe_can_be_scored(program: Program) -> None:
    pipe = Path(program.folder / "pipe")
    os.mkfifo(pipe)
    with subprocess.Popen([str(SCRIPT), "score", "pipe"], cwd=program.folder) as process:
        pipe.write_bytes(session("s"))
    assert process.returncode == 0
