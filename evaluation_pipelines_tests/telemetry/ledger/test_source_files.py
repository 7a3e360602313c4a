from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.telemetry.ledger.errors import LeaseLostError, UnknownSourceFileError
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines_tests.storage.ledger.ledger_builders import (
    NOON,
    at,
    batch,
    leased,
    source_file,
)


def test_a_file_is_read_as_it_was_stored(ledger: Ledger) -> None:
    file = source_file(
        last_read_at=at(minutes=1), last_event_time=at(seconds=-1.5), lease_owner="me", position=7
    )
    SourceFiles(ledger).add(file)

    assert SourceFiles(ledger).get("f1") == file
    assert SourceFiles(ledger).all() == [file]


def test_inode_numbers_beyond_a_signed_integer_survive(ledger: Ledger) -> None:
    file = source_file(inode=2**64 - 1, device=2**63)
    SourceFiles(ledger).add(file)

    assert SourceFiles(ledger).get("f1") == file


def test_adding_a_known_file_changes_nothing(ledger: Ledger) -> None:
    SourceFiles(ledger).add(source_file())
    SourceFiles(ledger).add(source_file(path="renamed.jsonl", position=500))

    assert SourceFiles(ledger).all() == [source_file()]


def test_files_are_in_the_order_they_were_first_seen(ledger: Ledger) -> None:
    SourceFiles(ledger).add(source_file("a", first_seen_at=at(hours=1)))
    SourceFiles(ledger).add(source_file("c"))
    SourceFiles(ledger).add(source_file("b"))

    assert [file.file_id for file in SourceFiles(ledger).all()] == ["b", "c", "a"]


def test_a_file_that_was_renamed_and_grew_is_the_same_file(ledger: Ledger) -> None:
    SourceFiles(ledger).add(source_file())
    SourceFiles(ledger).update_path("f1", "old/f1.jsonl.1", 20_000)

    assert SourceFiles(ledger).get("f1") == source_file(path="old/f1.jsonl.1", size_bytes=20_000)


def test_an_unknown_file_is_an_error_that_names_it(ledger: Ledger) -> None:
    with pytest.raises(UnknownSourceFileError, match="nowhere"):
        SourceFiles(ledger).get("nowhere")
    with pytest.raises(UnknownSourceFileError, match="nowhere"):
        SourceFiles(ledger).update_path("nowhere", "a", 1)
    with pytest.raises(UnknownSourceFileError, match="nowhere"):
        SourceFiles(ledger).acquire_lease("nowhere", "me", 60, NOON)


def test_times_are_utc_whatever_zone_they_come_in(ledger: Ledger) -> None:
    tokyo = timezone(timedelta(hours=9))
    SourceFiles(ledger).add(source_file(first_seen_at=datetime(2026, 3, 1, 21, 0, tzinfo=tokyo)))

    seen = SourceFiles(ledger).get("f1").first_seen_at
    assert seen == NOON  # 21:00 in Tokyo is 12:00 UTC
    assert seen.tzinfo is UTC


def test_a_time_without_a_zone_is_refused(ledger: Ledger) -> None:
    with pytest.raises(sa.exc.StatementError, match="time zone"):
        SourceFiles(ledger).add(source_file(first_seen_at=datetime(2026, 3, 1)))  # noqa: DTZ001


def test_only_one_owner_holds_a_lease(ledger: Ledger) -> None:
    SourceFiles(ledger).add(source_file())

    assert SourceFiles(ledger).acquire_lease("f1", "a", 60, NOON) == 1
    assert SourceFiles(ledger).acquire_lease("f1", "b", 60, at(seconds=59)) is None
    held = SourceFiles(ledger).get("f1")
    assert (held.lease_owner, held.lease_until, held.lease_epoch) == ("a", at(seconds=60), 1)


def test_an_expired_lease_goes_to_the_next_with_a_higher_epoch(ledger: Ledger) -> None:
    SourceFiles(ledger).add(source_file())
    SourceFiles(ledger).acquire_lease("f1", "a", 60, NOON)

    assert SourceFiles(ledger).acquire_lease("f1", "b", 60, at(seconds=60)) == 2
    assert SourceFiles(ledger).get("f1").lease_owner == "b"


def test_the_holder_of_a_lease_can_acquire_it_again_with_a_new_epoch(ledger: Ledger) -> None:
    epoch = leased(ledger)

    assert SourceFiles(ledger).acquire_lease("f1", "me", 60, NOON) == epoch + 1
    with pytest.raises(LeaseLostError):
        IngestBatches(ledger).commit_batch(batch(epoch))


def test_a_released_lease_is_free_immediately(ledger: Ledger) -> None:
    epoch = leased(ledger)
    SourceFiles(ledger).release_lease("f1", "me", epoch)

    assert SourceFiles(ledger).get("f1").lease_until is None
    assert SourceFiles(ledger).acquire_lease("f1", "other", 60, at(seconds=1)) == epoch + 1


def test_releasing_a_lost_lease_does_nothing(ledger: Ledger) -> None:
    epoch = leased(ledger)
    SourceFiles(ledger).acquire_lease("f1", "other", 60, at(minutes=2))
    SourceFiles(ledger).release_lease("f1", "me", epoch)

    assert SourceFiles(ledger).get("f1").lease_owner == "other"


def test_an_expired_lease_that_was_not_taken_can_be_renewed(ledger: Ledger) -> None:
    epoch = leased(ledger)
    SourceFiles(ledger).renew_lease("f1", "me", epoch, 60, at(seconds=90))

    assert SourceFiles(ledger).get("f1").lease_until == at(seconds=150)
    assert SourceFiles(ledger).acquire_lease("f1", "other", 60, at(seconds=149)) is None


def test_a_lost_lease_cannot_be_renewed(ledger: Ledger) -> None:
    epoch = leased(ledger)
    SourceFiles(ledger).acquire_lease("f1", "other", 60, at(minutes=2))

    with pytest.raises(LeaseLostError, match="f1"):
        SourceFiles(ledger).renew_lease("f1", "me", epoch, 60, at(minutes=2))
