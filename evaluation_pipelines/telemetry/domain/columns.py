"""Attributes sorted into columns: for all records that have the same attributes at once.

A table says which attribute fills which column, and how. Of several attributes for one column the
first in the table counts, whatever their order in the record: that order means nothing, and a
collector may change it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import BROKEN, Convert, convert_column, text

ColumnTable = Mapping[str, tuple[str, Convert]]
"""Attribute -> column and conversion."""

SHARED_COLUMNS: dict[str, tuple[str, Convert]] = {
    "session.id": ("session_id", text),
    "conversation.id": ("session_id", text),
    "gen_ai.conversation.id": ("session_id", text),
    "organization.id": ("organization_id", text),
    "agent.id": ("agent_id", text),
    "masque.name": ("masque", text),
    "masque": ("masque", text),
    "user.id": ("user_id", text),
    "team.id": ("team_id", text),
    "classification.label": ("classification_label", text),
    "service.name": ("service_name", text),
    "service.version": ("service_version", text),
}
"""Attributes that mean the same whoever sends them."""

_READ_ALREADY = ("event.name", "event.timestamp")


@dataclass(slots=True)
class Sorted:
    """Attributes of some records, sorted into columns.

    Attributes:
        columns: Column -> its values; None where a record has none, BROKEN where it is nonsense.
        rests: Of each record the attributes that no column took.
        broken: How many values were BROKEN.
    """

    columns: dict[str, Sequence[Any]]
    rests: list[dict[str, Any]]
    broken: int


def sort_attributes(
    attributes: Mapping[str, Sequence[Any]], table: ColumnTable, count: int
) -> Sorted:
    """Sort the attributes (name -> plain values, one for each of ``count`` records)."""
    claims: dict[str, dict[str, Sequence[Any]]] = {}
    rest: dict[str, Sequence[Any]] = {}
    broken = 0
    for key, values in attributes.items():
        target = table.get(key)
        if target is not None:
            column, convert = target
            converted = convert_column(values, convert)
            if convert is not text:
                broken += converted.count(BROKEN)
            claims.setdefault(column, {})[key] = converted
        elif key not in _READ_ALREADY:
            rest[key] = values
    rests = rows_of(rest, count)
    columns: dict[str, Sequence[Any]] = {}
    for column, claimed in claims.items():
        if len(claimed) == 1:
            (columns[column],) = claimed.values()
        else:
            order = [key for key in table if key in claimed]
            columns[column] = _settle(order, claimed, attributes, rests)
    return Sorted(columns, rests, broken)


def rows_of(columns: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    """``count`` records as dictionaries, from their values by name."""
    if not columns:
        return [{} for _ in range(count)]
    return list(map(dict, named_rows(columns)))


def named_rows(columns: Mapping[str, Sequence[Any]]) -> Iterator[Iterator[tuple[str, Any]]]:
    """The pairs (name, value) of each record, from the values of all by name."""
    # Mapped, not looped: a keyword argument for each record takes half as long as its dictionary.
    return map(zip, repeat(tuple(columns)), zip(*columns.values(), strict=True))


def _settle(
    order: list[str],
    claimed: Mapping[str, Sequence[Any]],
    attributes: Mapping[str, Sequence[Any]],
    rests: list[dict[str, Any]],
) -> list[Any]:
    """A column that several attributes claim; what loses goes to the rest of its record."""
    settled: list[Any] = []
    for index, rest in enumerate(rests):
        told = {key: claimed[key][index] for key in order if claimed[key][index] is not None}
        good = [key for key, value in told.items() if value is not BROKEN]
        settled.append(told[good[0]] if good else BROKEN if told else None)
        rest |= {key: attributes[key][index] for key in good[1:]}
    return settled
