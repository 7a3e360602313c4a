"""Events by ids in the order of commits."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
import sqlalchemy as sa

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import Alert
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas.scorecards import Announcement
from evaluation_pipelines.scorecards.store import EventStore
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents, append_events
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.judging.ledger.score_builders import log_turn, started, turn
from evaluation_pipelines_tests.world.ledger import MARCH_1, NOON


def event(name: str) -> dict[str, object]:
    return {"type": "alert.raised", "timestamp_us": to_us(NOON), "payload": name}


def commit_slowly(ledger: Ledger, name: str, inserted: Future[None], go: threading.Event) -> None:
    """Append an event, and keep the transaction open until ``go``."""
    with writing(ledger.engine) as connection:
        append_events(connection, [event(name)])
        inserted.set_result(None)
        go.wait(30)


def follow(ledger: Ledger, seen: list[tuple[int, str | None]]) -> None:
    """Read on from the last event that was seen."""
    last = seen[-1][0] if seen else 0
    seen += [
        (service_event.event_id, service_event.payload)
        for service_event in ServiceEvents(ledger).after(last)
    ]


def test_an_event_of_a_slow_transaction_is_never_behind_what_a_reader_has_seen(
    url: str, ledger: Ledger
) -> None:
    seen: list[tuple[int, str | None]] = []
    first, second = Future[None](), Future[None]()
    go_first, go_second = threading.Event(), threading.Event()
    other = open_ledger(url)
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(commit_slowly, ledger, "first", first, go_first)
        first.result(30)
        # The second transaction would commit earlier, but waits for the first one.
        late = pool.submit(commit_slowly, other, "second", second, go_second)
        go_second.set()
        with pytest.raises(TimeoutError):
            second.result(0.2)
        follow(ledger, seen)
        assert seen == []
        go_first.set()
        slow.result(30)
        follow(ledger, seen)
        late.result(30)
    follow(ledger, seen)
    assert [name for _, name in seen] == ["first", "second"]
    other.close()


def test_a_reader_misses_none_of_many_concurrent_writers(url: str, ledger: Ledger) -> None:
    seen: list[tuple[int, str | None]] = []

    def write(number: int) -> None:
        own = open_ledger(url)
        for index in range(20):
            with writing(own.engine) as connection:
                append_events(connection, [event(f"{number}-{index}-{n}") for n in range(3)])
        own.close()

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, number) for number in range(4)]
        while not all(future.done() for future in writers):
            follow(ledger, seen)
        for writer in writers:
            writer.result()
    follow(ledger, seen)
    assert len(seen) == len({name for _, name in seen}) == 4 * 20 * 3
    assert [position for position, _ in seen] == sorted(position for position, _ in seen)


def test_what_was_rolled_back_or_known_leaves_no_gap(ledger: Ledger) -> None:
    once = {**event("once"), "unique_id": "u"}
    ServiceEvents(ledger).append([once])
    with writing(ledger.engine) as connection:
        append_events(connection, [event("undone"), event("undone, too")])
        connection.rollback()
    ServiceEvents(ledger).append([once, {**event("new"), "unique_id": "v"}, once])

    assert [
        (service_event.event_id, service_event.payload)
        for service_event in ServiceEvents(ledger).after(0)
    ] == [
        (1, "once"),
        (2, "new"),
    ]
    assert not ServiceEvents(ledger).is_missing_any(0, 2)


def test_an_event_is_written_in_the_transaction_of_its_change(ledger: Ledger) -> None:
    def process_end(_connection: sa.Connection) -> None:
        raise KeyboardInterrupt

    sa.event.listen(ledger.engine, "commit", process_end)
    with pytest.raises(KeyboardInterrupt):
        started(ledger)
    sa.event.remove(ledger.engine, "commit", process_end)

    assert ServiceEvents(ledger).after(0) == []
    assert ScoreStore(ledger).dates() == []
    started(ledger)
    assert [service_event.type for service_event in ServiceEvents(ledger).after(0)] == [
        "scoring.started",
        "scoring.progress",
    ]


def test_no_row_is_locked_after_the_lock_of_events(ledger: Ledger) -> None:
    # Otherwise a process that stores a reply and one that changes a status could deadlock.
    score = started(ledger)
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    sa.event.listen(ledger.engine, "before_cursor_execute", note)
    log_turn(ScoreStore(ledger), score, turn(), next_phase="identifying_missing_tools")

    assert "INSERT INTO service_events" in statements[-1]
    assert sum("INSERT INTO service_events" in statement for statement in statements) == 1
    assert "max(service_events.event_id)" in statements[-2]
    assert sum("UPDATE session_scores" in statement for statement in statements) == 1


def test_alerts_are_events(ledger: Ledger) -> None:
    alerts, alert = AlertStore(ledger), Alert("parked", "2026-03-01", "title", "text")
    assert alerts.put(alert, NOON)
    assert not alerts.put(alert, NOON)
    alerts.end("parked", ["2026-03-01"], NOON + timedelta(seconds=1))
    alerts.end("parked", ["2026-03-01"], NOON + timedelta(seconds=2))

    raised, ended = ServiceEvents(ledger).after(0)
    assert (raised.type, ended.type) == ("alert.raised", "alert.ended")
    assert ended.timestamp_us - raised.timestamp_us == 1_000_000
    payload = '{"kind": "parked", "cause": "2026-03-01", "title": "title", "text": "text"}'
    assert (raised.payload, raised.organization_id) == (payload, None)


def test_old_events_are_swept_and_the_oldest_kept_one_is_known(ledger: Ledger) -> None:
    events, store = ServiceEvents(ledger), ScoreStore(ledger)
    announced = Announcement("uuid", "evaluation.model_feedback", MARCH_1, "acme", "s", None, 1, "")
    EventStore(ledger).record(MARCH_1, [announced], NOON)
    score = started(ledger)
    later = turn(at=NOON + timedelta(days=2))
    log_turn(store, score, later, next_phase="identifying_missing_tools")
    sweep = partial(events.sweep, NOON + timedelta(days=1))

    assert events.oldest_id() == 2
    assert [sweep(), sweep()] == [1, 0]
    assert events.oldest_id() == 3
    assert [service_event.type for service_event in events.after(0)] == [
        *("evaluation.model_feedback", "scoring.progress", "scoring.progress"),
    ]
    # A rebuild announces nothing again.
    assert EventStore(ledger).record(MARCH_1, [announced], NOON).events == ()
