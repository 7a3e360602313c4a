"""Output of the commands: formats, tables, JSON, CSV, files, messages and progress bars.

All text is made safe for a terminal before it is printed: telemetry and file names may contain
escape sequences.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from typing import Any

import click
import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
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

from evaluation_pipelines import formatting

sanitize, one_line, csv_text = formatting.sanitize, formatting.one_line, formatting.csv_text
pluralize = formatting.pluralize
"""What commands use to print texts that others wrote."""

_COLORS = {
    "keep": "green",
    "review": "yellow",
    "doff": "red",
    **{color: color for color in ("green", "yellow", "red")},
    "Failed": "red",
}
"""Last word of a cell -> its color."""

_MAX_CELL_CHARACTERS = 120
_TEXT, _LEAST_CELL = 20, 8
"""Characters that a text keeps before columns are left out, and when nothing else helps."""

_NARROWEST = 60
"""Columns of a terminal below which cutting would leave too little of every text."""

_GAP = 3
"""Characters between two columns."""

_BAR = "    | "
_MIN_FENCED_WIDTH = 20

OUTPUT_FILE = typer.Option("--output", help="Write to this file, a table as csv.")


class OutputFormat(StrEnum):
    """Output formats; each command accepts some of them."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    YAML = "yaml"
    HTML = "html"
    MARKDOWN = "markdown"


DATA = (OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.CSV)
"""Formats of every command that prints data."""


def format_option(*formats: OutputFormat, help_text: str = "Output format.") -> Any:
    """Return the option ``--format`` of a command that accepts ``formats``."""
    return typer.Option("--format", click_type=_FormatChoice(formats), help=help_text)


