"""The command-line program ``evaluation-pipelines``.

Each command is imported on first use: importing all of them takes longer than most of them run.
"""

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import click
import typer
from typer.core import TyperGroup

from evaluation_pipelines.cli.output import (
    escape_unencodable_output,
    one_line,
    print_error,
    print_line,
)
from evaluation_pipelines.errors import UserError

_COMMANDS = {
    "ingest": "ingest:ingest",
    "build": "build:build",
    "score": "score:score",
    "sessions": "sessions:app",
    "tools": "tools:tools",
    "lift": "lift:lift",
    "compare": "compare:compare",
    "books": "books:books",
    "status": "status:status",
    "parts": "parts:parts",
    "publish": "build:publish",
    "demo": "demo:demo",
    "judge": "judging.judge:judge_app",
    "judges": "scorecards.judges:app",
    "scorecards": "scorecards.scorecards:app",
    "quarantine": "quarantine:app",
    "people": "people:app",
    "forget": "forget:forget",
    "expire": "expire:expire",
    "reputation": "reputation:app",
    "serve": "serve:serve",
    "keys": "keys:app",
    "digest": "digest:digest",
    "agent-config": "agent_config:agent_config",
    "doctor": "doctor:doctor",
    "completion": "completion:completion",
}
"""Command name -> module of this package, and the function or command group in it."""

_SUMMARIES = {
    "ingest": "Read new telemetry from the landing folder into the lake.",
    "build": "Build events, sessions and scores of all dates with new telemetry, or of some dates.",
    "score": "Score telemetry files without storing anything. Default: the newest with a masque.",
    "sessions": (
        "Sessions with their scores: sessions lists them, sessions show SESSION tells all of one, "
        "sessions by person|team|repository... compares."
    ),
    "tools": "Show which tool calls were lost: failed, repeated, wasted, corrected or looping.",
    "lift": "Compare sessions with one masque to sessions without a masque.",
    "compare": "Compare models by quality and cost. Default: the last 28 complete days.",
    "books": (
        "Check the books of a day: each session has one state, and each event is counted once."
    ),
    "status": (
        "Show how far each file is read, what is built, what is in quarantine, what judging costs."
    ),
    "parts": "Print the paths of the current Parquet files of a table, one per line.",
    "publish": "Publish the tables of the lake as one database for analysts.",
    "demo": "Run all steps on recorded and generated telemetry and show the results.",
    "judge": (
        "Score sessions with the judge: judge SESSION, judge run. Show its scores, failures and "
        "spending: judge list, judge show SESSION, judge events. List the tools that it found "
        "missing: judge missing-tools. Find out what another judge did to the scores: judge "
        "changes, judge anchors. Measure how good the judge is: judge validate. Batches at the "
        "provider: judge status, judge collect."
    ),
    "judges": "Manage judge profiles: list, show, set, enable, disable, freeze, diff.",
    "scorecards": "Scorecards: query, override, audit, import, overrides, calibration, events.",
    "quarantine": "Lines that could not be read: list, show, retry.",
    "people": "Who is who: import, list, unknown.",
    "forget": (
        "Take every trace of a person, user, session or organization out of every store, for good."
    ),
    "expire": ("Delete texts, events, sessions, quarantine and landing files that have expired."),
    "reputation": "Reputation of identities over 90 days and scores of agents from 0 to 1000.",
    "serve": "Run the service: receive telemetry, keep the data current, answer. Ctrl-C stops it.",
    "keys": "Keys of the service: create, list, revoke.",
    "digest": (
        "Show a week in short: what got better and worse, verdicts, cost, losses, what is left out."
    ),
    "agent-config": "Print the settings with which an agent program sends to this service.",
    "doctor": ("Check whether telemetry arrives and everything runs, and say what to do if not."),
    "completion": "Print the script that lets a shell complete commands and options.",
}
"""Command name -> its help: all of it is shown without loading the commands."""


_SAME = {"session": "sessions"}
"""What is often typed for a command, though no list names it."""


COMPLETE_VARIABLE = "_EVALUATION_PIPELINES_COMPLETE"
"""Set by a shell that completes, with what it wants to know."""


class Commands(TyperGroup):
    """The top-level commands in their order."""

    _is_listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help of the program, with a line for each command."""
        with self._listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands that begin so, for a shell."""
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Show commands without loading them."""
        self._is_listing = True
        try:
            yield
        finally:
            self._is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; ``None`` if it does not exist."""
        if self._is_listing:
            return click.Command(cmd_name, help=_SUMMARIES[cmd_name])
        cmd_name = _SAME.get(cmd_name, cmd_name)
        # For a misspelled name, all commands are loaded so that click can suggest similar ones.
        for name in [cmd_name] if cmd_name in _COMMANDS else _COMMANDS:
            if name not in self.commands:
                self.commands[name] = _load(name)
        return self.commands.get(cmd_name)


def _load(name: str) -> Any:
    module, _, attribute = _COMMANDS[name].partition(":")
    # Nothing of what is imported is garbage, now or at the end.
    gc.disable()
    try:
        command = getattr(import_module(f"{__package__}.{module}"), attribute)
    finally:
        gc.freeze()
        gc.enable()
        if "duckdb" in sys.modules:  # it prints warnings of objects that are not collected
            atexit.register(gc.unfreeze)
    parent = typer.Typer(add_completion=False)
    # With a callback, Typer builds a group even for a single command.
    parent.callback()(lambda: None)
    if isinstance(command, typer.Typer):
        parent.add_typer(command, name=name)
    else:
        parent.command(name)(command)
    return typer.main.get_group(parent).commands[name]


app = typer.Typer(
    cls=Commands,
    help="Turn agent telemetry into trustworthy session scores.",
    no_args_is_help=True,
    suggest_commands=False,  # click does, too
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        print_line(version("evaluation-pipelines"))
        raise typer.Exit


@app.callback()
def program(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Turn agent telemetry into trustworthy session scores."""


def main() -> None:
    """Run the program; errors that users can fix are printed without a traceback."""
    escape_unencodable_output()
    os.umask(0o077)  # what commands write is private, as in ``storage/store.py``
    gc.freeze()  # what is imported by now is never garbage
    if COMPLETE_VARIABLE in os.environ:
        from evaluation_pipelines.cli.completion import enable_completion

        enable_completion()
    try:
        app()
    except UserError as error:
        print_error(f"error: {error}")
        raise SystemExit(1) from None
    except OSError as error:
        where = f"{one_line(str(error.filename))}: " if error.filename else ""
        print_error(f"error: {where}{error.strerror or error}")
        raise SystemExit(1) from None
