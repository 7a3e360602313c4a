"""Command groups with a command that runs if none is named."""

from typing import Any, ClassVar

from typer.core import TyperGroup


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
        if not (is_help or is_named) and (args or self.runs_alone):
            args = [self.default, *args]
        return super().parse_args(ctx, args)
