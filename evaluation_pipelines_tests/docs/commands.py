"""Write ``docs/commands.md`` from the help of the program.

Run it with ``python -m evaluation_pipelines_tests.docs.commands``.
"""

import re
from collections.abc import Iterator

import click
import typer

from evaluation_pipelines.cli.conventions import MEANINGS
from evaluation_pipelines.cli.program import app
from evaluation_pipelines_tests.docs.documents import FOLDER

PAGE = FOLDER / "commands.md"

_HEAD = """# Commands

Every command of `evaluation-pipelines`, generated from its help. `COMMAND --help` has the
details. Commands that only read create nothing. Exit codes:

{codes}

`SESSION` is a session id, the key of a session window, or the start of one, also as tables
shorten it (`f9ee754e…#scout-1`). Lists take `--format`: `table` for people (the default), `json`
and `csv` for programs. JSON is one object, a list is its `items`. Notes go to standard error.
`source <(evaluation-pipelines --completion bash)` completes commands and options, also in zsh
(`--completion fish` prints the script of fish). `keys` is `keys list`, and likewise of every group
with a list. Conditions of several commands choose sessions:
""".format(codes="\n".join(f"* {code}: {meaning}" for code, meaning in MEANINGS.items()))
_CONDITIONS = (
    *("--from", "--to", "--person", "--team", "--repository", "--branch", "--environment"),
    *("--agent", "--program", "--masque", "--model", "--variant", "--label", "--attribute"),
)
_Entry = tuple[str, str]
"""An option as it is typed, and its meaning."""


def commands_markdown() -> str:
    program = typer.main.get_command(app)
    context = click.Context(program, info_name="evaluation-pipelines")
    commands = list(_commands(program, context))
    conditions = {
        name: text
        for command, below in commands
        for name, text in _options(command, below)
        if _is_condition(name, text)
    }
    lines = [
        f"* `{name}`: {text.removeprefix('Only sessions ')}" for name, text in conditions.items()
    ]
    rows = [_row(*command) for command in commands]
    return "\n".join([_HEAD, *lines, "", "| command | |", "|---|---|", *rows, ""])


def _commands(
    group: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, below)
        else:
            yield command, below


def _row(command: click.Command, context: click.Context) -> str:
    path = context.command_path.removeprefix("evaluation-pipelines ")
    usage = " ".join([path, *command.collect_usage_pieces(context)[1:]])  # the first: [OPTIONS]
    summary = re.split(r"(?<=\.) ", _plain(command.help or ""), maxsplit=1)[0]
    cell = usage.replace("|", "\\|")
    return f"| `{cell}` | {summary} |"


def _is_condition(name: str, text: str) -> bool:
    return name.split(maxsplit=1)[0] in _CONDITIONS and text.startswith("Only sessions")


def _options(command: click.Command, context: click.Context) -> list[_Entry]:
    records = (
        param.get_help_record(context)
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
    )
    return [_entry(*record) for record in records if record is not None]


def _entry(name: str, text: str) -> _Entry:
    name = re.sub(r"\s+", " ", name)
    if choices := re.match(r"--format \[(\w+)", name):
        assert f"[default: {choices[1]}]" in text, f"{name}: the default is not the first one"
    name = re.sub(r"\[[^\]]{60,}\]", "...", name)
    return re.sub(r"(INTEGER|FLOAT)( RANGE)?$", "N", name), _plain(text)


def _plain(text: str) -> str:
    text = re.sub(r"\[/?(?:bold|dim|italic|cyan|yellow|green|red)[^\]]*\]", "", text)
    return re.sub(r"\s+", " ", text).strip()


if __name__ == "__main__":
    PAGE.write_text(commands_markdown(), encoding="utf-8")
