"""Tables of a page as a person reads them, and rows of what is downloaded."""

from html.parser import HTMLParser
from typing import TypeAlias

import polars as pl

Row: TypeAlias = dict[str, str]


class _Tables(HTMLParser):
    """Collects the cells of each row of each table; ``small`` remarks are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._cell: list[str] | None = None
        self._small = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self._cell = []
        elif self._cell is not None and tag == "span":
            self._small += self._small > 0 or "small" in (dict(attrs).get("class") or "").split()

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"} and self._cell is not None:
            self.tables[-1][-1].append(" ".join("".join(self._cell).split()))
            self._cell = None
        elif self._cell is not None and tag == "span" and self._small:
            self._small -= 1

    def handle_data(self, data: str) -> None:
        if self._cell is not None and not self._small:
            self._cell.append(data)


def rows_of(content: bytes) -> pl.DataFrame:
    """Return the rows of a downloaded CSV file."""
    return pl.read_csv(content, infer_schema_length=None)


def tables_of(page: str) -> list[list[Row]]:
    """Return the rows of each table that has a head, by the headings."""
    found = _Tables()
    found.feed(page)
    named = [table for table in found.tables if "<thead>" in page and len(table) > 1]
    return [
        [dict(zip(_headings(table[0]), row, strict=False)) for row in table[1:]] for table in named
    ]


def _headings(cells: list[str]) -> list[str]:
    return [cell.rstrip(" ▾▴") for cell in cells]
