"""Ledger of what was read from ``otel_logs``: position, rows that may be met again, counts.

Rows of the table ``otel_logs`` as lines of OTLP JSON.

The ClickHouse exporter of the OpenTelemetry Collector writes all attributes as texts: numbers and
booleans as they are spelled, arrays and key-value lists as JSON. They stay texts here: a dialect
knows which column an attribute is for, and converts what a text spells. A record without a time
has its observed time in ``Timestamp``. Other exporters write arrays and key-value lists as OTLP
encodes them, and these are decoded.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import OTEL_LOG_MINUTES, OTEL_LOG_READS
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.telemetry.domain.attributes import AnyValue
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS

HASH_BYTES = 16

_UNTIMED = tuple(dialect.name_prefix for dialect in DIALECTS if not dialect.sends_time)
"""Beginnings of the names of records that have no time of their own."""

_LIST = '{"values":['
_KINDS = {field.encode_name for field in msgspec.structs.fields(AnyValue)}

_encode = msgspec.json.Encoder().encode


class _List(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An array or key-value list as OTLP encodes it in JSON."""

    values: list[dict[str, Any]]


class OtelLogRow(msgspec.Struct, gc=False):
    """One row. ``time_ns`` orders it; ``sent_ns`` is its Timestamp, 0 if it has none.

    Attributes are pairs of name and text.
    """

    time_ns: int
    sent_ns: int
    trace_id: str
    span_id: str
    severity_text: str
    body: str
    scope_name: str
    scope_version: str
    event_name: str
    resource: list[tuple[str, str]]
    attributes: list[tuple[str, str]]


def otlp_line(row: OtelLogRow) -> bytes:
    """Return a row as one line; attributes are sorted by name, which the exporter does not do."""
    is_untimed = dict(row.attributes).get("event.name", "").startswith(_UNTIMED)
    time = "observedTimeUnixNano" if is_untimed else "timeUnixNano"
    record: dict[str, Any] = {time: str(max(row.sent_ns, 0))}
    texts = {
        "severityText": row.severity_text,
        "eventName": row.event_name,
        "traceId": row.trace_id,
        "spanId": row.span_id,
    }
    record |= {name: value for name, value in texts.items() if value}
    if row.body:
        record["body"] = _value(row.body)
    record["attributes"] = _pairs(row.attributes)
    scope = {"name": row.scope_name, "version": row.scope_version}
    resource_logs = {
        "resource": {"attributes": _pairs(row.resource)},
        "scopeLogs": [
            {
                "scope": {name: value for name, value in scope.items() if value},
                "logRecords": [record],
            }
        ],
    }
    return _encode({"resourceLogs": [resource_logs]}) + b"\n"


def row_hash(line: bytes) -> bytes:
    """Return the identity of a row: a row that is met again has the same line."""
    return hashlib.blake2b(line, digest_size=HASH_BYTES).digest()


