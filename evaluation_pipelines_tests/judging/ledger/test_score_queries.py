"""Queries on scores by date, session and prompt hash, and on events."""

from evaluation_pipelines.judging.domain.badge import ScoringsOfDay
from evaluation_pipelines.judging.domain.due import PastScore
from evaluation_pipelines.judging.ledger.score_queries import day_scorings
from evaluation_pipelines.judging.ledger.score_store import Failure, ScoreStore
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.judging.ledger.score_builders import (
    DONE,
    HASH,
    begun,
    log_turn,
    new_score,
    started,
    turn,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import MARCH_1, MARCH_2, NOON, at


def test_the_scorings_of_a_session_are_in_the_order_of_their_requests(ledger: Ledger) -> None:
    first = started(ledger)
    ScoreStore(ledger).fail(first.score_id, Failure("no", retriable=True), at(seconds=1))
    second = ScoreStore(ledger).create(new_score(), at(hours=20))
    ScoreStore(ledger).create(new_score(organization_id="other"), at(hours=1))

    of_session = ScoreStore(ledger).by_session("acme", "s1#baseline-1")
    assert [score.score_id for score in of_session] == [first.score_id, second.score_id]
    assert ScoreStore(ledger).by_session("acme", "s1#baseline-2") == []


def test_dates_have_their_scorings(ledger: Ledger) -> None:
    store = ScoreStore(ledger)
    second = store.create(new_score("s2#baseline-1", session_date=MARCH_2), NOON)
    first = store.create(new_score("s1#baseline-1", session_date=MARCH_1), NOON)

    assert ScoreStore(ledger).dates() == [MARCH_1, MARCH_2]
    assert ScoreStore(ledger).on_date(MARCH_1) == [first]
    assert ScoreStore(ledger).on_date(MARCH_2) == [second]


def test_the_past_of_some_dates_has_what_decides_which_sessions_are_due(ledger: Ledger) -> None:
    failed = started(ledger)
    ScoreStore(ledger).fail(failed.score_id, Failure("HTTP 503", retriable=True), at(seconds=1))
    done = ScoreStore(ledger).create(
        begun(content_hash="content-2", judge_profile_version=2), at(hours=1)
    )
    ScoreStore(ledger).complete(done.score_id, DONE, at(hours=2))
    started(ledger, "s2#baseline-1", judge_profile_id="strict")
    started(ledger, "s3#baseline-1", session_date=MARCH_2)

    assert ScoreStore(ledger).past([MARCH_1]) == {
        ("acme", "s1#baseline-1", "default"): [
            PastScore(
                "failed",
                1,
                "content-1",
                HASH,
                retriable=True,
                completed_at=at(seconds=1),
                error_message="HTTP 503",
            ),
            PastScore("completed", 2, "content-2", HASH, completed_at=at(hours=2)),
        ],
        ("acme", "s2#baseline-1", "strict"): [PastScore("in_progress", 1, "content-1", HASH)],
    }
    assert ScoreStore(ledger).past([]) == {}


def test_open_scorings_are_pending_or_in_progress(ledger: Ledger) -> None:
    done = started(ledger, "s1#baseline-1")
    ScoreStore(ledger).complete(done.score_id, DONE, at(seconds=1))
    out = started(ledger, "s2#baseline-1", batch_id="b")
    pending = ScoreStore(ledger).create(new_score("s3#baseline-1"), at(seconds=1))

    assert ScoreStore(ledger).open_scores() == [out, pending]


def test_the_cost_of_a_window_is_unknown_once_a_reply_has_no_price(ledger: Ledger) -> None:
    store = ScoreStore(ledger)
    replies = {
        "s1": [turn(), turn("missing-tools")],
        "s2": [turn(latency_ms=None), turn("missing-tools")],  # one in a batch
        "s3": [turn(latency_ms=None, cost_usd=None)],
        "s4": [turn(), turn("missing-tools", cost_usd=None)],
        "s5": [],
    }
    for name, turns in replies.items():
        score = started(ledger, name)
        for logged_turn in turns:
            log_turn(store, score, logged_turn)
    latencies = {each.session_key: each.latency_ms for each in store.on_date(MARCH_1)}
    assert latencies == {"s1": 4_000.0, "s2": None, "s3": None, "s4": 4_000.0, "s5": None}
    costs = [scorings.cost_usd for scorings in store.by_window(MARCH_1)]
    assert costs == [0.02, 0.02, None, None, 0.0]


def test_events_can_be_followed(ledger: Ledger) -> None:
    first = started(ledger, "s1#baseline-1")
    seen = ScoreStore(ledger).events_after(0)
    assert [service_event.session_key for service_event in seen] == ["s1#baseline-1"] * 2
    ScoreStore(ledger).complete(first.score_id, DONE | {"total_score": 0}, at(seconds=1))

    (event,) = ScoreStore(ledger).events_after(seen[-1].event_id)
    assert (event.type, event.score_id, event.session_id) == (
        "scoring.completed",
        first.score_id,
        "s1",
    )
    assert (event.total_score, event.timestamp_us) == (0, to_us(at(seconds=1)))


def test_scorings_of_today_are_counted_with_what_they_cost(ledger: Ledger) -> None:
    store = ScoreStore(ledger)
    done = started(ledger)
    log_turn(store, done, turn())  # a cent
    store.complete(done.score_id, DONE, at(seconds=1))
    failed = started(ledger, "s2#baseline-1")
    store.fail(failed.score_id, Failure("no", retriable=True), at(seconds=1))
    started(ledger, "s3#baseline-1", organization_id="other")
    store.create(new_score("s4#baseline-1"), NOON)  # requested, not begun
    models = (done.judge_model,)
    assert day_scorings(ledger, at(hours=1)) == ScoringsOfDay(1, 1, 2, 0.01, 1, models)
    assert day_scorings(ledger, at(hours=1), "acme") == ScoringsOfDay(1, 1, 1, 0.01, 1, models)
    assert day_scorings(ledger, at(hours=20), "acme") == ScoringsOfDay(0, 0, 1, 0.0, 0)


def test_a_day_without_scorings_is_zero(ledger: Ledger) -> None:
    assert day_scorings(ledger, NOON) == ScoringsOfDay(0, 0, 0, 0.0, 0)
