"""Leases: one holder at a time, growing numbers, the clock of the ledger, and fenced writes."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa
import time_machine

from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.errors import StaleLeaseError
from evaluation_pipelines.storage.ledger.leases import Leases
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import LEASES
from evaluation_pipelines.storage.parts import NewPart

DAY = date(2026, 6, 1)
PART = NewPart("agent_sessions", DAY, "old.parquet", 1, 1, "00", "agent_sessions")


def expire(ledger: Ledger, name: str) -> None:
    """Let a lease expire, as if its holder had given no sign of life."""
    past = datetime.now(UTC) - timedelta(days=1)
    with writing(ledger.engine) as connection:
        connection.execute(sa.update(LEASES).where(LEASES.c.name == name).values(until=past))


def test_one_owner_has_a_lease_and_each_has_a_larger_number(ledger: Ledger) -> None:
    leases = Leases(ledger)
    assert leases.acquire("a", "one", 60) == 1
    assert leases.acquire("a", "two", 60) is None
    assert leases.acquire("b", "two", 60) == 1
    assert leases.holder("a") == "one"
    leases.release("a", 1)
    assert leases.acquire("a", "two", 60) == 2
    leases.release("a", 1)  # of the former owner
    assert leases.acquire("a", "three", 60) is None


def test_a_lease_that_expired_is_renewed_unless_it_was_taken(ledger: Ledger) -> None:
    leases = Leases(ledger)
    assert leases.acquire("a", "one", 60) == 1
    expire(ledger, "a")
    leases.renew("a", 1, 60)
    assert leases.acquire("a", "two", 60) is None
    expire(ledger, "a")
    assert leases.acquire("a", "two", 60) == 2
    with pytest.raises(StaleLeaseError, match="Lease 1 on a is void, 2 is valid"):
        leases.renew("a", 1, 60)


def test_a_writer_with_an_old_number_is_refused(ledger: Ledger) -> None:
    leases, manifest, now = Leases(ledger), Manifest(ledger), datetime.now(UTC)
    first = leases.acquire("build", "one", 60)
    expire(ledger, "build")
    second = leases.acquire("build", "two", 60)
    assert (first, second) == (1, 2)
    newer = replace(PART, path="new.parquet")
    manifest.switch([newer], now, {"build": 2})
    with pytest.raises(StaleLeaseError, match="Lease 1 on build is void"):
        manifest.switch([PART], now, {"build": 1})
    assert [part.path for part in manifest.current("agent_sessions", DAY)] == ["new.parquet"]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_machine_with_a_wrong_clock_takes_no_lease(ledger: Ledger, hours: int) -> None:
    leases = Leases(ledger)
    assert leases.acquire("a", "one", 60) == 1
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
        assert leases.acquire("a", "two", 60) is None
        leases.renew("a", 1, 60)
    assert leases.acquire("a", "two", 60) is None
