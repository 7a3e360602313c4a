"""All commands alike: formats, exit codes, and names that are typed short."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation_pipelines.cli import exits
from evaluation_pipelines_tests.cli.test_filters import COMMANDS, built, options
from evaluation_pipelines_tests.program import SCRIPT, Program
from evaluation_pipelines_tests.world import session

SAY_ONE_LINE = {
    *("judge anchors", "judges set", "judges disable", "judges enable", "judges freeze"),
    *("scorecards override", "scorecards import", "quarantine retry", "people import"),
    *("keys create", "keys revoke", "reputation update", "reputation retract"),
    *("demo", "serve", "completion", "agent-config"),
}
"""Commands that do something and print what they did, not data."""

READS = {
    "score logs.jsonl": 1,
    "sessions": 2,
    "sessions list": 2,
    "sessions by model": 2,
    "sessions show a": None,
    "sessions show a --transcript": None,
    "tools --fleet": 3,
    "tools a": None,
    "lift": 0,
    "compare": None,
    "books 2026-06-01": 1,
    "status": 2,
    "parts agent_sessions": 2,
    "judge obsolete": 0,
    "judge status": 0,
    "judge list": 0,
    "judge events": 0,
    "judge missing-tools": 0,
    "judge changes": 0,
    "judges list": 5,
    "judges show code-hybrid": None,
    "judges diff code-hybrid": 0,
    "scorecards query --date 2026-06-01": 1,
    "scorecards overrides": 2,
    "scorecards audit --list": 2,
    "scorecards calibration": 1,
    "scorecards events": 4,
    "quarantine list": 1,
    "quarantine list --entries": 1,
    "people list": 0,
    "people unknown": 2,
    "keys list": 0,
    "forget --session a --dry-run": 1,
    "expire --dry-run": 0,
    "ingest": None,
    "build": 0,
}
"""Command -> items of its list after ``built`` and a bad line; ``None`` if it is no such list."""


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - SAY_ONE_LINE))
def test_every_command_that_prints_data_has_the_three_formats(name: str) -> None:
    assert "--format" in options(name)
    (option,) = (each for each in COMMANDS[name].params if "--format" in each.opts)
    assert {"table", "json", "csv"} <= {str(each) for each in option.type.choices}  # type: ignore[attr-defined]


def test_commands_that_print_no_data_are_known() -> None:
    assert {name for name in COMMANDS if "--format" not in options(name)} == SAY_ONE_LINE


def refuse(word: str) -> None:
    pytest.fail(f"{word} is no JSON")


def test_json_is_an_object_and_csv_has_rows_of_one_length(program: Program) -> None:
    built(program)
    (program.folder / "logs.jsonl").write_bytes(session("s"))
    program.land("bad.jsonl", b"not json\n")
    program("ingest")
    program("build")
    counts = dict[str, int | None]()
    for command, number in READS.items():
        ran = program(*command.split(), "--format", "json")
        assert ran.code == 0, (command, ran.err)
        document = json.loads(ran.out, parse_constant=refuse)
        assert isinstance(document, dict), command
        items = len(document["items"]) if number is not None else None
        counts[command] = items
        rows = list(csv.reader(io.StringIO(program(*command.split(), "--format", "csv").out)))
        assert len({len(row) for row in rows}) == 1, command
        assert items is None or len(rows) == items + 1, command
    assert counts == READS


def test_one_session_is_told_on_one_screen(program: Program) -> None:
    built(program)
    shown = program("sessions", "show", "a")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("a#baseline-1 of default\n")
    for part in ("repository shop, branch main", "model aspen-4", "prompts 1, tool calls 1"):
        assert part in shown.out
    assert "\nscore: 50.0 of 100, yellow, by eve\n" in shown.out
    whole = program("sessions", "show", "a", "--transcript")
    assert re.search(r"^ +0:01   Read: ok", whole.out, re.MULTILINE)
    record = json.loads(program("sessions", "show", "a", "--format", "json").out)
    assert "user_email" not in record["session"]  # EVAL_PEOPLE_VIEW is team
    assert record["evaluation"]["score_100"] == 50
    assert program("session", "show", "a").out == shown.out


def test_ids_are_found_by_their_beginning(program: Program) -> None:
    one, two = "f9ee754e-daba-49b9", "f9ee7777-0000-0000"
    program.land("logs.jsonl", session(one) + session(two))
    program("ingest")
    program("build")
    for name in ("f9ee754", f"{one}#base", "f9ee754e…#baseline-1", "f9ee754e#baseline-1"):
        assert program("sessions", "show", name).out.startswith(f"{one}#baseline-1 of "), name
    said = ("--score", "50", "--annotator", "eve", "--reason", "seen")
    for command in (
        ("tools", "f9ee754"),
        ("scorecards", "query", "--session", "f9ee754"),
        ("scorecards", "override", "f9ee754", *said),
        ("score", "data/landing", "--session", "f9ee754"),
    ):
        assert program(*command).code == 0, command
    several = program("sessions", "show", "f9ee7")
    assert (several.code, several.out) == (1, "")
    assert several.err == (
        f"error: Several sessions begin with f9ee7: {one}#baseline-1, {two}#baseline-1\n"
    )
    assert "There is no session abc" in program("sessions", "show", "abc").err


def test_the_exit_codes_are_listed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
    for code, meaning in exits.MEANINGS.items():
        assert f"* {code}: {meaning}" in page


@pytest.mark.parametrize(("done", "missing", "code"), [(2, 0, 0), (0, 0, 0), (1, 1, 4), (0, 1, 1)])
def test_what_has_parts_is_done_partly_or_failed(done: int, missing: int, code: int) -> None:
    assert exits.of_parts(done, missing) == code


def completed(words: str) -> list[str]:
    """Return what bash offers for the last of some words."""
    script = subprocess.run(
        [SCRIPT, "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    number = len(words.split(" ")) - 1
    asked = f"""
        COMP_WORDS=({words}); COMP_CWORD={number}
        {script}
        function=$(complete -p evaluation-pipelines | sed -E "s/.*-F ([^ ]+) .*/\\1/")
        $function evaluation-pipelines
        printf "%s\\n" "${{COMPREPLY[@]}}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    return ran.stdout.split()


def test_bash_completes_commands_and_options() -> None:
    assert completed("evaluation-pipelines ju") == ["judge", "judges"]
    assert completed("evaluation-pipelines judge sh") == ["show"]
    assert completed("evaluation-pipelines sessions show --tr") == ["--transcript"]
    assert completed("evaluation-pipelines sessions s") == ["show"]
    assert completed("evaluation-pipelines sessions --fo") == ["--format"]  # of sessions list


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(program: Program, shell: str) -> None:
    ran = program("completion", shell)
    assert (ran.code, f"complete_{shell}" in ran.out) == (0, True)
