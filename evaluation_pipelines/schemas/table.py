"""Definition of a table of the lake."""

from dataclasses import dataclass

import polars as pl

UTC_TIME = pl.Datetime("us", "UTC")

SESSION_KEY = ("organization_id", "session_key")
"""Columns that identify a session window."""

CONTENT_KEY = (*SESSION_KEY, "content_hash")
"""Columns that identify the content of a session window; it changes when the session grows."""

WINDOW = (
    ("session_key", pl.String, "session.id#slug-n: slug of masque or baseline, and a count"),
    ("session_id", pl.String, "session.id as sent by the agent"),
    ("organization_id", pl.String, "organization"),
    ("agent_id", pl.String, "agent.id, else the masque, else service.name"),
    ("masque", pl.String, "persona worn; null for a baseline window"),
)
"""Columns by which tables of session windows identify one."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, Polars type, and meaning with its unit."""

    name: str
    dtype: pl.DataType
    description: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the lake; ``name`` is also its asset key, folder and SQL file.

    ``key`` has the columns that no two rows share, ``order`` those by which rows are sorted.
    With ``several_files`` a partition consists of several files that are replaced one by one.
    """

    name: str
    grain: str
    key: tuple[str, ...]
    order: tuple[str, ...]
    columns: tuple[Column, ...]
    several_files: bool = False

    @property
    def schema(self) -> pl.Schema:
        """Column names and types in file order."""
        return pl.Schema({column.name: column.dtype for column in self.columns})


def columns(*rows: tuple[str, pl.DataType | type[pl.DataType], str]) -> tuple[Column, ...]:
    """Return columns from rows of name, type and description."""
    return tuple(
        Column(name, dtype() if isinstance(dtype, type) else dtype, description)
        for name, dtype, description in rows
    )
