"""What people see in a terminal: progress bars, tables and texts that cannot harm it."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper

import polars as pl
from rich.box import SIMPLE_HEAD
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
_LONGEST_CELL = 120


def sanitize(text: str) -> str:
    """Text without what a terminal would obey: telemetry and file names may hold escape sequences.

    Newlines stay, every other character that is not printable becomes a replacement character.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )


def one_line(text: str) -> str:
    """Harmless text that cannot pretend to be several lines of output."""
    return sanitize(text.replace("\n", "\0"))


def shown(value: object) -> Text:
    """A value in a cell: on one line, cut when it is very long, and no markup."""
    if value is None:
        return Text("-", style="dim")
    cell = one_line(str(value))
    if len(cell) > _LONGEST_CELL:
        cell = f"{cell[: _LONGEST_CELL - 1]}…"
    return Text(cell, style=_COLOURS.get(cell, ""))


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], essential: int
) -> None:
    """Print rows; a column whose name ends in a blank and ``#`` holds numbers.

    No cell is ever cut to fit: on a narrow screen the columns after the first ``essential`` ones
    are left out, the last ones first, and it is said so.
    """
    cells = [list(map(shown, row)) for row in rows]
    console = Console()
    # Measured without a limit: what the table needs, not what it could be squeezed into.
    boundless = console.options.update(width=100_000)
    for count in range(len(columns), essential - 1, -1):
        table = _table(columns[:count], [row[:count] for row in cells])
        width = console.measure(table, options=boundless).maximum
        if width <= console.width or not console.is_terminal:
            break
    print_line(title)
    Console(width=width).print(table)
    if left_out := [column.removesuffix(" #") for column in columns[count:]]:
        print_line(f"(a wider window also shows: {', '.join(left_out)})")


def _table(columns: Sequence[str], rows: Iterable[Sequence[Text]]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        number = column.endswith(" #")
        name = column.removesuffix(" #")
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def print_line(text: str = "") -> None:
    """Print a line (or several) of plain text."""
    sys.stdout.write(f"{sanitize(text)}\n")


def print_error(text: str) -> None:
    """Print a line (or several) where errors go."""
    sys.stderr.write(f"{sanitize(text)}\n")


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun: "1 line", "2 lines"."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def never_fail_on_letters() -> None:
    """Let output that cannot spell a character (an old code page, say) show its number instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class ProgressBar:
    """A progress bar on standard error."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._what = ""

    def begin(self, what: str, total: int) -> None:
        """A step of ``total`` units starts."""
        self._what = what
        self._task = self._bars.add_task(what, total=total)

    def advance(self, units: int) -> None:
        """So many more units are done."""
        if self._task is not None:
            self._bars.advance(self._task, units)

    def tell(self, detail: str) -> None:
        """Stands beside the name of the step."""
        if self._task is not None:
            self._bars.update(self._task, description=f"{self._what}, {detail}")


@contextmanager
def progress_bar(*, of_bytes: bool = False) -> Iterator[ProgressBar]:
    """A bar while something long is running; nothing at all when standard error is not a screen."""
    console = Console(stderr=True)
    amounts = (DownloadColumn(), TransferSpeedColumn()) if of_bytes else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *amounts, TimeRemainingColumn())
    with RichProgress(*columns, console=console, disable=not console.is_terminal) as bars:
        yield ProgressBar(bars)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def no_formula(text: str) -> str:
    """A text, with an apostrophe in front if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_of(frame: pl.DataFrame) -> str:
    """A heading and one line a row; unknown is empty. Texts are no formulas, numbers stay."""
    texts = pl.selectors.string()
    return frame.with_columns(
        texts.map_elements(no_formula, return_dtype=pl.String, skip_nulls=True)
    ).write_csv()


def one_decimal(score: float | None) -> str | None:
    """A score that was rounded already, as a person reads it."""
    return None if score is None else f"{score:.1f}"
