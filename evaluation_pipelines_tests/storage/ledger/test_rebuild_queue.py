from datetime import date

from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFiles
from evaluation_pipelines_tests.world.ledger import (
    MARCH_1,
    MARCH_2,
    NOON,
    add_file,
    at,
    batch,
    commit,
    new_part,
)


def touch(ledger: Ledger, *dates: date, minutes: float = 0) -> None:
    add_file(ledger)
    position = SourceFiles(ledger).get("f1").position
    parts = tuple(new_part(f"{position}-{day}", day) for day in dates)
    commit(ledger, batch(position, position + 1, parts=parts, ingested_at=at(minutes=minutes)))


def due(ledger: Ledger, minutes: float = 0) -> list[date]:
    return [
        queued_date.session_date
        for queued_date in RebuildQueue(ledger).pending(at(minutes=minutes))
    ]


def touched(ledger: Ledger) -> QueuedDate:
    (only,) = RebuildQueue(ledger).all()
    return only


def test_the_dates_of_new_parts_are_due_oldest_first(ledger: Ledger) -> None:
    touch(ledger, MARCH_2, MARCH_1)

    assert due(ledger) == [MARCH_1, MARCH_2]
    assert RebuildQueue(ledger).all()[0] == QueuedDate(
        session_date=MARCH_1,
        version=1,
        touched_at=NOON,
        built_version=None,
        attempts=0,
        last_error=None,
        next_attempt_at=None,
        parked=False,
    )


def test_a_batch_without_parts_or_with_quarantine_only_touches_nothing(ledger: Ledger) -> None:
    touch(ledger)
    add_file(ledger)
    quarantined = new_part("q", None, table_name="quarantine")
    commit(ledger, batch(1, 2, parts=(quarantined,)))

    assert RebuildQueue(ledger).all() == []


def test_a_date_that_was_built_is_not_due(ledger: Ledger) -> None:
    touch(ledger, MARCH_1)

    assert not touched(ledger).is_built
    assert RebuildQueue(ledger).mark_built(MARCH_1, 1)
    assert due(ledger) == []
    assert touched(ledger).is_built


def test_a_built_date_is_due_again_when_new_data_comes(ledger: Ledger) -> None:
    touch(ledger, MARCH_1)
    RebuildQueue(ledger).mark_built(MARCH_1, 1)
    touch(ledger, MARCH_1, minutes=5)

    assert due(ledger) == [MARCH_1]
    again = touched(ledger)
    assert (again.version, again.built_version, again.touched_at) == (2, 1, at(minutes=5))


def test_a_date_touched_while_it_was_built_stays_due(ledger: Ledger) -> None:
    touch(ledger, MARCH_1)
    touch(ledger, MARCH_1)

    assert not RebuildQueue(ledger).mark_built(MARCH_1, 1)
    assert touched(ledger).built_version is None
    assert due(ledger) == [MARCH_1]


def test_a_failed_date_waits_twice_as_long_each_time_and_is_parked_in_the_end(
    ledger: Ledger,
) -> None:
    touch(ledger, MARCH_1)

    first = RebuildQueue(ledger).mark_failed(MARCH_1, 1, "no disk", NOON)
    assert first == touched(ledger)
    assert (first.attempts, first.last_error) == (1, "no disk")
    assert due(ledger, minutes=0.99) == []
    assert due(ledger, minutes=1) == [MARCH_1]  # 1 minute after the first failure

    RebuildQueue(ledger).mark_failed(MARCH_1, 1, "no disk", NOON)
    assert touched(ledger).next_attempt_at == at(minutes=2)
    RebuildQueue(ledger).mark_failed(MARCH_1, 1, "no disk", NOON)
    assert touched(ledger).next_attempt_at == at(minutes=4)
    assert not touched(ledger).parked

    last = RebuildQueue(ledger).mark_failed(MARCH_1, 1, "no luck", NOON)
    assert last is not None
    assert (last.attempts, last.parked, last.next_attempt_at) == (4, True, None)
    assert last.last_error == "no luck"
    assert due(ledger, minutes=100_000) == []


def test_a_failure_of_an_old_version_does_not_count_against_new_data(ledger: Ledger) -> None:
    touch(ledger, MARCH_1)
    touch(ledger, MARCH_1)

    assert RebuildQueue(ledger).mark_failed(MARCH_1, 1, "old", NOON) is None
    assert touched(ledger).attempts == 0
    assert due(ledger) == [MARCH_1]


def test_new_data_is_a_new_chance_for_a_parked_date(ledger: Ledger) -> None:
    touch(ledger, MARCH_1)
    RebuildQueue(ledger).mark_failed(MARCH_1, 1, "no disk", NOON, max_attempts=1)
    touch(ledger, MARCH_1)

    fresh = touched(ledger)
    assert (fresh.attempts, fresh.last_error, fresh.parked) == (0, None, False)
    assert due(ledger) == [MARCH_1]


def test_success_wipes_the_failures_before_it(ledger: Ledger) -> None:
    touch(ledger, MARCH_1)
    RebuildQueue(ledger).mark_failed(MARCH_1, 1, "no disk", NOON)
    RebuildQueue(ledger).mark_built(MARCH_1, 1)

    built = touched(ledger)
    assert (built.attempts, built.last_error, built.next_attempt_at) == (0, None, None)


def test_a_parked_date_can_be_revived_and_keeps_its_last_error(ledger: Ledger) -> None:
    touch(ledger, MARCH_1)
    RebuildQueue(ledger).mark_failed(MARCH_1, 1, "no disk", NOON, max_attempts=1)

    assert RebuildQueue(ledger).revive(MARCH_1)
    assert due(ledger) == [MARCH_1]
    revived = touched(ledger)
    assert (revived.attempts, revived.parked, revived.last_error) == (0, False, "no disk")


def test_a_date_that_was_never_touched_is_neither_built_failed_nor_revived(
    ledger: Ledger,
) -> None:
    assert not RebuildQueue(ledger).mark_built(MARCH_1, 1)
    assert RebuildQueue(ledger).mark_failed(MARCH_1, 1, "no disk", NOON) is None
    assert not RebuildQueue(ledger).revive(MARCH_1)


def test_a_held_date_is_left_to_its_holder_until_its_time_or_new_data_comes(
    ledger: Ledger,
) -> None:
    touch(ledger, MARCH_1, MARCH_2)
    RebuildQueue(ledger).touch([MARCH_1], NOON, held_until=at(minutes=60))

    assert due(ledger) == [MARCH_2]
    assert [queued_date.session_date for queued_date in RebuildQueue(ledger).held(NOON)] == [
        MARCH_1
    ]
    assert due(ledger, minutes=61) == [MARCH_1, MARCH_2]
    assert RebuildQueue(ledger).held(at(minutes=61)) == []
    RebuildQueue(ledger).touch([MARCH_1], at(minutes=1))
    assert due(ledger, minutes=1) == [MARCH_1, MARCH_2]
    assert RebuildQueue(ledger).held(at(minutes=1)) == []


def test_a_date_that_waits_for_its_next_attempt_or_is_built_is_nobody_s(ledger: Ledger) -> None:
    touch(ledger, MARCH_1)
    RebuildQueue(ledger).mark_failed(MARCH_1, 1, "torn", NOON)
    RebuildQueue(ledger).touch([MARCH_2], NOON, held_until=at(minutes=60))
    RebuildQueue(ledger).mark_built(MARCH_2, 1)

    assert RebuildQueue(ledger).held(NOON) == []
