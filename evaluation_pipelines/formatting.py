"""Format numbers, times, texts and Markdown for people.

Numbers are rounded half up, with their unit, unknown as a dash; texts cannot control a terminal or
a spreadsheet.

Untrusted values in Markdown are never interpreted.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

DASH = "-"
_LARGE = 1e15
_FORMULA_STARTS = frozenset("=+-@\t\r")
_HOURS_FROM, _DAYS_FROM_HOURS = 2, 48


def number(value: float | None, decimals: int = 1) -> str:
    """Format a number with fixed decimals, from 10^15 only its magnitude."""
    if value is None:
        return DASH
    if not abs(value) < _LARGE:
        return f"{value:.0e}"  # ends of intervals from very few people may be infinite
    step = Decimal(1).scaleb(-decimals)
    shown = Decimal(repr(round(value, 9))).quantize(step, rounding=ROUND_HALF_UP)
    return f"{shown + 0:,}"


def points(value: float | None) -> str:
    """Format points of score with one decimal."""
    return number(value, 1)


def signed(value: float | None, decimals: int = 1) -> str:
    """Format a difference in points with its sign."""
    text = number(value, decimals)
    return f"+{text}" if value is not None and not text.startswith("-") else text


def usd(value: float | None) -> str:
    """Format dollars: cents, or as many decimals as a small amount needs, but 4 at most."""
    if value is None:
        return DASH
    rounded = round(value, 9)
    if 0 < rounded < 0.00005:  # would be printed as nothing
        return "<$0.0001"
    decimals = 2 if rounded >= 0.1 or value == 0 else 3 if rounded >= 0.01 else 4
    return f"${number(value, decimals)}"


def of_known(shown: str, known: int, every: int) -> str:
    """Add to a figure of how many sessions it is, if not of all: ``66.9 (1 of 11)``."""
    return shown if known in (0, every) else f"{shown} ({whole(known)} of {whole(every)})"


def known_usd(value: float | None, known: int, every: int) -> str:
    """Format the cost of sessions, and of how many it is known: ``$1.00 (1 of 11)``."""
    return DASH if value is None or not known else of_known(usd(value), known, every)


def percent(share: float | None) -> str:
    """Format a share as a whole percentage."""
    return DASH if share is None else f"{number(share * 100, 0)}%"


def part_percent(share: float) -> str:
    """Format a share as a whole percentage, 0% for none and 100% for all only: 0.996 is 99%."""
    return percent(share if share in {0, 1} else min(max(share, 0.01), 0.99))


def probability(p: float | None) -> str:
    """Format a p-value."""
    if p is None:
        return DASH
    return "< 0.001" if p < 0.001 else number(p, 3)


def minutes(milliseconds: float | None) -> str:
    """Format a duration in minutes."""
    return DASH if milliseconds is None else f"{number(milliseconds / 60_000, 1)} min"


def duration(milliseconds: float | None) -> str:
    """Format a single duration, in seconds below a minute."""
    if milliseconds is None or milliseconds >= 60_000:
        return minutes(milliseconds)
    return f"{number(milliseconds / 1000, 1)} s"


def minute(time: datetime) -> str:
    """Format a time in UTC to the minute."""
    return f"{time:%Y-%m-%d %H:%M}"


def age(time: datetime | None, now: datetime) -> str | None:
    """Return the age of a time in minutes, hours or days, rounded down."""
    if time is None:
        return None
    minutes = int((now - time).total_seconds() // 60)
    hours = minutes // 60
    if hours < _DAYS_FROM_HOURS:
        return f"{minutes} min ago" if hours < _HOURS_FROM else f"{hours} h ago"
    return f"{hours // 24} days ago"


def whole(value: float | None) -> str:
    """Format a whole number with thousands separators."""
    return number(value, 0)


def tokens(value: float | None) -> str:
    """Format a number of tokens, in thousands if large."""
    return f"{number(value / 1000, 0)}k" if value is not None and value >= 1000 else whole(value)


def pluralize(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as ``1 line`` or ``2,000 lines``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def size(size_bytes: int) -> str:
    """Format a size: ``512 bytes``, ``50.7 MB``."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= factor:
            return f"{number(size_bytes / factor)} {unit}"
    return "1 byte" if size_bytes == 1 else f"{size_bytes} bytes"


def interval(low: str, high: str) -> str:
    """Format an interval; empty if it is unknown."""
    return "" if DASH in (low, high) else f"{low} to {high}"


def listed(names: list[str], word: str = "and") -> str:
    """Join names as in a sentence."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


def sanitize(text: str) -> str:
    """Return text without characters that control a terminal.

    Newlines are kept. Every other character that is not printable becomes U+FFFD.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def one_line(text: str) -> str:
    """Return sanitized text as one line, so that it cannot imitate several lines of output."""
    return sanitize(text.replace("\n", "\0"))


def csv_text(rows: "pl.DataFrame") -> str:
    """Return rows as CSV with a heading; null is empty.

    Strings are on one line, without characters that a terminal would obey. Those that a
    spreadsheet would run as formulas get a leading apostrophe; numbers do not.
    """
    import polars as pl  # slow to import, and most commands that fail or help need none

    strings = pl.selectors.string()
    escaped = strings.map_elements(_escape_formula, return_dtype=pl.String, skip_nulls=True)
    return rows.with_columns(escaped).write_csv()


def _escape_formula(text: str) -> str:
    line = one_line(text)
    # Spreadsheets trim blanks, and some take full-width signs for the usual ones.
    first = unicodedata.normalize("NFKC", line.lstrip()[:1])
    return f"'{line}" if {first, line[:1]} & _FORMULA_STARTS else line


LONGEST_SENTENCE = 1000
"""Maximum number of characters of a sentence of a report."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>$])")


def escaped(value: object, longest: int = 120) -> str:
    """Return one line of Markdown that shows exactly ``text``, cut at ``longest`` characters."""
    if value is None:
        return ""
    text = str(value)
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    printable = "".join(character if character.isprintable() else " " for character in text)
    return _SPECIAL.sub(r"\\\1", html.escape(printable, quote=False))


def bullets(sentences: Iterable[str]) -> str:
    """Return a list of sentences."""
    return "\n".join(f"* {escaped(sentence, LONGEST_SENTENCE)}" for sentence in sentences)


def markdown_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], longest: int = 120
) -> str:
    """Return a table with cells of at most ``longest`` characters, or a note if it has no rows."""
    lines = [_line(columns, longest), f"|{'---|' * len(columns)}"]
    lines += [_line(row, longest) for row in rows]
    return "\n".join(lines) if len(lines) > 2 else "no rows"


def _line(cells: Sequence[object], longest: int) -> str:
    return f"| {' | '.join(escaped(cell, longest) for cell in cells)} |"
