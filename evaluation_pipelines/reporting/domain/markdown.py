"""Markdown from untrusted values: shown as they are, never interpreted."""

import html
import re
from collections.abc import Iterable, Sequence

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
