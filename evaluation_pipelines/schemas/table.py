"""Definition of a table of the lake, and the checks that its dates must pass."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import polars as pl

EXAMPLES = 5
"""Number of offending rows in a result."""

Severity = Literal["error", "warning"]


UTC_TIME = pl.Datetime("us", "UTC")

SESSION_ATTRIBUTES = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
"""Attribute -> value as text, sorted by attribute."""

SESSION_KEY = ("organization_id", "session_key")
"""Columns that identify a session window."""

CONTENT_KEY = (*SESSION_KEY, "content_hash")
"""Columns that identify the content of a session window; it changes when the session grows."""

WINDOW = (
    ("session_key", pl.String, "session.id#slug-n: slug of masque or baseline, and a count"),
    ("session_id", pl.String, "session.id as sent by the agent"),
    ("organization_id", pl.String, "organization"),
    ("agent_id", pl.String, "agent.id, else the masque, else service.name"),
    ("masque", pl.String, "persona worn, null for a baseline window"),
)
"""Columns by which tables of session windows identify one."""

SPAN = (
    ("started_at", UTC_TIME, "start of the window"),
    ("ended_at", UTC_TIME, "end of the window"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or list.

    Attributes:
        name: Its name in files, JSON, CSV and SQL.
        dtype: Its Polars type.
        description: What it means, with the unit.
        label: Its heading for people.
        text: Formats a known value for people; ``None`` if ``str`` does.
        blind: It shows how a session was scored: withheld until the blind review of the session.
        people: Whom it names, so that EVAL_PEOPLE_VIEW can hide it.
    """

    name: str
    dtype: pl.DataType
    description: str
    label: str = ""
    text: Callable[[Any], str] | None = None
    blind: bool = False
    people: Literal["person", "team"] | None = None

    @property
    def heading(self) -> str:
        """The label, or else the name in words."""
        return self.label or self.name.replace("_", " ").capitalize()


More: TypeAlias = Mapping[str, Any]
"""Fields of a Column after ``description``."""

BLIND: More = {"blind": True}
PERSON: More = {"people": "person"}
TEAM: More = {"people": "team"}


@dataclass(frozen=True)
class Table:
    """A table of the lake; ``name`` is also its asset key, folder and SQL file.

    ``key`` has the columns that no two rows share, ``order`` those by which rows are sorted, by
    default the key.
    ``has_texts`` is True if people, models or tools wrote some of it: it is never shared.
    With ``several_files`` a partition consists of several files that are replaced one by one.
    """

    name: str
    grain: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    several_files: bool = False
    has_texts: bool = False

    def __post_init__(self) -> None:
        """Set the order."""
        object.__setattr__(self, "order", self.order or self.key)

    @property
    def sentence(self) -> str:
        """The grain as a sentence."""
        return f"{self.grain[0].upper()}{self.grain[1:]}."

    @cached_property
    def schema(self) -> pl.Schema:
        """Column names and types in file order."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    @cached_property
    def no_rows(self) -> pl.DataFrame:
        """A frame of the table without rows; it is shared, so it must not be changed."""
        return self.schema.to_frame()

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    def columns_named(self, *names: str) -> tuple[Column, ...]:
        """Return columns by name, for another table that has them, too."""
        return tuple(self.by_name[name] for name in names)


_Type: TypeAlias = pl.DataType | type[pl.DataType]


_Row: TypeAlias = tuple[str, _Type, str] | tuple[str, _Type, str, More]


def columns(*rows: _Row | Column) -> tuple[Column, ...]:
    """Return columns from rows of name, type, description and other fields of Column."""
    return tuple(row if isinstance(row, Column) else _column(*row) for row in rows)


def estimate(name: str, description: str) -> tuple[Column, ...]:
    """Return the columns of a figure and of its interval."""
    return columns((name, pl.Float64, description), *ends(name))


def ends(name: str) -> tuple[Column, ...]:
    """Return the columns of the interval of a figure."""
    return columns(
        (f"{name}_low", pl.Float64, "lower end of its 95% interval"),
        (f"{name}_high", pl.Float64, "upper end of its 95% interval"),
    )


def _column(name: str, dtype: _Type, description: str, more: More | None = None) -> Column:
    return Column(name, dtype() if isinstance(dtype, type) else dtype, description, **(more or {}))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check on one date of one table.

    A failed check with severity ``error`` keeps the date from being published.
    """

    table: str
    rule: str
    passed: bool
    expected: str
    found: str
    examples: tuple[str, ...] = ()
    severity: Severity = "error"

    def joined(self, other: "CheckResult") -> "CheckResult":
        """Return the result for the rows of both."""
        if other.found == self.found and other.expected == self.expected:
            return replace(self, passed=self.passed and other.passed)
        return replace(
            self,
            passed=self.passed and other.passed,
            expected=f"{self.expected}; {other.expected}",
            found=f"{self.found}; {other.found}",
            examples=(*self.examples, *other.examples)[:EXAMPLES],
        )


def keys_are_unique(frame: pl.DataFrame, table: Table) -> CheckResult:
    """No two rows share the table's key."""
    keys = frame.select(table.key)
    if keys.n_unique() == keys.height:  # to find out which ones repeat takes far longer
        repeated = keys.clear()
    else:
        repeated = keys.group_by(table.key).len("rows").filter(pl.col("rows") > 1).sort(table.key)
    return CheckResult(
        table.name,
        "keys_are_unique",
        repeated.is_empty(),
        f"one row per {', '.join(table.key)}",
        f"{repeated.height:,} keys that several rows share",
        examples_of(repeated),
    )


def examples_of(rows: pl.DataFrame) -> tuple[str, ...]:
    """Return the first rows as texts."""
    if rows.is_empty():
        return ()
    shown = (
        ", ".join(value.hex() if isinstance(value, bytes) else str(value) for value in row)
        for row in rows.head(EXAMPLES).iter_rows()
    )
    return tuple(shown)
