from contextlib import suppress
from dataclasses import fields, replace
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation_pipelines.adapters.ledger.errors import (
    LeaseLostError,
    LedgerConflictError,
    LedgerError,
    PositionMovedError,
    UnknownSourceFileError,
)
from evaluation_pipelines.adapters.ledger.ledger import Ledger
from evaluation_pipelines.adapters.ledger.records import IngestBatch
from evaluation_pipelines.domain.telemetry.counts import IngestCounts
from evaluation_pipelines_tests.adapters.ledger.ledger_builders import (
    LANDED,
    MARCH_1,
    MARCH_2,
    NOON,
    at,
    batch,
    leased,
    new_part,
    session,
)


def state(ledger: Ledger) -> list[object]:
    """Everything that a batch can change."""
    return [
        ledger.files.all(),
        ledger.parts.known_paths(LANDED, MARCH_1),
        ledger.parts.dates(LANDED),
        ledger.sessions.dates_by_session_id(["s1", "s2"]),
        ledger.touched.all(),
        ledger.ingest.totals_by_file(),
        ledger.ingest.names(),
    ]


def full_batch(epoch: int, **changes: object) -> IngestBatch:
    """A batch with something of everything."""
    full = batch(
        epoch,
        parts=(new_part("a"), new_part("b", MARCH_2)),
        sessions=(session("s1"), session("s2", MARCH_2)),
        counts=IngestCounts(bytes=100, lines=3, events=20),
        names={("codex", "noise"): 2},
        last_event_time=at(seconds=-5),
    )
    return replace(full, **changes)  # type: ignore[arg-type]


def test_a_batch_makes_everything_count_at_once(ledger: Ledger) -> None:
    epoch = leased(ledger, head_bytes=50, head_sha256="cd")
    ledger.ingest.commit_batch(full_batch(epoch))

    file = ledger.files.get("f1")
    assert (file.position, file.last_read_at) == (100, NOON)
    assert (file.head_bytes, file.head_sha256) == (4_096, "ab" * 32)
    assert file.last_event_time == at(seconds=-5)
    assert ledger.parts.known_paths(LANDED, MARCH_1) == {"a"}
    assert ledger.sessions.session_dates([("acme", "s2")]) == {("acme", "s2"): MARCH_2}
    assert [each.session_date for each in ledger.touched.pending(NOON)] == [MARCH_1, MARCH_2]
    assert ledger.ingest.totals() == IngestCounts(bytes=100, lines=3, events=20)
    assert ledger.ingest.names() == {("codex", "noise"): 2}


def test_a_batch_after_the_lease_was_lost_changes_nothing(ledger: Ledger) -> None:
    epoch = leased(ledger)
    ledger.files.acquire_lease("f1", "other", 60, at(minutes=2))
    before = state(ledger)

    with pytest.raises(LeaseLostError, match=r"bytes 0 to 100 of file f1"):
        ledger.ingest.commit_batch(full_batch(epoch))
    assert state(ledger) == before


def test_the_same_batch_counts_once(ledger: Ledger) -> None:
    epoch = leased(ledger)
    ledger.ingest.commit_batch(full_batch(epoch))
    before = state(ledger)

    with pytest.raises(PositionMovedError, match="read up to byte 100"):
        ledger.ingest.commit_batch(full_batch(epoch))
    assert state(ledger) == before


def test_a_batch_that_would_leave_a_gap_is_refused(ledger: Ledger) -> None:
    epoch = leased(ledger)

    with pytest.raises(PositionMovedError, match="read up to byte 0"):
        ledger.ingest.commit_batch(full_batch(epoch, from_offset=50))
    assert ledger.files.get("f1").position == 0


def test_a_batch_of_a_file_that_was_never_added_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UnknownSourceFileError, match="f1"):
        ledger.ingest.commit_batch(batch(1))


def test_a_batch_without_bytes_is_refused(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="must consume bytes"):
        ledger.ingest.commit_batch(batch(1, 100, 100))


def test_a_part_that_is_there_already_undoes_the_whole_batch(ledger: Ledger) -> None:
    epoch = leased(ledger)
    ledger.ingest.commit_batch(batch(epoch, 0, 10, parts=(new_part("b"),)))
    before = state(ledger)

    with pytest.raises(LedgerConflictError, match=r"parts.path"):
        ledger.ingest.commit_batch(full_batch(epoch, from_offset=10))
    assert state(ledger) == before