def _pairs(attributes: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    ordered = sorted(attributes, key=lambda pair: pair[0])
    return [{"key": key, "value": _value(text)} for key, text in ordered]


def _value(text: str) -> dict[str, Any]:
    """Return a text, or the array or key-value list that it encodes, as OTLP's JSON."""
    if text.startswith(_LIST):
        try:
            sent = msgspec.json.decode(text, type=_List)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            if all("key" in value for value in sent.values) and sent.values:
                return {"kvlistValue": {"values": sent.values}}
            if all(value.keys() <= _KINDS for value in sent.values):
                return {"arrayValue": {"values": sent.values}}
    return {"stringValue": text}


NS_PER_MINUTE = 60 * 10**9
MINUTES_PER_DAY = 24 * 60

_DAYS_COUNTED = 8
"""Days before the position whose minutes are kept."""

_READ, _MINUTE = OTEL_LOG_READS.c, OTEL_LOG_MINUTES.c


@dataclass(frozen=True, slots=True)
class OtelLogRead:
    """Rows that were read into one landing file.

    Attributes:
        source: Server, database and table.
        number: Grows with each file of a source.
        path: The file, relative to the landing folder.
        position_ns: Time up to which rows of the source were read, then.
        first_ns: Time of the oldest row.
        last_ns: Time of the newest row.
        row_hashes: Hashes of the rows, one after the other.
        read_at: When it is committed.
    """

    source: str
    number: int
    path: str
    position_ns: int
    first_ns: int
    last_ns: int
    row_hashes: bytes
    read_at: datetime


class OtelLogReads:
    """Operations on the two tables of ``otel_logs``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def last(self, source: str) -> OtelLogRead | None:
        """Return the newest read of a source."""
        query = sa.select(OTEL_LOG_READS).where(_READ.source == source)
        with reading(self._engine) as connection:
            row = connection.execute(query.order_by(_READ.number.desc()).limit(1)).mappings()
            return next((OtelLogRead(**record) for record in row), None)

    def paths(self) -> list[str]:
        """Return the landing files of all reads that are kept, the newest of each source as well.

        On another machine, which was stopped between commit and name, not only the newest file can
        be hidden.
        """
        with reading(self._engine) as connection:
            return list(connection.scalars(sa.select(_READ.path)))

    def hashes(self, source: str, low_ns: int, high_ns: int) -> set[bytes]:
        """Return the hashes of reads with rows between two times; they have others as well."""
        query = sa.select(_READ.row_hashes).where(
            _READ.source == source, _READ.last_ns >= low_ns, _READ.first_ns < high_ns
        )
        with reading(self._engine) as connection:
            return {
                scalar[begin : begin + HASH_BYTES]
                for scalar in connection.scalars(query)
                for begin in range(0, len(scalar), HASH_BYTES)
            }

    def minutes(self, source: str) -> Counter[int]:
        """Return how many rows each of the last minutes had when it was read."""
        query = sa.select(_MINUTE.minute, _MINUTE.row_count).where(_MINUTE.source == source)
        with reading(self._engine) as connection:
            return Counter({row.minute: row.row_count for row in connection.execute(query)})

    def commit(
        self, read: OtelLogRead, minutes: Mapping[int, int], kept_from_ns: int, hold: Hold
    ) -> None:
        """Move the position, and forget the hashes of rows before ``kept_from_ns``.

        Args:
            read: What was read.
            minutes: All rows of the minutes that were read, new and known.
            kept_from_ns: Nanoseconds since 1970.
            hold: The lock of the reader.

        Raises:
            LockLostError: Another process may read the source now; nothing has changed.
            LedgerError: The ledger cannot be used; nothing has changed.
        """
        with writing(self._engine) as connection:
            hold.check(connection)
            old = sa.delete(OTEL_LOG_READS).where(
                _READ.source == read.source, _READ.last_ns < kept_from_ns
            )
            connection.execute(old)
            connection.execute(sa.insert(OTEL_LOG_READS).values(asdict(read)))
            counted_from = read.position_ns // NS_PER_MINUTE - _DAYS_COUNTED * MINUTES_PER_DAY
            connection.execute(
                sa.delete(OTEL_LOG_MINUTES).where(
                    _MINUTE.source == read.source, _MINUTE.minute < counted_from
                )
            )
            recent = {minute: rows for minute, rows in minutes.items() if minute >= counted_from}
            _count(connection, read.source, recent)

    def count(self, source: str, minutes: Mapping[int, int], hold: Hold) -> None:
        """Store the rows of minutes in which no row is new; raises as ``commit`` does."""
        with writing(self._engine) as connection:
            hold.check(connection)
            _count(connection, source, minutes)


def _count(connection: sa.Connection, source: str, minutes: Mapping[int, int]) -> None:
    """Replace the counts of minutes: each read of a minute sees all of its rows."""
    insert = insert_into(connection, OTEL_LOG_MINUTES)
    replaced = insert.on_conflict_do_update(
        index_elements=[_MINUTE.source, _MINUTE.minute],
        set_={"row_count": insert.excluded.row_count},
    )
    rows = [{"source": source, "minute": minute, "row_count": n} for minute, n in minutes.items()]
    if rows:
        connection.execute(replaced, rows)
