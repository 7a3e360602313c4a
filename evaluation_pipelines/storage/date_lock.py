"""Lock of a date: one process builds or erases it at a time.

With a ledger in SQLite all processes are on one machine: a lock file, which the operating system
releases when its holder dies. With PostgreSQL they may be anywhere: a lease in the ledger, which
expires unless its holder renews it.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from evaluation_pipelines.storage.file_lock import LockTimeoutError, file_lock
from evaluation_pipelines.storage.lease_owner import new_owner
from evaluation_pipelines.storage.ledger.errors import LedgerError, StaleLeaseError
from evaluation_pipelines.storage.ledger.leases import Leases, Numbers
from evaluation_pipelines.storage.ledger.ledger import Ledger

LEASE_S = 60.0
"""Seconds without a renewal after which another process may build a date."""

_NAME = "build "
_RENEWALS_PER_LEASE = 4
_ASK_AGAIN_S = 0.5
_ATTEMPTS = 3
_log = logging.getLogger(__name__)


@contextmanager
def date_lock(ledger: Ledger, locks: Path, day: date, timeout_s: float) -> Iterator[Numbers]:
    """Hold a date; yield the fencing numbers with which its parts are made current.

    Args:
        ledger: Decides which kind of lock it is.
        locks: Folder of lock files.
        day: The date.
        timeout_s: Seconds to wait for another holder.

    Raises:
        LockTimeoutError: The date was not free within ``timeout_s`` seconds.
        OSError: The lock file cannot be created.
    """
    with step_lock(ledger, locks, f"{_NAME}{day}", timeout_s) as numbers:
        yield numbers


@contextmanager
def step_lock(ledger: Ledger, locks: Path, name: str, timeout_s: float) -> Iterator[Numbers]:
    """Hold what a name stands for, as ``date_lock`` holds a date.

    Raises:
        LockTimeoutError: It was not free within ``timeout_s`` seconds.
        OSError: The lock file cannot be created.
    """
    if ledger.engine.dialect.name == "sqlite":
        with file_lock(locks / f"{name.replace(' ', '-')}.lock", timeout_s):
            yield {}
    else:
        with _lease(Leases(ledger), name, timeout_s) as numbers:
            yield numbers


def dates_held_before(ledger: Ledger, locks: Path) -> list[date]:
    """Return the dates that another process may hold now; with lock files those ever held."""
    if ledger.engine.dialect.name == "sqlite":
        names = [each.stem for each in locks.glob("build-*.lock")]
    else:
        names = Leases(ledger).held(_NAME)
    return sorted(date.fromisoformat(name[len(_NAME) :]) for name in names)


@contextmanager
def _lease(leases: Leases, name: str, timeout_s: float) -> Iterator[Numbers]:
    number = _acquired(leases, name, timeout_s)
    ended = Event()
    heartbeat = Thread(target=_renew, args=(leases, name, number, ended), name=name, daemon=True)
    heartbeat.start()
    try:
        yield {name: number}
    finally:
        ended.set()
        heartbeat.join()
        _release(leases, name, number)


def _acquired(leases: Leases, name: str, timeout_s: float) -> int:
    owner, deadline, wait = new_owner(), monotonic() + timeout_s, Event()
    while (number := leases.acquire(name, owner, LEASE_S)) is None:
        if monotonic() >= deadline:
            host, process_id, *_ = (leases.holder(name) or "?:?").split(":")
            raise LockTimeoutError(
                f"process {process_id} on {host} has kept the lease {name} for more than "
                f"{timeout_s:g} s. Check whether it hangs, end it, and try again."
            )
        wait.wait(min(_ASK_AGAIN_S, max(0.0, deadline - monotonic())))
    return number


def _release(leases: Leases, name: str, number: int) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return leases.release(name, number)
        except LedgerError as error:
            if attempt == _ATTEMPTS:  # it expires by itself
                _log.warning("%s stays leased for up to %g s: %s", name, LEASE_S, error)
    return None


def _renew(leases: Leases, name: str, number: int, ended: Event) -> None:
    """Renew a lease until it is given back or lost; an expired one is fenced, not renewed."""
    while not ended.wait(LEASE_S / _RENEWALS_PER_LEASE):
        try:
            leases.renew(name, number, LEASE_S)
        except StaleLeaseError:
            return  # whoever writes with its number is refused, and says so
        except LedgerError as error:
            _log.warning("%s could not be renewed, and is tried again: %s", name, error)
