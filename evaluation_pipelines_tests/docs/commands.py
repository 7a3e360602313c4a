"""Write ``docs/commands.md`` from the help of the program.

Run it with ``python -m evaluation_pipelines_tests.docs.commands``.
"""

import re
from collections.abc import Iterator

import click
import typer

from evaluation_pipelines.cli.program import app
from evaluation_pipelines_tests.docs.documents import FOLDER

PAGE = FOLDER / "commands.md"

_HEAD = """# Commands

Every command of `evaluation-pipelines`, generated from its help. `SESSION` is a session id, or the
key of a session window. Commands that only read create nothing. Exit codes: 0 for success, 1 for an
error or for dates that failed, 2 for a wrong option.
"""


def commands_markdown() -> str:
    """Return the whole page."""
    program = typer.main.get_command(app)
    context = click.Context(program, info_name="evaluation-pipelines")
    return "\n".join([_HEAD, *_sections(program, context)])


def _sections(group: click.Command, context: click.Context) -> Iterator[str]:
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _sections(command, below)
        else:
            yield _section(command, below)


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    rows = [_row(each, context) for each in command.params if not getattr(each, "hidden", False)]
    table = ["| parameter | meaning |", "|---|---|", *rows, ""] if rows else []
    path = context.command_path.removeprefix("evaluation-pipelines ")
    text = _plain(command.help or "")
    return "\n".join([f"## {path}", "", f"`{usage}`", "", text, "", *table])


def _row(parameter: click.Parameter, context: click.Context) -> str:
    record = parameter.get_help_record(context)
    if record is None:
        name, text = parameter.make_metavar(context), getattr(parameter, "help", None) or ""
    else:
        name, text = record
    name = re.sub(r"\s+", " ", name).replace("|", "\\|")
    return f"| `{name}` | {_plain(text)} |"


def _plain(text: str) -> str:
    text = re.sub(r"\[/?(?:bold|dim|italic|cyan|yellow|green|red)[^\]]*\]", "", text)
    return re.sub(r"\s+", " ", text.replace("|", "\\|")).strip()


if __name__ == "__main__":
    PAGE.write_text(commands_markdown(), encoding="utf-8")
