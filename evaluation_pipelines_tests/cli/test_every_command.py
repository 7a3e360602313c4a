"""All commands alike: formats, exit codes, and names that are typed short."""

import csv
import io
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
import typer
from rich.text import Text

from evaluation_pipelines.cli import conventions, output
from evaluation_pipelines.cli.program import _GONE, _RENAMED, app
from evaluation_pipelines.cli.program import COMMANDS as SUMMARIES
from evaluation_pipelines_tests.cli.test_filters import COMMANDS, built, options
from evaluation_pipelines_tests.program import SCRIPT, Program
from evaluation_pipelines_tests.world import session

BY = "--annotator eve --reason seen"
SAY_ONE_LINE = {
    *("profiles set", "profiles switch", "scorecards override", "quarantine retry"),
    *("people import", "keys create", "keys revoke", "reputation update", "reputation retract"),
    *("demo", "serve", "mcp", "agent-config", "experiment create", "experiment assign"),
}
"""Commands that do something and print what they did, not data."""

READS = {
    "score logs.jsonl": 1,
    "sessions": 2,
    "sessions --by model": 2,
    "show a": None,
    "show a --transcript": None,
    "tools --fleet": 3,
    "tools a": None,
    "lift": 0,
    "compare": None,
    "books 2026-06-01": 1,
    "status": 2,
    "settings": None,
    "publish --files agent_sessions": 2,
    "judge list": 0,
    "judge list obsolete": 0,
    "judge list batches": 0,
    "judge list events": 0,
    "judge list missing-tools": 0,
    "judge changes": 0,
    "profiles": 5,
    "profiles list code-hybrid": None,
    "scorecards --date 2026-06-01": 1,
    "scorecards list overrides": 2,
    "scorecards list events": 4,
    "scorecards calibration": 1,
    "quarantine": 1,
    "quarantine --entries": 1,
    "people": 0,
    "people list unknown": 2,
    "keys": 0,
    "forget --session a --dry-run": 1,
    "expire --dry-run": 0,
    "ingest": None,
    "build": 0,
}
"""Command -> items of its list after ``built`` and a bad line; ``None`` if it is no such list."""


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - SAY_ONE_LINE))
def test_every_command_that_prints_data_has_the_three_formats(name: str) -> None:
    assert "--format" in options(name)
    (option,) = (param for param in COMMANDS[name].params if "--format" in param.opts)
    assert {"table", "json", "csv"} <= {str(choice) for choice in option.type.choices}  # type: ignore[attr-defined]


def test_commands_that_print_no_data_are_known() -> None:
    assert {name for name in COMMANDS if "--format" not in options(name)} == SAY_ONE_LINE


def test_there_are_at_most_forty_commands_and_those_of_later_features() -> None:
    assert len(COMMANDS) <= 46


@pytest.mark.parametrize("name", [*_RENAMED, *_GONE])
def test_an_old_name_answers_with_the_new_one_and_does_not_run(program: Program, name: str) -> None:
    ran = program(*name.split(), "a")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(f"error: evaluation-pipelines {name} is ")
    assert list(program.folder.iterdir()) == []
    first, *_ = _RENAMED.get(name, "sessions").split()
    assert first in {"--completion", *(command.split()[0] for command in COMMANDS)}


def test_the_help_has_one_line_of_80_columns_for_each_command(program: Program) -> None:
    program.set("COLUMNS", "80")
    lines = program("--help").out.splitlines()
    assert max(map(len, lines)) <= 80
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    for name, entry in SUMMARIES.items():
        (row,) = (line for line in lines if line.startswith(f"│ {name} "))
        assert entry.summary in row
        command = group.get_command(click.Context(group), name)
        assert command is not None
        assert entry.summary == " ".join((command.help or "").partition("\n\n")[0].split())


Arguments = tuple[Sequence[str], Sequence[Sequence[Text]], int]
"""Columns, cells, and the number of essential columns of a table."""


def tables_of(program: Program, monkeypatch: pytest.MonkeyPatch) -> list[Arguments]:
    found, fitted = list[Arguments](), output.fitted

    def noted(
        columns: Sequence[str], cells: Sequence[Sequence[Text]], essential: int, room: int
    ) -> output.Layout:
        found.append((columns, cells, essential))
        return fitted(columns, cells, essential, room)

    with monkeypatch.context() as patch:
        patch.setattr(output, "fitted", noted)
        for command in [*READS, "settings --all", "doctor --offline"]:
            program(*command.split())
    return found


