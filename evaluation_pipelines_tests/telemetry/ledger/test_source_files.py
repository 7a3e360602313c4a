from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFiles, UnknownSourceFileError
from evaluation_pipelines_tests.storage.ledger.ledger_builders import (
    NOON,
    at,
    source_file,
)


def test_a_file_is_read_as_it_was_stored(ledger: Ledger) -> None:
    file = source_file(last_read_at=at(minutes=1), last_event_time=at(seconds=-1.5), position=7)
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


def test_times_are_utc_whatever_zone_they_come_in(ledger: Ledger) -> None:
    tokyo = timezone(timedelta(hours=9))
    SourceFiles(ledger).add(source_file(first_seen_at=datetime(2026, 3, 1, 21, 0, tzinfo=tokyo)))

    seen = SourceFiles(ledger).get("f1").first_seen_at
    assert seen == NOON  # 21:00 in Tokyo is 12:00 UTC
    assert seen.tzinfo is UTC


def test_a_time_without_a_zone_is_refused(ledger: Ledger) -> None:
    with pytest.raises(sa.exc.StatementError, match="time zone"):
        SourceFiles(ledger).add(source_file(first_seen_at=datetime(2026, 3, 1)))  # noqa: DTZ001