class _FormatChoice(click.Choice[OutputFormat]):
    """Choice of formats by value; click itself chooses enum members by name."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return str(choice)


# -- Tables --------------------------------------------------------------------------------------

KEY, NUMBER = "session key", " #"
"""Heading of session keys, which their beginning names as well; end of that of numbers."""

_WHOLE = frozenset(
    {"batch", "call", "change", "entry", "id", "identity", "name", "person", "repeats call"}
    | {"setting", "version"}
)
"""Headings of names and ordinals: they are never cut, and numbers get no separators."""

_FIRST_TO_GO = ("organization", "recommendation", "masque")
"""Columns that a narrow window leaves out before all others; these go from the last."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What of a table a window has room for.

    Attributes:
        shown: Positions of the columns that are shown.
        widths: Characters of each of them.
        has_short_keys: Whether session keys are shortened.
    """

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    has_short_keys: bool

    @property
    def width(self) -> int:
        """Characters of the table."""
        return sum(self.widths) + _GAP * (len(self.widths) - 1)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], essential: int
) -> None:
    """Print a title and a table that fits the window.

    Session keys are shortened first, and long texts cut; then columns are left out. A line below
    the table names both. Numbers and ids are never cut.

    Args:
        title: Title.
        columns: Headings; a heading that ends in ``" #"`` is of a column of numbers. Whole
            numbers get separators, except for headings in _WHOLE.
        rows: Rows; ``None`` is printed as a dash.
        essential: Number of leading columns that are left out last.
    """
    are_counts = [_is_count(column) for column in columns]
    cells = [list(map(_cell, row, are_counts)) for row in rows]
    room = Console().width if Console().is_terminal else sys.maxsize
    layout = fitted(columns, cells, essential, room)
    names = [column.removesuffix(NUMBER) for column in columns]
    if layout.has_short_keys:
        at = columns.index(KEY)
        for row in cells:
            row[at].plain = short_key(row[at].plain)
    print_line(title)
    console = Console(width=layout.width)
    with console.capture() as printed:
        console.print(_table(columns, cells, layout))
    _write(printed.get())
    if left_out := [name for at, name in enumerate(names) if at not in layout.shown]:
        print_line(f"(a wider window also shows: {', '.join(left_out)})")
    natural = _widths(columns, cells)
    cut = [
        names[at]
        for at, width in zip(layout.shown, layout.widths, strict=True)
        if width < natural[at] or (layout.has_short_keys and names[at] == KEY)
    ]
    if cut:
        print_line(f"(a wider window shows in full: {', '.join(cut)})")


def fitted(
    columns: Sequence[str], cells: Sequence[Sequence[Text]], essential: int, room: int
) -> Layout:
    """Return the columns that a window of ``room`` characters shows, and their widths.

    Where less than 60 characters are left, the essential columns are shown as they are.
    """
    natural = _widths(columns, cells)
    every = Layout(tuple(range(len(columns))), tuple(natural), has_short_keys=False)
    if every.width <= room:
        return every
    if room < _NARROWEST:
        return Layout(every.shown[:essential], every.widths[:essential], has_short_keys=False)
    texts = [at for at, name in enumerate(columns) if not _is_whole(name)]
    whole = _with_short_keys(columns, cells, natural)
    for least, kept in ((_TEXT, essential), (_LEAST_CELL, essential), (_LEAST_CELL, 1)):
        narrow = [min(n, least) if at in texts else n for at, n in enumerate(whole)]
        shown = _remaining(columns, narrow, kept, room)
        if _width([narrow[at] for at in shown]) <= room:
            break
    cap = least
    while cap < room and _width([_grown(at, narrow, whole, cap + 1) for at in shown]) <= room:
        cap += 1
    widths = tuple(_grown(at, narrow, whole, cap) for at in shown)
    has_key = any(columns[at] == KEY for at in shown)
    return Layout(tuple(shown), widths, has_key and whole != natural)


def _is_whole(column: str) -> bool:
    return column.endswith(NUMBER) or column == KEY or column in _WHOLE


def _is_count(column: str) -> bool:
    return column.endswith(NUMBER) and column.removesuffix(NUMBER) not in _WHOLE


def _grown(at: int, narrow: Sequence[int], whole: Sequence[int], cap: int) -> int:
    return min(whole[at], max(narrow[at], cap))


def _with_short_keys(
    columns: Sequence[str], cells: Sequence[Sequence[Text]], natural: Sequence[int]
) -> list[int]:
    """Return the widths with shortened session keys."""
    if KEY not in columns:
        return [*natural]
    at = columns.index(KEY)
    keys = [cell_len(short_key(row[at].plain)) for row in cells]
    return [*natural[:at], max([len(KEY), *keys]), *natural[at + 1 :]]


def _remaining(columns: Sequence[str], widths: Sequence[int], kept: int, room: int) -> list[int]:
    """Return the columns that remain when those that do not fit are left out, but the first."""
    shown = list(range(len(columns)))
    going = sorted(shown[kept:], key=lambda at: (_rank(columns[at]), -at))
    for at in going:
        if _width([widths[column] for column in shown]) <= room:
            break
        shown.remove(at)
    return shown


def _rank(column: str) -> int:
    return _FIRST_TO_GO.index(column) if column in _FIRST_TO_GO else len(_FIRST_TO_GO)


def _widths(columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> list[int]:
    """Return the characters of a terminal that each column needs."""
    return [
        max([cell_len(name.removesuffix(NUMBER)), *(row[at].cell_len for row in cells)])
        for at, name in enumerate(columns)
    ]


def _width(widths: Sequence[int]) -> int:
    """Return the characters of a terminal that a table of such columns needs."""
    return sum(widths) + _GAP * (len(widths) - 1)


def _cell(value: object, is_count: bool) -> Text:
    """Return a value as one line without markup, shortened if it is very long."""
    if value is None:
        return Text("-", style="dim")
    if is_count and isinstance(value, int):
        return Text(f"{value:,}")
    cell = shortened_to(_MAX_CELL_CHARACTERS)(one_line(str(value)))
    return Text(cell, style=_COLORS.get(cell.rpartition(" ")[2], ""))


def short_key(session_key: str) -> str:
    """Return a session key with the beginning of its session id: ``f9ee754e…#scout-1``."""
    session_id, hash_sign, window = session_key.rpartition("#")
    return f"{shortened_to(9)(session_id)}{hash_sign}{window}" if hash_sign else session_key


def shortened_to(characters: int) -> Callable[[str], str]:
    """Return a function that cuts text to a number of characters, an ellipsis included."""
    return lambda text: text if len(text) <= characters else f"{text[: characters - 1]}…"


