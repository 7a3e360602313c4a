"""``judge SESSION`` beside ``judge show``, ``judge run`` and the others."""

from typing import Any

from typer.core import TyperGroup

ONE_SESSION = "session"
"""The command that a session without a command in front of it means."""


class JudgeGroup(TyperGroup):
    """Takes what is no command for the session of ``judge session``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the command in front where it was left out."""
        asks_for_help = bool(args) and args[0] in ctx.help_option_names
        if args and args[0] not in self.commands and not asks_for_help:
            args = [ONE_SESSION, *args]
        return super().parse_args(ctx, args)
