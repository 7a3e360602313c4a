from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone
from uuid import uuid4

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation_pipelines.storage.ledger.errors import LedgerConflictError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    IngestBatch,
    IngestBatches,
    PositionMovedError,
    SessionDateTakenError,
    SessionIndex,
    SourceFiles,
    UnknownSourceFileError,
)
from evaluation_pipelines_tests.world.ledger import (
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
    source_file,
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
    assert [date.session_date for date in RebuildQueue(ledger).pending(NOON)] == [MARCH_1, MARCH_2]
    assert IngestBatches(ledger).totals() == IngestCounts(bytes=100, lines=3, events=20)
    assert IngestBatches(ledger).names() == {("codex", "noise"): 2}


def test_a_batch_that_would_leave_a_gap_is_refused(ledger: Ledger) -> None:
    add_file(ledger)

    with pytest.raises(PositionMovedError, match="read up to byte 0"):
        commit(ledger, full_batch(from_offset=50))
    assert SourceFiles(ledger).get("f1").position == 0


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


def test_the_last_event_time_never_goes_back(ledger: Ledger) -> None:
    add_file(ledger)
    for end, time in ((1, at(hours=1)), (2, NOON), (3, None)):
        commit(ledger, batch(end - 1, end, last_event_time=time))

    assert SourceFiles(ledger).get("f1").last_event_time == at(hours=1)


def test_every_count_is_summed_separately(ledger: Ledger) -> None:
    add_file(ledger)
    names = [field.name for field in fields(IngestCounts)]
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


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_a_file_is_read_as_it_was_stored(ledger: Ledger) -> None:
    # Inodes may be beyond a signed integer; 21:01 in Tokyo is 12:01 UTC.
    file = source_file(inode=2**64 - 1, device=2**63, last_read_at=at(minutes=1), position=7)
    tokyo = datetime(2026, 3, 1, 21, 1, tzinfo=timezone(timedelta(hours=9)))
    SourceFiles(ledger).add(replace(file, last_read_at=tokyo))

    assert SourceFiles(ledger).get("f1") == file
    assert SourceFiles(ledger).all() == [file]


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


def test_a_time_without_a_zone_is_refused(ledger: Ledger) -> None:
    with pytest.raises(sa.exc.StatementError, match="time zone"):
        SourceFiles(ledger).add(source_file(first_seen_at=datetime(2026, 3, 1)))  # noqa: DTZ001


def store(ledger: Ledger, *sessions: SessionStart) -> None:
    add_file(ledger)
    position = SourceFiles(ledger).get("f1").position
    commit(ledger, batch(position, position + 1, sessions=sessions))


def test_sessions_are_found_by_organization_and_id(ledger: Ledger) -> None:
    store(ledger, session("1"), session("1", MARCH_2, "beta"), session("s2", MARCH_2))

    keys = [("acme", "1"), ("beta", "1"), ("beta", "s2"), ("acme", "s3")]
    assert SessionIndex(ledger).session_dates(keys) == {
        ("acme", "1"): MARCH_1,
        ("beta", "1"): MARCH_2,
    }


def test_sessions_are_found_by_id_alone_in_all_organizations(ledger: Ledger) -> None:
    store(
        ledger,
        session("1", MARCH_2, "beta"),
        session("1", MARCH_1, "acme"),
        session("s2", MARCH_2, ANY_ORGANIZATION),
        session("s3"),
    )

    assert SessionIndex(ledger).dates_by_session_id(["1", "s2", "s4"]) == {
        "1": [("acme", MARCH_1), ("beta", MARCH_2)],
        "s2": [("*", MARCH_2)],
    }


@pytest.mark.slow
def test_thousands_of_sessions_are_looked_up_in_one_call(ledger: Ledger) -> None:
    days = {f"s{n}": MARCH_1 + timedelta(days=n % 7) for n in range(40_000)}
    store(ledger, *(session(session_id, day) for session_id, day in days.items()))

    asked = [("acme", f"s{n}") for n in range(-1, 40_000)]
    assert SessionIndex(ledger).session_dates(asked) == {
        ("acme", key): d for key, d in days.items()
    }


def test_a_session_that_another_reader_dated_differently_stops_the_batch(ledger: Ledger) -> None:
    store(ledger, session("s1", MARCH_1))
    add_file(ledger)
    late = batch(1, 50, parts=(new_part("a"),), sessions=(session("s1", MARCH_2),))

    with pytest.raises(SessionDateTakenError, match="2026-03-01, not 2026-03-02"):
        commit(ledger, late)

    assert SourceFiles(ledger).get("f1").position == 1
    assert Manifest(ledger).known_paths(MARCH_1) == set()
    assert SessionIndex(ledger).session_dates([("acme", "s1")]) == {("acme", "s1"): MARCH_1}


def test_another_organization_of_a_session_id_has_its_date(ledger: Ledger) -> None:
    store(ledger, session("s1", MARCH_1))
    with pytest.raises(SessionDateTakenError, match="2026-03-01, not 2026-03-02"):
        store(ledger, session("s1", MARCH_2, "beta"))


def test_session_ids_are_values_and_never_sql(ledger: Ledger) -> None:
    evil = "'; DROP TABLE session_index; --%s:name?"
    store(ledger, session(evil))

    assert SessionIndex(ledger).session_dates([("acme", evil)]) == {("acme", evil): MARCH_1}