def _table(columns: Sequence[str], cells: Iterable[Sequence[Text]], layout: Layout) -> Table:
    """Return a table; with their widths given, Rich measures no cell and cuts what is longer."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for at, width in zip(layout.shown, layout.widths, strict=True):
        is_number = columns[at].endswith(NUMBER)
        name = columns[at].removesuffix(NUMBER)
        justify: JustifyMethod = "right" if is_number else "left"
        table.add_column(Text(name), justify=justify, no_wrap=True, width=width)
    for row in cells:
        table.add_row(*(row[at] for at in layout.shown))
    return table


# -- JSON, CSV and files -------------------------------------------------------------------------


def json_text(value: object, indent: int | None = 2) -> str:
    """Return a JSON document, indented unless ``indent`` is ``None``.

    Infinities and NaN, which JSON does not have, are null; times are in ISO 8601.
    """
    try:
        text = json.dumps(value, indent=indent, default=_json_value, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), indent=indent, default=_json_value, allow_nan=False)
    return f"{text}\n"


def _json_value(value: object) -> object:
    match value:
        case date():
            return value.isoformat()
        case set() | frozenset():
            return sorted(value, key=str)
        case Mapping():
            return dict(value)
    return str(value)


def _finite(value: object) -> object:
    match value:
        case float() if not isfinite(value):
            return None
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(element) for element in value]
    return value


def print_json(value: object) -> None:
    """Print a JSON document."""
    write_output(json_text(value))


def write_output(content: str | bytes, path: Path | None = None) -> None:
    """Write content to a file, which is replaced as a whole, or to standard output.

    Raises:
        OSError: The file cannot be written.
    """
    if path is not None:
        staged = path.with_name(f".{path.name}.new")
        staged.write_bytes(content.encode() if isinstance(content, str) else content)
        staged.replace(path)
    elif isinstance(content, str):
        _write(content)
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()


# -- Text ----------------------------------------------------------------------------------------


def fenced(text: str) -> str:
    """Return sanitized text of several lines behind a bar, so that it cannot imitate our output.

    Long lines are wrapped here and keep their indentation: what a terminal wraps would continue
    before the bar, and what loses its indentation could imitate a line of its own.
    """
    console = Console()
    width = max(console.width - len(_BAR), _MIN_FENCED_WIDTH)
    lines = sanitize(text.expandtabs(4)).split("\n")
    return "\n".join(f"{_BAR}{part}" for line in lines for part in _wrapped(console, line, width))


def _wrapped(console: Console, line: str, width: int) -> list[str]:
    text = line.lstrip(" ")
    indent = " " * min(len(line) - len(text), width // 2)
    parts = Text(text).wrap(console, width - len(indent))
    return [f"{indent}{part.plain.rstrip()}" for part in parts] or [""]


def print_line(text: str = "") -> None:
    """Print one or more lines of plain text."""
    _write(f"{sanitize(text)}\n")


def _write(text: str) -> None:
    """Write to standard output, or nowhere if its reader has gone, such as ``head``."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Write the rest of the output nowhere: a command that goes on, or fails, still does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def print_error(text: str) -> None:
    """Print one or more lines of plain text to standard error."""
    sys.stderr.write(f"{sanitize(text)}\n")


def one_decimal(score: float | None) -> str | None:
    """Return an already rounded score with one decimal."""
    return None if score is None else f"{score:.1f}"


def escape_unencodable_output() -> None:
    """Print characters that the encoding of the output lacks as escape sequences."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


# -- Progress ------------------------------------------------------------------------------------


class ProgressBar:
    """A progress bar on standard error."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._step = ""

    def begin(self, what: str, total: int) -> None:
        """Start a step of ``total`` units."""
        self._step = what
        self._task = self._bars.add_task(what, total=total)

    def advance(self, units: int) -> None:
        """Advance the progress bar by ``units``."""
        if self._task is not None:
            self._bars.advance(self._task, units)

    def tell(self, detail: str) -> None:
        """Show a detail after the name of the step."""
        if self._task is not None:
            self._bars.update(self._task, description=f"{self._step}, {detail}")


@contextmanager
def progress_bar(*, of_bytes: bool = False) -> Iterator[ProgressBar]:
    """Show a progress bar; nothing is shown if standard error is not a terminal."""
    console = Console(stderr=True)
    amounts = (DownloadColumn(), TransferSpeedColumn()) if of_bytes else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *amounts, TimeRemainingColumn())
    with RichProgress(*columns, console=console, disable=not console.is_terminal) as bars:
        yield ProgressBar(bars)
