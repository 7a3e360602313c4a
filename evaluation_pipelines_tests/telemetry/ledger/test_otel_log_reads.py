"""The ledger of ``otel_logs`` in either database: position, hashes of the overlap, counts."""

from dataclasses import replace

import pytest

from evaluation_pipelines.storage.ledger.errors import LedgerConflictError, StaleLeaseError
from evaluation_pipelines.storage.ledger.leases import Leases
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.telemetry.ledger.otel_log_reads import OtelLogRead, OtelLogReads
from evaluation_pipelines_tests.storage.ledger.ledger_builders import NOON

A, B, C = (bytes([byte]) * 16 for byte in b"abc")
FIRST = OtelLogRead("host/db.otel_logs", 1, "clickhouse/1", 100, 50, 100, A + B, NOON)
SECOND = replace(FIRST, number=2, path="clickhouse/2", position_ns=200, first_ns=150, last_ns=200)
OTHER = replace(FIRST, source="elsewhere/db.otel_logs", path="clickhouse/other")


def test_the_newest_read_of_each_source_counts(ledger: Ledger) -> None:
    reads = OtelLogReads(ledger)
    assert reads.last(FIRST.source) is None
    for each in (FIRST, OTHER, replace(SECOND, row_hashes=C)):
        reads.commit(each, {}, 0, {})
    assert reads.last(FIRST.source) == replace(SECOND, row_hashes=C)
    assert sorted(reads.paths()) == ["clickhouse/1", "clickhouse/2", "clickhouse/other"]
    assert reads.hashes(FIRST.source, 0, 1000) == {A, B, C}
    assert reads.hashes(FIRST.source, 120, 1000) == {C}
    assert reads.hashes(FIRST.source, 0, 150) == {A, B}


def test_what_left_the_overlap_is_deleted_but_the_newest_stays(ledger: Ledger) -> None:
    reads = OtelLogReads(ledger)
    reads.commit(FIRST, {}, 0, {})
    reads.commit(replace(SECOND, row_hashes=C), {}, 500, {})
    assert reads.hashes(FIRST.source, 0, 1000) == {C}


def test_a_commit_of_a_process_that_was_overtaken_is_refused(ledger: Ledger) -> None:
    reads, leases = OtelLogReads(ledger), Leases(ledger)
    number = leases.acquire("otel logs", "one", 0)
    assert number is not None
    assert leases.acquire("otel logs", "other", 60) is not None
    with pytest.raises(StaleLeaseError):
        reads.commit(FIRST, {7: 2}, 0, {"otel logs": number})
    assert reads.last(FIRST.source) is None
    reads.commit(FIRST, {7: 2}, 0, {})
    with pytest.raises(LedgerConflictError):
        reads.commit(FIRST, {7: 2}, 0, {})
    assert reads.minutes(FIRST.source) == {7: 2}
    with pytest.raises(StaleLeaseError):
        reads.count(FIRST.source, {7: 3}, {"otel logs": number})
    assert reads.minutes(FIRST.source) == {7: 2}


def test_the_counts_of_a_minute_are_those_of_its_last_read_for_eight_days(ledger: Ledger) -> None:
    reads, day = OtelLogReads(ledger), 24 * 60
    reads.commit(FIRST, {0: 1, day: 2, day + 1: 3}, 0, {})
    reads.count(FIRST.source, {day: 5}, {})
    reads.commit(OTHER, {0: 9}, 0, {})
    assert reads.minutes(FIRST.source) == {0: 1, day: 5, day + 1: 3}
    ninth = replace(SECOND, position_ns=(9 * day + 1) * 60 * 10**9)
    reads.commit(ninth, {9 * day: 4, day - 1: 6}, 0, {})
    assert reads.minutes(FIRST.source) == {day + 1: 3, 9 * day: 4}
    assert reads.minutes(OTHER.source) == {0: 9}
