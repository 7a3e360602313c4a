"""Write ``docs/commands.md`` from the help of the program.

Run it with ``python -m evaluation_pipelines_tests.docs.commands``.
"""

import re
from collections import Counter
from collections.abc import Iterator

import click
import typer

from evaluation_pipelines.cli.conventions import MEANINGS
from evaluation_pipelines.cli.program import app
from evaluation_pipelines_tests.docs.documents import FOLDER

PAGE = FOLDER / "commands.md"

_HEAD = """# Commands

Every command of `evaluation-pipelines`, generated from its help. Commands that only read create
nothing. Exit codes:

{codes}

`SESSION` is a session id, the key of a session window, or the beginning of one, also as tables
shorten it (`f9ee754e…#scout-1`). The first format of a command is its default: `table` for people,
`json` and `csv` for programs. JSON is one object; a list is its `items`. Notes go to standard
error. `source <(evaluation-pipelines --completion bash)` completes commands and options, also in
zsh; `evaluation-pipelines --completion fish` prints the script of fish. `keys` is `keys list`, and
likewise of every group with a list.

These options are shared by several commands, which only name them:
""".format(codes="\n".join(f"* {code}: {meaning}" for code, meaning in MEANINGS.items()))
_CONDITIONS = (
    *("--from", "--to", "--person", "--team", "--repository", "--branch", "--environment"),
    *("--agent", "--program", "--masque", "--model", "--variant", "--label", "--attribute"),
)
_SHARED_BY = 3
"""Options of this many commands are explained once."""

_Entry = tuple[str, str]
"""An option as it is typed, and its meaning."""


def commands_markdown() -> str:
    """Return the whole page."""
    program = typer.main.get_command(app)
    context = click.Context(program, info_name="evaluation-pipelines")
    commands = list(_commands(program, context))
    uses = Counter(each for command, below in commands for each in _options(command, below))
    shared = {each for each, times in uses.items() if times >= _SHARED_BY}
    meanings: dict[str, list[str]] = {}
    for name, text in filter(shared.__contains__, uses):
        meanings.setdefault(name, []).append(text)
    explained = [(name, " Or: ".join(texts)) for name, texts in meanings.items()]
    others = [_line(each) for each in explained if not _is_condition(each)]
    conditions = [_line(each) for each in explained if _is_condition(each)]
    sections = [_section(command, below, shared) for command, below in commands]
    return "\n".join([_HEAD, *others, "", "Conditions:", "", *conditions, "", *sections])


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


def _section(command: click.Command, context: click.Context, shared: set[_Entry]) -> str:
    path = context.command_path.removeprefix("evaluation-pipelines ")
    usage = " ".join([path, *command.collect_usage_pieces(context)[1:]])  # the first: [OPTIONS]
    entries = _options(command, context)
    text = _plain(command.help or "")
    if named := _named([each for each in entries if each in shared]):
        text += f" Shared: {named}."
    own = [_line(each) for each in entries if each not in shared]
    return "\n".join([f"## `{usage}`", "", text, "", *([*own, ""] if own else [])])


def _named(shared: list[_Entry]) -> str:
    """Return the names of shared options, the conditions as one."""
    others = [f"`{name.split()[0]}`" for name, _ in shared if not _is_condition((name, ""))]
    return ", ".join([*others, *(["conditions"] if len(others) < len(shared) else [])])


def _is_condition(entry: _Entry) -> bool:
    return entry[0].split()[0] in _CONDITIONS


def _options(command: click.Command, context: click.Context) -> list[_Entry]:
    records = (
        each.get_help_record(context)
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden
    )
    return [_entry(*each) for each in records if each is not None]


def _entry(name: str, text: str) -> _Entry:
    name = re.sub(r"\s+", " ", name)
    if choices := re.match(r"--format \[(\w+)", name):
        assert f"[default: {choices[1]}]" in text, f"{name}: the default is not the first one"
        text = text.replace(f"[default: {choices[1]}]", "").removeprefix("Output format")
        text = text.strip("; .")
    return re.sub(r"(INTEGER|FLOAT)( RANGE)?$", "N", name), _plain(text)


def _line(entry: _Entry) -> str:
    name, text = entry
    return f"* `{name}`: {text}" if text else f"* `{name}`"


def _plain(text: str) -> str:
    text = re.sub(r"\[/?(?:bold|dim|italic|cyan|yellow|green|red)[^\]]*\]", "", text)
    return re.sub(r"\s+", " ", text).strip()


if __name__ == "__main__":
    PAGE.write_text(commands_markdown(), encoding="utf-8")
