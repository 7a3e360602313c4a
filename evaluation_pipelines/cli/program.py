"""The command-line program ``evaluation-pipelines``.

Each command is imported on first use: importing all of them takes longer than most of them run.
"""

import atexit
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import click
import typer
from typer.core import TyperGroup

from evaluation_pipelines.cli.conventions import USAGE
from evaluation_pipelines.cli.output import (
    discard_output,
    escape_unencodable_output,
    one_line,
    print_error,
    print_line,
    write_output,
)
from evaluation_pipelines.errors import UserError


class Entry(NamedTuple):
    """A command before it is loaded: where it is, and its line in the help of the program."""

    target: str
    panel: str
    summary: str


_FIRST, _DAILY, _JUDGE = "First steps", "Every day", "Scores and judges"
_COMPARE, _PEOPLE, _RUN = "Compare", "People and data protection", "Run the installation"

COMMANDS = {
    "demo": Entry("demo:demo", _FIRST, "Run all steps on sample telemetry and show the results."),
    "agent-config": Entry(
        "agent_config:agent_config",
        _FIRST,
        "Print the telemetry settings of an agent program or library.",
    ),
    "score": Entry("score:score", _FIRST, "Score telemetry files without storing anything."),
    "doctor": Entry("status:doctor", _FIRST, "Check the installation and suggest fixes."),
    "status": Entry(
        "status:status", _DAILY, "Show open items, progress, built dates and judge cost."
    ),
    "sessions": Entry("sessions:sessions", _DAILY, "List sessions with scores, or compare groups."),
    "show": Entry("show:show", _DAILY, "Show one session: facts, scores, reasons, lost calls."),
    "tools": Entry("tools:tools", _DAILY, "Show lost tool calls: failed, repeated, wasted."),
    "books": Entry("books:books", _DAILY, "Check that a day's sessions and events add up."),
    "digest": Entry("digest:digest", _DAILY, "Summarize a week: changes, verdicts, cost, losses."),
    "judge": Entry("judging.judge:app", _JUDGE, "Judge sessions, and list the judge's scores."),
    "scorecards": Entry(
        "scorecards.scorecards:app", _JUDGE, "List scorecards, and override their scores."
    ),
    "profiles": Entry("scorecards.profiles:app", _JUDGE, "List and change judge profiles."),
    "compare": Entry("compare:compare", _COMPARE, "Compare models or other groups of sessions."),
    "gate": Entry("gate:gate", _COMPARE, "Pass or fail a change by the runs of two arms."),
    "experiment": Entry("experiment:app", _COMPARE, "Assign sessions or people to arms at random."),
    "lift": Entry("lift:lift", _COMPARE, "Compare sessions with and without a masque."),
    "reputation": Entry("reputation:app", _COMPARE, "Rank agents, 0 to 1000, and identities."),
    "people": Entry("people:app", _PEOPLE, "List people and their ids, or unknown ids."),
    "keys": Entry("keys:app", _PEOPLE, "Create, list and revoke keys of the service."),
    "forget": Entry("erasure:forget", _PEOPLE, "Erase a person, session or organization."),
    "expire": Entry("erasure:expire", _PEOPLE, "Delete expired text, events and files."),
    "ingest": Entry("ingest:ingest", _RUN, "Read new telemetry from the landing folder."),
    "build": Entry("build:build", _RUN, "Build tables for dates with new telemetry."),
    "publish": Entry("build:publish", _RUN, "Publish the tables as a database for analysts."),
    "evaluations": Entry(
        "evaluations:evaluations", _RUN, "List receivers of evaluations, and send to them."
    ),
    "quarantine": Entry("quarantine:app", _RUN, "List unreadable lines, and read them again."),
    "serve": Entry("serve:serve", _RUN, "Run the service: receiver, API and web pages."),
    "mcp": Entry("serve:mcp", _RUN, "Answer an agent's questions about sessions over MCP."),
    "settings": Entry("settings:settings", _RUN, "List the settings and their values."),
}
"""Command name -> its place in this package and its line of help, shown without loading it."""

