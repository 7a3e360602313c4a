"""Lock of a date in PostgreSQL: leases that are renewed, lost and waited for."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from time import sleep

import pytest

from evaluation_pipelines.storage.date_lock import date_lock, dates_held_before
from evaluation_pipelines.storage.file_lock import LockTimeoutError
from evaluation_pipelines.storage.ledger.errors import StaleLeaseError
from evaluation_pipelines.storage.ledger.leases import Leases
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines_tests.storage.ledger.test_leases import PART, expire

DAY = date(2026, 6, 1)
NAME = "build 2026-06-01"


def test_a_date_is_held_by_one_and_another_date_by_another(ledger: Ledger, tmp_path: Path) -> None:
    with (
        date_lock(ledger, tmp_path, DAY, 0),
        date_lock(ledger, tmp_path, date(2026, 6, 2), 0),
        pytest.raises(LockTimeoutError, match=r"process .* more than 0 s. Check"),
        date_lock(ledger, tmp_path, DAY, 0),
    ):
        pass
    with date_lock(ledger, tmp_path, DAY, 0):
        assert DAY in dates_held_before(ledger, tmp_path)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_lease_is_waited_for_and_renewed_as_long_as_it_is_held(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.storage.date_lock.LEASE_S", 0.8)

    def second() -> None:
        with date_lock(ledger, tmp_path, DAY, 60) as numbers:
            assert numbers == {NAME: 2}

    with ThreadPoolExecutor(1) as pool:
        with date_lock(ledger, tmp_path, DAY, 0) as numbers:
            assert numbers == {NAME: 1}
            waiting = pool.submit(second)
            sleep(1.5)
            assert not waiting.done()
        waiting.result()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_holder_that_gave_no_sign_of_life_cannot_write(ledger: Ledger, tmp_path: Path) -> None:
    with date_lock(ledger, tmp_path, DAY, 0) as numbers:
        expire(ledger, NAME)
        assert Leases(ledger).acquire(NAME, "another", 60) == 2
        with pytest.raises(StaleLeaseError, match=f"Lease 1 on {NAME} is void, 2 is valid"):
            Manifest(ledger).switch([PART], datetime.now(UTC), numbers)
    assert Leases(ledger).holder(NAME) == "another"
