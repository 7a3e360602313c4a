"""Leases: who alone may write something, for how long, by the clock of the ledger.

Each acquisition has a larger number than the one before (a fencing number). A writer shows its
number in the transaction that writes: one that slept while another took the lease is refused.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.clock import shared_time
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.errors import StaleLeaseError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import LEASES

Numbers = Mapping[str, int]
"""Fencing number by the name of the lease."""

_LEASE = LEASES.c


class Leases:
    """Operations on ``leases``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def acquire(self, name: str, owner: str, seconds: float) -> int | None:
        """Take a lease for some seconds if it is free or has expired.

        Returns:
            Its fencing number; None if another owner holds it.
        """
        with writing(self._engine) as connection:
            insert = insert_into(connection, LEASES).values(name=name, number=0)
            connection.execute(insert.on_conflict_do_nothing(index_elements=[_LEASE.name]))
            now = shared_time(connection, datetime.now(UTC))
            is_free = sa.or_(_LEASE.owner.is_(None), _LEASE.until <= now)
            values = {
                "owner": owner,
                "until": now + timedelta(seconds=seconds),
                "number": _LEASE.number + 1,
            }
            update = sa.update(LEASES).where(_LEASE.name == name, is_free).values(values)
            number: int | None = connection.scalar(update.returning(_LEASE.number))
            return number

    def renew(self, name: str, number: int, seconds: float) -> None:
        """Extend a lease; one that has expired is still valid if it was not taken.

        Raises:
            StaleLeaseError: Another writer has taken it.
        """
        with writing(self._engine) as connection:
            check_leases(connection, {name: number})
            until = shared_time(connection, datetime.now(UTC)) + timedelta(seconds=seconds)
            connection.execute(sa.update(LEASES).where(_LEASE.name == name).values(until=until))

    def check(self, numbers: Numbers) -> None:
        """Raise StaleLeaseError if another writer has taken one of the leases."""
        if numbers:
            with writing(self._engine) as connection:
                check_leases(connection, numbers)

    def release(self, name: str, number: int) -> None:
        """Give a lease back; one that is lost already is left alone."""
        of_ours = sa.update(LEASES).where(_LEASE.name == name, _LEASE.number == number)
        with writing(self._engine) as connection:
            connection.execute(of_ours.values(owner=None, until=None))

    def holder(self, name: str) -> str | None:
        """Return who holds a lease, or held it last without giving it back."""
        with reading(self._engine) as connection:
            return connection.scalar(sa.select(_LEASE.owner).where(_LEASE.name == name))

    def held(self, prefix: str) -> list[str]:
        """Return the names of the leases that were not given back and begin with a prefix."""
        query = sa.select(_LEASE.name).where(_LEASE.owner.is_not(None))
        with reading(self._engine) as connection:
            names = connection.scalars(query.order_by(_LEASE.name)).all()
        return [name for name in names if name.startswith(prefix)]


def check_leases(connection: sa.Connection, numbers: Numbers) -> None:
    """Check fencing numbers in the transaction of a writer, and keep others from taking them.

    Raises:
        StaleLeaseError: Another writer has taken one of the leases.
    """
    for name, number in sorted(numbers.items()):
        query = sa.select(_LEASE.number).where(_LEASE.name == name).with_for_update()
        valid = connection.scalar(query)
        if valid != number:
            raise StaleLeaseError(
                f"Lease {number} on {name} is void, {valid} is valid: nothing was written. Another "
                "process took over, because this one gave no sign of life; no action is needed."
            )