_PROGRAM = "evaluation-pipelines"
_RENAMED = {
    "session": "show",
    "sessions list": "sessions",
    "sessions by": "sessions --by",
    "sessions show": "show",
    "parts": "publish --files",
    "completion": "--completion",
    "judge show": "show SESSION --judge",
    "judge obsolete": "judge list obsolete",
    "judge events": "judge list events",
    "judge missing-tools": "judge list missing-tools",
    "judge status": "judge list batches",
    "judge collect": "judge run --collect",
    "judge anchors": "judge changes --anchors",
    "judges": "profiles",
    "judges list": "profiles list",
    "judges show": "profiles list PROFILE",
    "judges set": "profiles set",
    "judges enable": "profiles switch PROFILE on",
    "judges disable": "profiles switch PROFILE off",
    "scorecards query": "scorecards list",
    "scorecards overrides": "scorecards list overrides",
    "scorecards events": "scorecards list events",
    "scorecards import": "scorecards override --import",
    "quarantine show": "quarantine list ENTRY",
    "people unknown": "people list unknown",
    "reputation leaderboard": "reputation list",
    "reputation show": "reputation list AGENT",
    "reputation identities": "reputation list --identities",
    "reputation status": "reputation list --tables",
    "reputation migrate": "reputation update --tables",
}
"""Old name of a command -> its new name."""

_GONE = {
    "judges diff": "compare the versions that profiles list PROFILE --version prints",
    "judges freeze": "set frozenUntil in the profile's file",
    "scorecards audit": "review sessions on the page /reviews of evaluation-pipelines serve",
}
"""Name of a removed command -> what to do instead."""


def renamed(words: Sequence[str]) -> str | None:
    """Return the answer to the old name of a command; ``None`` if the words begin with none."""
    for name in (" ".join(words[:2]), *words[:1]):
        if name in _GONE:
            return f"{_PROGRAM} {name} is gone: {_GONE[name]}."
        if name in _RENAMED:
            return f"{_PROGRAM} {name} is now {_PROGRAM} {_RENAMED[name]}."
    return None


_COMPLETE_VARIABLE = "_EVALUATION_PIPELINES_COMPLETE"
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
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that arguments name; answer an old name with the new one."""
        if (answer := renamed(args)) is not None and not ctx.resilient_parsing:
            print_error(f"error: {one_line(answer)}")
            ctx.exit(USAGE)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; ``None`` if it does not exist."""
        if self._is_listing:
            command = click.Command(cmd_name, help=COMMANDS[cmd_name].summary)
            command.rich_help_panel = COMMANDS[cmd_name].panel  # type: ignore[attr-defined]
            return command
        # For a misspelled name, all commands are loaded so that click can suggest similar ones.
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = _load(name)
        return self.commands.get(cmd_name)


def _load(name: str) -> Any:
    module, _, attribute = COMMANDS[name].target.partition(":")
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
    help="Score AI agent sessions, rate agents and compare models from telemetry.",
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


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def _print_completion(shell: Shell | None) -> None:
    if shell is not None:
        from typer._completion_shared import get_completion_script

        script = get_completion_script(
            prog_name=_PROGRAM, complete_var=_COMPLETE_VARIABLE, shell=shell.value
        )
        write_output(f"{script}\n")
        raise typer.Exit


@app.callback()
def program(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    _completion: Annotated[
        Shell | None,
        typer.Option(
            "--completion",
            metavar="bash|zsh|fish",
            callback=_print_completion,
            is_eager=True,
            help="Print the shell's completion script and exit.",
        ),
    ] = None,
) -> None:
    """Score AI agent sessions, rate agents and compare models from telemetry."""


def _is_read() -> bool:
    """Return whether the rest of the output arrives."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return False
    return True


def main() -> None:
    """Run the program; errors that users can fix are printed without a traceback."""
    escape_unencodable_output()
    os.umask(0o077)  # what commands write is private, as in ``storage/store.py``
    gc.freeze()  # what is imported by now is never garbage
    if _COMPLETE_VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    code: str | int | None = 1
    try:
        app()
    except SystemExit as end:
        # A reader that has gone, such as ``head``, is no error; what failed before it stays one.
        code = 0 if isinstance(end.__context__, BrokenPipeError) else end.code
    except UserError as error:
        print_error(f"error: {error}")
    except OSError as error:
        where = f"{one_line(str(error.filename))}: " if error.filename else ""
        print_error(f"error: {where}{error.strerror or error}")
    if not _is_read():
        discard_output()
    raise SystemExit(code)
