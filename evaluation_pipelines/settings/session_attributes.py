"""Attributes that become columns of sessions, and the names of these columns."""

import re
from collections.abc import Sequence

from evaluation_pipelines.schemas import AGENT_SESSIONS, RANKED_PERFORMANCE

_TAKEN = frozenset((*AGENT_SESSIONS.schema, *RANKED_PERFORMANCE.schema))


def split_names(value: object) -> object:
    """Return the names of a list that is separated by commas."""
    if not isinstance(value, str):
        return value
    return tuple(name for name in map(str.strip, value.split(",")) if name)


def column_of(attribute: str) -> str:
    """Return the column of an attribute in the analysts' database: ``jira.epic`` is jira_epic."""
    return re.sub(r"[^a-z0-9]+", "_", attribute.lower()).strip("_")


def checked_attributes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names sorted; reject those that would give no column, or one that exists.

    Raises:
        ValueError: with the first invalid name.
    """
    known: dict[str, str] = {}
    for name in sorted(set(names)):
        column = column_of(name)
        if not column or column[0].isdigit():
            raise ValueError(f"{name!r} gives no name of a column: it must begin with a letter")
        if column in _TAKEN:
            raise ValueError(f"{name!r} would be the column {column}, which sessions have already")
        if column in known:
            raise ValueError(f"{name!r} and {known[column]!r} would both be the column {column}")
        known[column] = name
    return tuple(known.values())
