"""What people see in a terminal: progress bars, tables and texts that cannot harm it."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

_COLOURS = {"keep": "green", "review": "yellow", "doff": "red"}


def shown(value: object) -> Text:
    """A value as harmless text: telemetry may hold escape sequences and markup."""
    if value is None:
        return Text("-", style="dim")
    letters = (
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(value)
    )
    return Text("".join(letters), style=_COLOURS.get(str(value), ""))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows; a column whose name ends in a blank and ``#`` holds numbers."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        number = column.endswith(" #")
        table.add_column(column.removesuffix(" #"), justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(shown, row))
    console = Console()
    if not console.is_terminal:  # piped: nothing is cut to the width of a screen
        console = Console(width=500)
    console.print(table)


def say(line: str = "") -> None:
    """Print one line of plain text."""
    sys.stdout.write(f"{line}\n")


def complain(line: str) -> None:
    """Print one line where errors go."""
    sys.stderr.write(f"{line}\n")


class Bar:
    """A progress bar on standard error."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def begin(self, what: str, total: int) -> None:
        """A step of ``total`` units starts."""
        self._task = self._bars.add_task(what, total=total)

    def advance(self, units: int) -> None:
        """So many more units are done."""
        if self._task is not None:
            self._bars.advance(self._task, units)


@contextmanager
def progress_bar(*, of_bytes: bool = False) -> Iterator[Bar]:
    """A bar while something long is running; nothing at all when standard error is not a screen."""
    console = Console(stderr=True)
    amounts = (DownloadColumn(), TransferSpeedColumn()) if of_bytes else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *amounts, TimeRemainingColumn())
    with RichProgress(*columns, console=console, disable=not console.is_terminal) as bars:
        yield Bar(bars)