def test_a_failure_at_the_last_step_undoes_the_whole_batch(ledger: Ledger) -> None:
    epoch = leased(ledger)
    before = state(ledger)
    broken = full_batch(epoch, names={("codex", "noise"): None})

    with pytest.raises(LedgerError):
        ledger.ingest.commit_batch(broken)
    assert state(ledger) == before


def test_the_last_event_time_never_goes_back(ledger: Ledger) -> None:
    epoch = leased(ledger)
    for end, time in ((1, at(hours=1)), (2, NOON), (3, None)):
        ledger.ingest.commit_batch(batch(epoch, end - 1, end, last_event_time=time))

    assert ledger.files.get("f1").last_event_time == at(hours=1)


def test_every_counter_is_added_up_by_itself(ledger: Ledger) -> None:
    epoch = leased(ledger)
    names = [each.name for each in fields(IngestCounts)]
    first = IngestCounts(**{name: 10 + place for place, name in enumerate(names)})
    second = IngestCounts(**{name: 100 * place for place, name in enumerate(names)})
    ledger.ingest.commit_batch(batch(epoch, 0, 10, counts=first))
    ledger.ingest.commit_batch(batch(epoch, 10, 20, counts=second))

    # 10 + place + 100 * place
    expected = IngestCounts(**{name: 10 + 101 * place for place, name in enumerate(names)})
    assert ledger.ingest.totals() == expected
    assert ledger.ingest.totals_by_file() == {"f1": expected}


def test_totals_can_begin_at_a_time_and_are_told_per_file(ledger: Ledger) -> None:
    first, second = leased(ledger), leased(ledger, "f2")
    ledger.ingest.commit_batch(batch(first, 0, 10, counts=IngestCounts(events=1)))
    later = at(hours=1)
    ledger.ingest.commit_batch(
        batch(first, 10, 20, ingested_at=later, counts=IngestCounts(events=10))
    )
    ledger.ingest.commit_batch(
        batch(second, file_id="f2", ingested_at=later, counts=IngestCounts(events=100))
    )

    assert ledger.ingest.totals().events == 111
    assert ledger.ingest.totals(since=later).events == 110
    assert ledger.ingest.totals_by_file() == {
        "f1": IngestCounts(events=11),
        "f2": IngestCounts(events=100),
    }
    assert ledger.ingest.totals_by_file(since=later)["f1"] == IngestCounts(events=10)


def test_totals_of_an_empty_ledger_are_zero(ledger: Ledger) -> None:
    assert ledger.ingest.totals() == IngestCounts()
    assert ledger.ingest.totals_by_file() == {}
    assert ledger.ingest.names() == {}


def test_records_that_are_not_stored_are_counted_by_name(ledger: Ledger) -> None:
    epoch = leased(ledger)
    ledger.ingest.commit_batch(batch(epoch, 0, 10, names={("codex", "a"): 2, ("codex", "b"): 1}))
    ledger.ingest.commit_batch(
        batch(epoch, 10, 20, names={("qwen_code", "a"): 4, ("codex", "a"): 3})
    )

    assert ledger.ingest.names() == {("codex", "a"): 5, ("codex", "b"): 1, ("qwen_code", "a"): 4}


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    attempts=st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 3), st.sampled_from([1, 1, 1, 2])), max_size=30
    )
)
def test_whatever_is_attempted_every_byte_counts_once(
    ledger: Ledger, attempts: list[tuple[int, int, int]]
) -> None:
    file_id = uuid4().hex  # the ledger is the same for all examples
    assert leased(ledger, file_id) == 1
    for start, length, epoch in attempts:
        counts = IngestCounts(bytes=length)
        attempt = batch(epoch, start, start + length, file_id=file_id, counts=counts)
        with suppress(PositionMovedError, LeaseLostError):
            ledger.ingest.commit_batch(attempt)

    counted = ledger.ingest.totals_by_file().get(file_id, IngestCounts()).bytes
    assert counted == ledger.files.get(file_id).position
