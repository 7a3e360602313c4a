from contextlib import suppress
from dataclasses import fields, replace
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation_pipelines.storage.ledger.errors import LedgerConflictError, LedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    IngestBatch,
    IngestBatches,
    PositionMovedError,
    SessionIndex,
    SourceFiles,
    UnknownSourceFileError,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import (
    LANDED,
    MARCH_1,
    MARCH_2,
    NOON,
    add_file,
    at,
    batch,
    commit,
    new_part,
    session,
)


def state(ledger: Ledger) -> list[object]:
    """Return everything that a batch can change."""
    return [
        SourceFiles(ledger).all(),
        Manifest(ledger).known_paths(MARCH_1),
        Manifest(ledger).dates(LANDED),
        SessionIndex(ledger).dates_by_session_id(["s1", "s2"]),
        RebuildQueue(ledger).all(),
        IngestBatches(ledger).totals(),
        IngestBatches(ledger).names(),
    ]


def full_batch(**changes: object) -> IngestBatch:
    """Return a batch with all kinds of content."""
    full = batch(
        parts=(new_part("a"), new_part("b", MARCH_2)),
        sessions=(session("s1"), session("s2", MARCH_2)),
        counts=IngestCounts(bytes=100, lines=3, events=20),
        names={("codex", "noise"): 2},
        last_event_time=at(seconds=-5),
    )
    return replace(full, **changes)  # type: ignore[arg-type]


def test_a_batch_commits_all_its_changes(ledger: Ledger) -> None:
    add_file(ledger, head_bytes=50, head_sha256="cd")
    commit(ledger, full_batch())

    file = SourceFiles(ledger).get("f1")
    assert (file.position, file.last_read_at) == (100, NOON)
    assert (file.head_bytes, file.head_sha256) == (4_096, "ab" * 32)
    assert file.last_event_time == at(seconds=-5)
    assert Manifest(ledger).known_paths(MARCH_1) == {"a"}
    assert SessionIndex(ledger).session_dates([("acme", "s2")]) == {("acme", "s2"): MARCH_2}
    assert [each.session_date for each in RebuildQueue(ledger).pending(NOON)] == [MARCH_1, MARCH_2]
    assert IngestBatches(ledger).totals() == IngestCounts(bytes=100, lines=3, events=20)
    assert IngestBatches(ledger).names() == {("codex", "noise"): 2}


def test_the_same_batch_counts_once(ledger: Ledger) -> None:
    add_file(ledger)
    commit(ledger, full_batch())
    before = state(ledger)

    with pytest.raises(PositionMovedError, match="read up to byte 100"):
        commit(ledger, full_batch())
    assert state(ledger) == before


def test_a_batch_that_would_leave_a_gap_is_refused(ledger: Ledger) -> None:
    add_file(ledger)

    with pytest.raises(PositionMovedError, match="read up to byte 0"):
        commit(ledger, full_batch(from_offset=50))
    assert SourceFiles(ledger).get("f1").position == 0


def test_a_batch_of_a_file_that_was_never_added_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UnknownSourceFileError, match="f1"):
        commit(ledger, batch())


def test_a_batch_without_bytes_is_refused(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="must consume bytes"):
        commit(ledger, batch(100, 100))


def test_a_part_that_already_exists_rolls_back_the_batch(ledger: Ledger) -> None:
    add_file(ledger)
    commit(ledger, batch(0, 10, parts=(new_part("b"),)))
    before = state(ledger)

    with pytest.raises(LedgerConflictError, match=r"parts.path"):
        commit(ledger, full_batch(from_offset=10))
    assert state(ledger) == before


def test_a_failure_in_the_last_step_rolls_back_the_batch(ledger: Ledger) -> None:
    add_file(ledger)
    before = state(ledger)
    broken = full_batch(names={("codex", "noise"): None})

    with pytest.raises(LedgerError):
        commit(ledger, broken)
    assert state(ledger) == before


def test_the_last_event_time_never_goes_back(ledger: Ledger) -> None:
    add_file(ledger)
    for end, time in ((1, at(hours=1)), (2, NOON), (3, None)):
        commit(ledger, batch(end - 1, end, last_event_time=time))

    assert SourceFiles(ledger).get("f1").last_event_time == at(hours=1)


def test_every_count_is_summed_separately(ledger: Ledger) -> None:
    add_file(ledger)
    names = [each.name for each in fields(IngestCounts)]
    first = IngestCounts(**{name: 10 + index for index, name in enumerate(names)})
    second = IngestCounts(**{name: 100 * index for index, name in enumerate(names)})
    commit(ledger, batch(0, 10, counts=first))
    commit(ledger, batch(10, 20, counts=second))

    # 10 + index + 100 * index
    expected = IngestCounts(**{name: 10 + 101 * index for index, name in enumerate(names)})
    assert IngestBatches(ledger).totals() == expected


def test_totals_can_start_at_a_time(ledger: Ledger) -> None:
    add_file(ledger)
    add_file(ledger, "f2")
    commit(ledger, batch(0, 10, counts=IngestCounts(events=1)))
    later = at(hours=1)
    commit(ledger, batch(10, 20, ingested_at=later, counts=IngestCounts(events=10)))
    commit(ledger, batch(file_id="f2", ingested_at=later, counts=IngestCounts(events=100)))

    assert IngestBatches(ledger).totals().events == 111
    assert IngestBatches(ledger).totals(since=later).events == 110


def test_totals_of_an_empty_ledger_are_zero(ledger: Ledger) -> None:
    assert IngestBatches(ledger).totals() == IngestCounts()
    assert IngestBatches(ledger).names() == {}


def test_records_that_are_not_stored_are_counted_by_name(ledger: Ledger) -> None:
    add_file(ledger)
    commit(ledger, batch(0, 10, names={("codex", "a"): 2, ("codex", "b"): 1}))
    commit(ledger, batch(10, 20, names={("qwen_code", "a"): 4, ("codex", "a"): 3}))

    assert IngestBatches(ledger).names() == {
        ("codex", "a"): 5,
        ("codex", "b"): 1,
        ("qwen_code", "a"): 4,
    }


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attempts=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=30))
def test_every_byte_counts_once_for_any_sequence_of_attempts(
    ledger: Ledger, attempts: list[tuple[int, int]]
) -> None:
    file_id = uuid4().hex  # the ledger is the same for all examples
    add_file(ledger, file_id)
    before = IngestBatches(ledger).totals().bytes
    for start, length in attempts:
        counts = IngestCounts(bytes=length)
        attempt = batch(start, start + length, file_id=file_id, counts=counts)
        with suppress(PositionMovedError):
            commit(ledger, attempt)

    counted = IngestBatches(ledger).totals().bytes - before
    assert counted == SourceFiles(ledger).get(file_id).position
