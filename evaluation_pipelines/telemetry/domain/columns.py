"""Map attributes to columns, for all records with the same attributes together.

A table maps each attribute to a column and a conversion. If several attributes map to one column,
the first in the table counts, whatever their order in the record, which a collector may change.
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
"""Attributes with the same meaning for every program."""

_READ_ELSEWHERE = ("event.name", "event.timestamp")


@dataclass(slots=True)
class MappedAttributes:
    """Attributes of some records, mapped to columns.

    Attributes:
        columns: Column -> values; None where a record has none, BROKEN where it is invalid.
        rests: For each record, the attributes without a column.
        broken: Number of BROKEN values.
    """

    columns: dict[str, Sequence[Any]]
    rests: list[dict[str, Any]]
    broken: int


def map_attributes(
    attributes: Mapping[str, Sequence[Any]], table: ColumnTable, count: int
) -> MappedAttributes:
    """Map attributes (name -> values of ``count`` records) to columns."""
    candidates: dict[str, dict[str, Sequence[Any]]] = {}
    rest: dict[str, Sequence[Any]] = {}
    broken = 0
    for key, values in attributes.items():
        target = table.get(key)
        if target is not None:
            column, convert = target
            converted = convert_column(values, convert)
            if convert is not text:
                broken += converted.count(BROKEN)
            candidates.setdefault(column, {})[key] = converted
        elif key not in _READ_ELSEWHERE:
            rest[key] = values
    rests = rows_of(rest, count)
    columns: dict[str, Sequence[Any]] = {}
    for column, converted_by_key in candidates.items():
        if len(converted_by_key) == 1:
            (columns[column],) = converted_by_key.values()
        else:
            order = [key for key in table if key in converted_by_key]
            columns[column] = _resolve(order, converted_by_key, attributes, rests)
    return MappedAttributes(columns, rests, broken)


def rows_of(columns: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    """Return ``count`` records as dictionaries from their values by name."""
    if not columns:
        return [{} for _ in range(count)]
    return list(map(dict, named_rows(columns)))


def named_rows(columns: Mapping[str, Sequence[Any]]) -> Iterator[Iterator[tuple[str, Any]]]:
    """Return the (name, value) pairs of each record from the values by name."""
    # `map` with keyword arguments takes half the time of building dictionaries in a loop.
    return map(zip, repeat(tuple(columns)), zip(*columns.values(), strict=True))


def _resolve(
    order: list[str],
    converted_by_key: Mapping[str, Sequence[Any]],
    attributes: Mapping[str, Sequence[Any]],
    rests: list[dict[str, Any]],
) -> list[Any]:
    """Resolve a column that several attributes map to; the others go to the rests."""
    resolved: list[Any] = []
    for index, rest in enumerate(rests):
        values = {key: converted_by_key[key][index] for key in order}
        present = {key: value for key, value in values.items() if value is not None}
        good = [key for key, value in present.items() if value is not BROKEN]
        resolved.append(present[good[0]] if good else BROKEN if present else None)
        rest |= {key: attributes[key][index] for key in good[1:]}
    return resolved