def test_every_table_fits_its_window_and_cuts_no_number(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = f"{'x' * 8}-daba-49b9-a757-59c5984dedbd"
    built(program)
    more = session(long, organization__id="o" * 40, masque__name="m" * 12)
    (program.folder / "logs.jsonl").write_bytes(more)
    program.land("more.jsonl", more + b"not json\n")
    for command in ("ingest", "build", f"scorecards override {long} --confirm {BY}"):
        program(*command.split())
    tables = tables_of(program, monkeypatch)
    assert len(tables) >= 20
    for room, (columns, cells, essential) in itertools.product((80, 120, 160), tables):
        layout = output.fitted(columns, cells, essential, room)
        assert layout.width <= room, columns
        assert len(layout.shown) >= min(essential, 4), columns
        for at, width in zip(layout.shown, layout.widths, strict=True):
            if columns[at].endswith(output.NUMBER) or columns[at] == "entry":
                assert width >= max(row[at].cell_len for row in cells), columns[at]


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
        table = command.removesuffix(" --transcript")  # a transcript is no table
        rows = list(csv.reader(io.StringIO(program(*table.split(), "--format", "csv").out)))
        assert len({len(row) for row in rows}) == 1, command
        assert items is None or len(rows) == items + 1, command
    assert counts == READS


def test_one_session_is_told_on_one_screen(program: Program) -> None:
    built(program)
    shown = program("show", "a")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("a#baseline-1 of default\n")
    for part in ("repository shop, branch main", "model aspen-4", "prompts 1, tool calls 1"):
        assert part in shown.out
    assert "\nscore: 50.0 of 100, yellow, by eve\n" in shown.out
    whole = program("show", "a", "--transcript")
    assert re.search(r"^ +0:01   Read: ok", whole.out, re.MULTILINE)
    record = json.loads(program("show", "a", "--format", "json").out)
    assert "user_email" not in record["session"]  # EVAL_PEOPLE_VIEW is team
    assert record["evaluation"]["score_100"] == 50
    assert program("show", "a").out == shown.out


def test_ids_are_found_by_their_beginning(program: Program) -> None:
    one, two = "f9ee754e-daba-49b9", "f9ee7777-0000-0000"
    program.land("logs.jsonl", session(one) + session(two))
    program("ingest")
    program("build")
    for name in ("f9ee754", f"{one}#base", "f9ee754e…#baseline-1", "f9ee754e#baseline-1"):
        assert program("show", name).out.startswith(f"{one}#baseline-1 of "), name
    said = ("--score", "50", "--annotator", "eve", "--reason", "seen")
    for command in (
        ("tools", "f9ee754"),
        ("scorecards", "list", "--session", "f9ee754"),
        ("scorecards", "override", "f9ee754", *said),
        ("score", "data/landing", "--session", "f9ee754"),
    ):
        assert program(*command).code == 0, command
    several = program("show", "f9ee7")
    assert (several.code, several.out) == (1, "")
    assert several.err == (
        f"error: Several sessions start with f9ee7: {one}#baseline-1, {two}#baseline-1\n"
    )
    assert "There is no session abc" in program("show", "abc").err


def test_the_exit_codes_are_listed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
    for code, meaning in conventions.MEANINGS.items():
        assert f"* {code}: {meaning}" in page


@pytest.mark.parametrize(("done", "missing", "code"), [(2, 0, 0), (0, 0, 0), (1, 1, 4), (0, 1, 1)])
def test_what_has_parts_is_done_partly_or_failed(done: int, missing: int, code: int) -> None:
    assert conventions.of_parts(done, missing) == code


def completed(words: str) -> list[str]:
    """Return what bash offers for the last of some words."""
    script = subprocess.run(
        [SCRIPT, "--completion", "bash"], capture_output=True, text=True, check=True
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
    assert completed("evaluation-pipelines pu") == ["publish"]
    assert completed("evaluation-pipelines judge li") == ["list"]
    assert completed("evaluation-pipelines show --tr") == ["--transcript"]
    assert completed("evaluation-pipelines keys c") == ["create"]
    assert completed("evaluation-pipelines keys --fo") == ["--format"]  # of keys list


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(program: Program, shell: str) -> None:
    ran = program("--completion", shell)
    assert (ran.code, f"complete_{shell}" in ran.out) == (0, True)
