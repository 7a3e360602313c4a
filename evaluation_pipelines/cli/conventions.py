"""What commands share: exit codes, arguments, and groups that list by default."""

from collections.abc import Mapping
from math import isnan
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

FAILED = 1
USAGE = 2
NOTHING = 3
"""Nothing was there to be done, where a script has to know: it may stop asking."""

PARTLY = 4
"""Partly done: standard error names what is missing."""

MEANINGS = {
    0: "done",
    FAILED: "failed: the error suggests a fix (`gate`: worse)",
    USAGE: "a wrong option or argument",
    NOTHING: "nothing left to do (`gate`: not decided)",
    PARTLY: "partly done, the rest is listed on standard error",
}


def of_parts(done: int, missing: int) -> int:
    """Return the code of something that has parts: done, partly done, or failed."""
    if not missing:
        return 0
    return PARTLY if done else FAILED


def refuse_unused(command: str, options: Mapping[str, bool]) -> None:
    """Refuse options that would have no effect on a command.

    Args:
        command: The command.
        options: Whether each option is given in vain.

    Raises:
        BadParameter: One is.
    """
    if unused := [name for name, is_unused in options.items() if is_unused]:
        raise typer.BadParameter(f"{', '.join(unused)}: not for {command}")


def known_number(value: float | None) -> float | None:
    """Refuse nan, which is in no range and outside of none; a callback of options."""
    if value is not None and isnan(value):
        raise typer.BadParameter("nan is not a number")
    return value


SESSION = typer.Argument(
    metavar="SESSION", help="A session key or session id, or the start of one."
)
OPTIONAL_SESSION = typer.Argument(
    metavar="[SESSION]", help="A session key or session id, or the start of one."
)
ORGANIZATION = typer.Option(
    "--organization", metavar="NAME", help="Organization, if several have this session."
)

OTLP_PORT, GRPC_PORT = 4318, 4317
"""Where agents send OTLP over HTTP and over gRPC unless they are given another address."""


class DefaultCommandGroup(TyperGroup):
    """Command group that runs ``default`` if the arguments do not begin with a command.

    Attributes:
        default: Name of the command.
        runs_alone: Whether it also runs without any argument.
    """

    default: ClassVar[str]
    runs_alone: ClassVar[bool] = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of the default command if the arguments do not name a command."""
        is_help = bool(args) and args[0] in ctx.help_option_names
        is_named = bool(args) and args[0] in self.commands
        runs = self.runs_alone and not ctx.resilient_parsing  # a shell that completes runs nothing
        if not (is_help or is_named) and (args or runs):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands that begin so, or the options of the default command."""
        if not (self.runs_alone and incomplete.startswith("-")):
            return super().shell_complete(ctx, incomplete)
        command = self.commands[self.default]
        with command.make_context(self.default, [], parent=ctx, resilient_parsing=True) as default:
            return command.shell_complete(default, incomplete)


class ListGroup(DefaultCommandGroup):
    """Command group that lists if no command is named: ``keys`` is ``keys list``."""

    default = "list"
    runs_alone = True
