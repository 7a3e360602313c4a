"""Output of the commands: formats, tables, JSON, CSV, files, messages and progress bars.

All text is made safe for a terminal before it is printed: telemetry and file names may contain
escape sequences.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
_LEAST_CELL, _NUMBER = 8, 12
_NARROWEST = 60
"""Columns of a terminal below which cutting would leave too little of every text."""

_GAP = 3
"""Characters between two columns."""

_BAR = "    | "
_MIN_FENCED_WIDTH = 20

OUTPUT_FILE = typer.Option("--output", help="Write to this file; a table is written as csv.")


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


def format_option(*formats: OutputFormat, help_text: str = "Output format.") -> Any:
    """Return the option ``--format`` of a command that accepts ``formats``."""
    return typer.Option("--format", click_type=_FormatChoice(formats), help=help_text)


class _FormatChoice(click.Choice[OutputFormat]):
    """Choice of formats by value; click itself chooses enum members by name."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return str(choice)


# -- Tables --------------------------------------------------------------------------------------


Shortening = Callable[[str], str]


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    essential: int,
    shortened: Mapping[str, Shortening] | None = None,
) -> None:
    """Print a title and a table.

    On a narrow terminal, the last columns are left out, and a line below the table names them. Only
    if the essential ones do not fit either, cells are cut: by the functions in ``shortened``, then
    the longest texts.

    Args:
        title: Title.
        columns: Headings; a heading that ends in ``" #"`` is of a column of numbers.
        rows: Rows; ``None`` is printed as a dash.
        essential: Number of leading columns that are never left out.
        shortened: Column -> function that shortens its cells; session keys always have one.
    """
    rows = [list(row) for row in rows]
    usual: dict[str, Shortening] = {n: short_key for n in columns if n == "session key"}
    usual.update(shortened or {})
    room = Console().width if Console().is_terminal else sys.maxsize
    cut: dict[str, Shortening] = {}
    cells = _cells(columns, rows, cut)
    widths = _widths(columns, cells)
    if _width(widths[:essential]) > room:
        cut = usual
        widths = _widths(columns, cells := _cells(columns, rows, cut))
    if _width(widths[:essential]) > room:
        cut = usual | _caps(columns[:essential], widths[:essential], room)
        widths = _widths(columns, cells := _cells(columns, rows, cut))
    fitting = [n for n in range(essential, len(columns) + 1) if _width(widths[:n]) <= room]
    count = max(fitting, default=essential)
    print_line(title)
    Console(width=_width(widths[:count])).print(_table(columns, cells, widths, count))
    if left_out := [column.removesuffix(" #") for column in columns[count:]]:
        print_line(f"(a wider window also shows: {', '.join(left_out)})")
    if cut:
        print_line(f"(a wider window shows in full: {', '.join(cut)})")


def _cells(
    columns: Sequence[str], rows: Iterable[Sequence[object]], cut: Mapping[str, Shortening]
) -> list[list[Text]]:
    return [
        [_cell(value, cut.get(name)) for name, value in zip(columns, row, strict=True)]
        for row in rows
    ]


def _widths(columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> list[int]:
    """Return the characters of a terminal that each column needs."""
    return [
        max([cell_len(name.removesuffix(" #")), *(row[at].cell_len for row in cells)])
        for at, name in enumerate(columns)
    ]


def _width(widths: Sequence[int]) -> int:
    """Return the characters of a terminal that a table of such columns needs."""
    return sum(widths) + _GAP * (len(widths) - 1)


def _caps(columns: Sequence[str], widths: Sequence[int], room: int) -> dict[str, Shortening]:
    """Return functions that cut the longest texts, so that these columns fit the terminal."""
    if room < _NARROWEST:
        return {}
    cap = max(widths, default=0)
    while cap > _LEAST_CELL and _width([min(each, cap) for each in widths]) > room:
        cap -= 1
    texts = [
        name
        for name, width in zip(columns, widths, strict=True)
        if width > (max(cap, _NUMBER) if name.endswith(" #") else cap)
    ]
    return dict.fromkeys(texts, shortened_to(cap))


def _cell(value: object, shorten: Shortening | None = None) -> Text:
    """Return a value as one line without markup, shortened if it is very long."""
    if value is None:
        return Text("-", style="dim")
    cell = one_line(str(value))
    if shorten is not None:
        cell = shorten(cell)
    if len(cell) > _MAX_CELL_CHARACTERS:
        cell = f"{cell[: _MAX_CELL_CHARACTERS - 1]}…"
    return Text(cell, style=_COLORS.get(cell.rpartition(" ")[2], ""))


def short_key(session_key: str) -> str:
    """Return a session key with the beginning of its session id: ``f9ee754e…#scout-1``."""
    session_id, hash_sign, window = session_key.rpartition("#")
    return f"{shortened_to(9)(session_id)}{hash_sign}{window}" if hash_sign else session_key


def shortened_to(characters: int) -> Shortening:
    """Return a function that cuts text to a number of characters, an ellipsis included."""
    return lambda text: text if len(text) <= characters else f"{text[: characters - 1]}…"


def _table(
    columns: Sequence[str], cells: Iterable[Sequence[Text]], widths: Sequence[int], count: int
) -> Table:
    """Return a table of the first columns; with their widths given, Rich measures no cell."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column, width in zip(columns[:count], widths, strict=False):
        is_number = column.endswith(" #")
        name = column.removesuffix(" #")
        justify: JustifyMethod = "right" if is_number else "left"
        table.add_column(Text(name), justify=justify, no_wrap=True, width=width)
    for row in cells:
        table.add_row(*row[:count])
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
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
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
        sys.stdout.write(content)
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
    sys.stdout.write(f"{sanitize(text)}\n")


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
