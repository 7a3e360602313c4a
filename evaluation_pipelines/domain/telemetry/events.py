"""The canonical agent event: the columns that every dialect shares, its time and its identity."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from evaluation_pipelines.domain.telemetry import times
from evaluation_pipelines.domain.telemetry.attributes import BROKEN, Convert, json_text, text
from evaluation_pipelines.domain.telemetry.dialects.dialect import Dialect, Row
from evaluation_pipelines.domain.telemetry.otlp import LogRecord

_SHARED_COLUMNS: dict[str, tuple[str, Convert]] = {
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
"""Attributes that mean the same whoever sends them; of two for one column the first counts."""

_IDENTITY = ("service_name", "service_version", "organization_id", "session_id")
_READ_ALREADY = ("event.name", "event.timestamp")
_LONGEST_NAME = 200

MASQUE_EVENTS = {"masque.don": "masque_don", "masque.doff": "masque_doff"}

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class Clock:
    """The time that counts as now, and how far ahead of it a sent time may lie (microseconds)."""

    now_us: int
    tolerance_us: int

    def is_plausible(self, time_us: int) -> bool:
        """Whether a time can be true."""
        return times.EARLIEST_US <= time_us <= self.now_us + self.tolerance_us


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line stands."""

    file_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class Producer:
    """The process that sent a record: what its resource says in columns, and the rest.

    ``identity`` tells processes apart whose records are equal.
    """

    columns: Row
    rest: Mapping[str, Any]
    identity: tuple[str | None, ...]

    @classmethod
    def of(cls, resource: dict[str, Any]) -> "Producer":
        """Split the attributes of a resource."""
        columns, rest, _ = _split(resource, _SHARED_COLUMNS)
        return cls(columns, rest, tuple(map(columns.get, _IDENTITY)))


def source_names(record: LogRecord, values: Mapping[str, Any]) -> tuple[str, str]:
    """The event name as sent, and the body when it is a word; each empty where there is none.

    The name is ``event.name``, else the body. The top-level ``eventName`` is never used: Codex
    writes a source location there.
    """
    body, name = record.body, values.get("event.name")
    is_word = isinstance(body, str) and len(body) <= _LONGEST_NAME and " " not in body
    word = text(body) or "" if is_word else ""
    sent = text(name) if isinstance(name, str) else None
    return sent[:_LONGEST_NAME] if sent else word, word


def event_row(
    record: LogRecord,
    name: str,
    values: dict[str, Any],
    producer: Producer,
    dialect: Dialect | None,
    origin: Origin,
    clock: Clock,
) -> tuple[Row | None, int]:
    """One row of ``agent_events`` (without ``session_date``) and how many values were broken.

    The row is None when the dialect says that the record repeats another one. Its ``session_id``
    is missing when the record names no session.
    """
    table = _columns_of(dialect)
    columns, rest, broken = _split(values, table)
    if isinstance(record.body, dict):
        rest.setdefault("body", record.body)
    row: Row = {**producer.columns, **columns}
    bare_name = name.removeprefix(dialect.name_prefix) if dialect else name
    masque_event = MASQUE_EVENTS.get(bare_name)
    row["event_id"] = _event_id(record, values, producer)
    row["source_event_name"] = bare_name or None
    row["source_file_id"], row["source_offset"] = origin.file_id, origin.offset
    row["event_time"], row["observed_time"], row["time_anomaly"] = _event_time(
        record, values, clock
    )
    if masque_event is not None:
        # One that names no organization applies to the session in whichever it is.
        row["event_name"] = masque_event
    else:
        row["event_name"] = "other"
        row.setdefault("organization_id", "default")
        if dialect is not None:
            row["source_cli"] = dialect.source_cli
            row["event_name"] = dialect.event_names.get(bare_name, "other")
            if not dialect.refine(row, rest):
                return None, broken
    row["attributes"] = json_text({**producer.rest, **rest})
    return row, broken


@cache
def _columns_of(dialect: Dialect | None) -> Mapping[str, tuple[str, Convert]]:
    return {**_SHARED_COLUMNS, **dialect.columns} if dialect else _SHARED_COLUMNS


def _split(
    values: Mapping[str, Any], table: Mapping[str, tuple[str, Convert]]
) -> tuple[Row, dict[str, Any], int]:
    """Attributes that have a column, by column; the others; and how many values were broken."""
    columns: Row = {}
    rest: dict[str, Any] = {}
    contested = set()
    broken = 0
    for key, value in values.items():
        target = table.get(key)
        if target is not None:
            column, convert = target
            converted = convert(value)
            if converted is BROKEN:
                broken += 1
                columns.setdefault(column, None)
            elif converted is not None:
                if column in columns:
                    contested.add(column)
                columns[column] = converted
        elif key not in _READ_ALREADY:
            rest[key] = value
    for column in contested:
        rest |= _settle(column, columns, values, table)
    return columns, rest, broken


def _settle(
    column: str,
    columns: Row,
    values: Mapping[str, Any],
    table: Mapping[str, tuple[str, Convert]],
) -> dict[str, Any]:
    """Give a column that several attributes name to the first in the table; gives the others.

    The order in which attributes are sent means nothing, and a collector may change it.
    """
    told = {
        key: converted
        for key, (name, convert) in table.items()
        if name == column
        and (converted := convert(values.get(key))) is not None
        and converted is not BROKEN
    }
    winner, *others = told
    columns[column] = told[winner]
    return {key: values[key] for key in others}


def content_id(*content: Any) -> bytes:
    """16-byte hash of JSON-like content; the order of keys does not matter."""
    return hashlib.blake2b(_encode_sorted(content), digest_size=16).digest()


def _event_id(record: LogRecord, values: dict[str, Any], producer: Producer) -> bytes:
    """Equal for a record that was sent again, whether or not a collector re-encoded it."""
    sent_us = times.from_nanoseconds(record.time_unix_nano)
    return content_id(producer.identity, sent_us, record.body or None, values)


def _event_time(
    record: LogRecord, values: Mapping[str, Any], clock: Clock
) -> tuple[int, int | None, bool]:
    """Event time, observed time (microseconds) and whether the event time is a substitute."""
    observed = times.from_nanoseconds(record.observed_time_unix_nano)
    sent = times.from_iso(values.get("event.timestamp"))
    if sent is None:
        sent = times.from_nanoseconds(record.time_unix_nano)
    if sent is None:
        sent = observed
    if sent is not None and clock.is_plausible(sent):
        return sent, observed, False
    if observed is not None and clock.is_plausible(observed):
        return observed, observed, True
    return clock.now_us, observed, True
