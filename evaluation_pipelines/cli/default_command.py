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
