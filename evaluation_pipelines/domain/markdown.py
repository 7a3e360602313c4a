"""Markdown from untrusted values: what telemetry says is shown and never interpreted."""

import html
import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>$])")
_LONGEST = 120


def escaped(value: object) -> str:
    """One line of plain text as markdown that shows exactly that, cut at 120 characters."""
    if value is None:
        return ""
    text = str(value)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    printable = "".join(each if each.isprintable() else " " for each in text)
    return _SPECIAL.sub(r"\\\1", html.escape(printable, quote=False))


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; says so when it has no rows."""
    lines = [
        f"| {' | '.join(map(escaped, columns))} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(map(escaped, row))} |" for row in rows),
    ]
    return "\n".join(lines) if len(lines) > 2 else "no rows"
