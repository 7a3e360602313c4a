"""What a table of the lake is made of."""

from dataclasses import dataclass

import polars as pl

UTC_TIME = pl.Datetime("us", "UTC")

WINDOW = (
    ("session_key", pl.String, "session.id#slug-n: slug of masque or baseline, and a count"),
    ("session_id", pl.String, "session.id as sent by the agent"),
    ("organization_id", pl.String, "organization"),
    ("agent_id", pl.String, "agent.id, else the masque, else service.name"),
    ("masque", pl.String, "persona worn; null for a baseline window"),
)
"""The columns by which tables of session windows name one."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, Polars type and what it means (with unit)."""

    name: str
    dtype: pl.DataType
    description: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the lake; ``name`` is also its asset key, folder and SQL file.

    ``key`` names the columns that no two rows share, ``order`` how rows are sorted in the file.
    ``several_files``: a partition is not one file but several, which are replaced one by one.
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
    """Columns from rows of name, type and description."""
    return tuple(
        Column(name, dtype() if isinstance(dtype, type) else dtype, description)
        for name, dtype, description in rows
    )
