"""The commands of the terminal program, each imported when it is asked for.

Importing all of them takes longer than most of them run.
"""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

_PLACES = {
    "ingest": "telemetry:ingest",
    "build": "telemetry:build",
    "score": "sessions:score",
    "sessions": "sessions:sessions",
    "tools": "tools:tools",
    "lift": "lift:lift",
    "compare": "compare:compare",
    "books": "books:books",
    "status": "telemetry:status",
    "publish": "telemetry:publish",
    "demo": "demo:demo",
    "judge": "judge:judge_app",
    "judges": "judges:app",
    "scorecards": "scorecards:app",
    "quarantine": "quarantine:app",
    "reputation": "reputation:app",
}
"""Name of a command -> module of this package, and the function or group of commands in it."""


class Commands(TyperGroup):
    """The commands in their order."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(_PLACES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None when there is none of that name."""
        # Of a misspelt name all are looked at: which one may have been meant?
        for name in [cmd_name] if cmd_name in _PLACES else _PLACES:
            if name not in self.commands:
                self.commands[name] = _imported(name)
        return self.commands.get(cmd_name)


def _imported(name: str) -> Any:
    module, _, what = _PLACES[name].partition(":")
    found = getattr(import_module(f"{__package__}.{module}"), what)
    alone = typer.Typer(add_completion=False)
    alone.callback()(lambda: None)  # a group, though of one
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    return typer.main.get_group(alone).commands[name]
