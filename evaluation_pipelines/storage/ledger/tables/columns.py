"""Column types and the metadata that all ledger tables share."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)


class UtcTime(sa.TypeDecorator[datetime]):
    """A point in time: aware in Python, UTC in the database."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Convert an aware time to UTC; reject a naive one, which could mean any time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"The ledger takes times with a time zone only, not {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> datetime | None:
        """Add the time zone (SQLite stores none)."""
        if value is None:
            return None
        stored: datetime = value
        return stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored.astimezone(UTC)


class Unsigned64(sa.TypeDecorator[int]):
    """An unsigned 64-bit number, stored as a signed integer.

    Overlay and network file systems have inode numbers beyond 2**63.
    """

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: sa.Dialect) -> int | None:
        """Fold the upper half of the range to negative numbers."""
        return value - 2**64 if value is not None and value >= 2**63 else value

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> int | None:
        """Unfold."""
        return None if value is None else int(value) % 2**64


def column(name: str, type_: Any, doc: str, *extra: Any, **options: Any) -> sa.Column[Any]:
    """Return a column that is not null unless ``nullable`` says so."""
    return sa.Column(name, type_, *extra, doc=doc, **{"nullable": False, **options})
