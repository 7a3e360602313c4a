"""The ledger of ``otel_logs`` in either database: position, hashes of the overlap, counts."""

from dataclasses import replace

import pytest

from evaluation_pipelines.storage.ledger.errors import LedgerConflictError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.lock import INGEST, LockLostError, held
from evaluation_pipelines.telemetry.ledger.otel_log_reads import OtelLogRead, OtelLogReads
from evaluation_pipelines_tests.storage.locks import lose_lock
from evaluation_pipelines_tests.world.ledger import NOON

A, B, C = (bytes([byte]) * 16 for byte in b"abc")
FIRST = OtelLogRead("host/db.otel_logs", 1, "clickhouse/1", 100, 50, 100, A + B, NOON)
SECOND = replace(FIRST, number=2, path="clickhouse/2", position_ns=200, first_ns=150, last_ns=200)
OTHER = replace(FIRST, source="elsewhere/db.otel_logs", path="clickhouse/other")


def commit(ledger: Ledger, read: OtelLogRead, minutes: dict[int, int], kept_from_ns: int) -> None:
    """Commit a read under the lock of ingests."""
    with held(ledger, INGEST) as hold:
        OtelLogReads(ledger).commit(read, minutes, kept_from_ns, hold)


def test_the_newest_read_of_each_source_counts(ledger: Ledger) -> None:
    reads = OtelLogReads(ledger)
    assert reads.last(FIRST.source) is None
    for read in (FIRST, OTHER, replace(SECOND, row_hashes=C)):
        commit(ledger, read, {}, 0)
    assert reads.last(FIRST.source) == replace(SECOND, row_hashes=C)
    assert sorted(reads.paths()) == ["clickhouse/1", "clickhouse/2", "clickhouse/other"]
    assert reads.hashes(FIRST.source, 0, 1000) == {A, B, C}
    assert reads.hashes(FIRST.source, 120, 1000) == {C}
    assert reads.hashes(FIRST.source, 0, 150) == {A, B}


def test_what_left_the_overlap_is_deleted_but_the_newest_stays(ledger: Ledger) -> None:
    reads = OtelLogReads(ledger)
    commit(ledger, FIRST, {}, 0)
    commit(ledger, replace(SECOND, row_hashes=C), {}, 500)
    assert reads.hashes(FIRST.source, 0, 1000) == {C}


def test_a_commit_of_a_process_that_was_overtaken_is_refused(ledger: Ledger) -> None:
    reads = OtelLogReads(ledger)
    with held(ledger, INGEST) as hold:
        lose_lock(ledger, INGEST)
        with pytest.raises(LockLostError):
            reads.commit(FIRST, {7: 2}, 0, hold)
    assert reads.last(FIRST.source) is None
    commit(ledger, FIRST, {7: 2}, 0)
    with pytest.raises(LedgerConflictError):
        commit(ledger, FIRST, {7: 2}, 0)
    with held(ledger, INGEST) as hold:
        lose_lock(ledger, INGEST)
        with pytest.raises(LockLostError):
            reads.count(FIRST.source, {7: 3}, hold)
    assert reads.minutes(FIRST.source) == {7: 2}


def test_the_counts_of_a_minute_are_those_of_its_last_read_for_eight_days(ledger: Ledger) -> None:
    reads, day = OtelLogReads(ledger), 24 * 60
    commit(ledger, FIRST, {0: 1, day: 2, day + 1: 3}, 0)
    with held(ledger, INGEST) as hold:
        reads.count(FIRST.source, {day: 5}, hold)
    commit(ledger, OTHER, {0: 9}, 0)
    assert reads.minutes(FIRST.source) == {0: 1, day: 5, day + 1: 3}
    ninth = replace(SECOND, position_ns=(9 * day + 1) * 60 * 10**9)
    commit(ledger, ninth, {9 * day: 4, day - 1: 6}, 0)
    assert reads.minutes(FIRST.source) == {day + 1: 3, 9 * day: 4}
    assert reads.minutes(OTHER.source) == {0: 9}
