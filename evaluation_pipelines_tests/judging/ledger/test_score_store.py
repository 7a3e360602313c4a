"""Scorings from creation to completion, and queries on them, on each database."""

import operator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import reduce
from typing import Any

import pytest
import sqlalchemy as sa

from evaluation_pipelines.judging.domain.badge import ScoringsOfDay
from evaluation_pipelines.judging.domain.budget import DayReservation
from evaluation_pipelines.judging.domain.due import PastScore
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_queries import (
    ScoreEndedError,
    ScoringOpenError,
    UnknownScoreError,
    day_scorings,
)
from evaluation_pipelines.judging.ledger.score_store import Failure, ReceivedReply, ScoreStore
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerConflictError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import SESSION_SCORES
from evaluation_pipelines.storage.lock import JUDGE, LockLostError, held
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.judging.ledger.score_builders import (
    DONE,
    HASH,
    PROMPT_FACTS,
    begun,
    log_turn,
    log_turns,
    new_score,
    started,
    turn,
)
from evaluation_pipelines_tests.world.ledger import MARCH_1, MARCH_2, NOON, at

NOON_US = 1_772_366_400_000_000
"""2026-03-01 12:00 UTC: 20 513 days of 86 400 s and 12 h since 1970."""


def events_of(ledger: Ledger, score: Score) -> list[tuple[str, int, object]]:
    """Return type, seconds after noon and detail of each event."""
    return [
        (
            event.type,
            (event.timestamp_us - NOON_US) // 1_000_000,
            event.phase or event.total_score or event.error_message,
        )
        for event in ScoreStore(ledger).events(score.score_id)
    ]


def test_the_columns_of_the_table_are_the_fields_of_a_score() -> None:
    assert {column.name for column in SESSION_SCORES.c} == {field.name for field in fields(Score)}


def test_a_scoring_goes_from_start_to_completion(ledger: Ledger) -> None:
    store = ScoreStore(ledger)
    score = store.create(begun(**PROMPT_FACTS), NOON)
    assert score.status == "in_progress"

    log_turn(store, score, turn("score-1", at(seconds=2)), next_phase="identifying_missing_tools")
    log_turn(store, score, turn("missing-tools", at(seconds=4)))
    done = store.complete(score.score_id, DONE, at(seconds=5))

    assert done == ScoreStore(ledger).get(score.score_id)
    assert (done.status, done.total_score, done.failure_tags) == (
        "completed",
        64,
        ["incomplete_evidence"],
    )
    assert done.criteria_scores == {"logical_flow": 16, "consistency": 16}
    assert (done.redactions, done.truncated, done.injection_suspected) == (
        {"email": 2},
        True,
        False,
    )
    # Two replies with 1,000 input, 600 cached, 200 output tokens, 0.01 USD and 2 s each.
    assert (done.input_tokens, done.cached_tokens, done.output_tokens) == (2_000, 1_200, 400)
    assert done.judge_cost_usd == pytest.approx(0.02)
    assert done.latency_ms == 4_000.0
    assert (done.started_at_us, done.completed_at_us) == (NOON_US, NOON_US + 5_000_000)
    assert done.booked_at_us == NOON_US + 5_000_000
    assert done.error_message is None
    assert [logged_turn.turn for logged_turn in done.turn_log] == ["score-1", "missing-tools"]
    assert events_of(ledger, score) == [
        ("scoring.started", 0, None),
        ("scoring.progress", 0, "analyzing_methodology"),
        ("scoring.progress", 2, "identifying_missing_tools"),
        ("scoring.completed", 5, 64),
    ]


def test_a_failed_scoring_has_a_reason_and_says_whether_it_is_retriable(ledger: Ledger) -> None:
    score = started(ledger)
    failed = ScoreStore(ledger).fail(
        score.score_id, Failure("HTTP 400: too long", retriable=False), at(seconds=3)
    )

    assert (failed.status, failed.error_message) == ("failed", "HTTP 400: too long")
    assert failed.retriable is False
    assert failed.completed_at_us == NOON_US + 3_000_000
    assert events_of(ledger, score)[-1] == ("scoring.failed", 3, "HTTP 400: too long")


def test_the_database_refuses_a_second_open_scoring(ledger: Ledger) -> None:
    """Not only the store: the table has a constraint."""
    started(ledger)
    with reading(ledger.engine) as connection:
        row = dict(connection.execute(sa.select(SESSION_SCORES)).mappings().one())
    another = sa.insert(SESSION_SCORES).values({**row, "score_id": "2", "status": "pending"})

    with pytest.raises(LedgerConflictError), writing(ledger.engine) as connection:
        connection.execute(another)


@pytest.mark.parametrize(
    "change",
    [
        {"organization_id": "other"},
        {"session_key": "s2#baseline-1"},
        {"judge_profile_id": "strict"},
        {"judge_model": "judge-2"},
    ],
    ids=str,
)
def test_another_organization_session_profile_or_model_is_another_scoring(
    ledger: Ledger, change: dict[str, Any]
) -> None:
    started(ledger)

    assert ScoreStore(ledger).create(replace(new_score(), **change), NOON).status == "pending"


def test_an_open_scoring_blocks_others_of_any_content_and_version(
    ledger: Ledger,
) -> None:
    started(ledger)

    with pytest.raises(
        ScoringOpenError, match=r"s1#baseline-1 of acme .* Use the result of that judgment"
    ):
        ScoreStore(ledger).create(
            replace(new_score(), content_hash="content-2", judge_profile_version=2), NOON
        )


def test_an_ended_scoring_allows_the_next_one(ledger: Ledger) -> None:
    first = started(ledger)
    ScoreStore(ledger).fail(first.score_id, Failure("endpoint down", retriable=True), NOON)
    second = started(ledger)
    ScoreStore(ledger).complete(second.score_id, DONE, NOON)
    third = started(ledger)
    grown = replace(new_score(), content_hash="content-2", judge_model="judge-2")

    # Only earlier failures of the same content count.
    assert [score.attempt for score in (first, second, third)] == [1, 2, 2]
    assert ScoreStore(ledger).create(grown, NOON).attempt == 1


def test_a_creator_with_an_outdated_count_is_refused(ledger: Ledger) -> None:
    """Two runs list the same sessions; a session that one has finished must not be scored again."""
    other = ScoreStore(ledger).create(new_score(), NOON, known_scorings=0)
    ScoreStore(ledger).complete(other.score_id, DONE, NOON)

    with pytest.raises(ScoringOpenError, match="or was a moment ago"):
        ScoreStore(ledger).create(new_score(), NOON, known_scorings=0)
    assert ScoreStore(ledger).create(new_score(), NOON, known_scorings=1).attempt == 1


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_nothing_leaves_a_terminal_status(ledger: Ledger, end: str) -> None:
    score, store = started(ledger), ScoreStore(ledger)
    if end == "completed":
        ended = store.complete(score.score_id, DONE, NOON)
    else:
        ended = store.fail(score.score_id, Failure("no", retriable=True), NOON)
    message = rf"{score.score_id} of session s1#baseline-1 .* it is {end}, which is final"

    with pytest.raises(ScoreEndedError, match=message):
        store.complete(score.score_id, DONE, NOON)
    with pytest.raises(ScoreEndedError, match=message):
        store.fail(score.score_id, Failure("again", retriable=False), NOON)
    with pytest.raises(ScoreEndedError, match=message):
        log_turn(store, score, turn())
    with pytest.raises(ScoreEndedError, match=message):
        store.leave(score.score_id, NOON)
    with pytest.raises(ScoreEndedError, match=message):
        store.claim(score.score_id, at(days=1))
    assert store.clear_left() == store.release() == 0
    assert store.get(score.score_id) == ended


def test_an_unknown_scoring_raises_an_error(ledger: Ledger) -> None:
    for use in (
        lambda: ScoreStore(ledger).get("none"),
        lambda: ScoreStore(ledger).claim("none", NOON),
        lambda: ScoreStore(ledger).log_turn(ReceivedReply("none", turn())),
        lambda: ScoreStore(ledger).complete("none", DONE, NOON),
    ):
        with pytest.raises(UnknownScoreError, match="no judgment none"):
            use()


def test_a_pending_scoring_is_claimed_once_and_starts_then(ledger: Ledger) -> None:
    score = ScoreStore(ledger).create(new_score(), NOON)
    claimed = ScoreStore(ledger).claim(score.score_id, at(seconds=10))

    assert (claimed.status, claimed.started_at_us) == ("in_progress", NOON_US + 10_000_000)
    with pytest.raises(ScoringOpenError, match="is in progress already"):
        ScoreStore(ledger).claim(score.score_id, at(seconds=69))
    assert [event[0] for event in events_of(ledger, score)] == [
        "scoring.started",
        "scoring.progress",
    ]


def test_what_no_process_works_on_is_shown_as_pending_and_is_taken_up(ledger: Ledger) -> None:
    with held(ledger, JUDGE) as hold:
        judge = ScoreStore(ledger, hold=hold)
        left, done = judge.create(begun(), NOON), judge.create(begun("s2"), NOON)
        out = judge.create(begun("s3", batch_id="b1"), NOON)
        log_turn(judge, left, turn())
        judge.complete(done.score_id, DONE, NOON)
        assert judge.get(left.score_id).status == "in_progress"
    store = ScoreStore(ledger)
    assert [store.get(score.score_id).status for score in (left, done, out)] == [
        *("pending", "completed", "in_progress"),
    ]

    with held(ledger, JUDGE) as hold:
        judge = ScoreStore(ledger, hold=hold)
        assert judge.clear_left() == 1
        found = judge.claim(left.score_id, at(seconds=9))
        # Replies and start are kept.
        assert (found.turn_log, found.started_at_us, found.crashes) == ((turn(),), NOON_US, 1)
        assert [event[0] for event in events_of(ledger, left)] == [
            "scoring.started",
            "scoring.progress",
        ]
        assert judge.release() == 1
        assert judge.claim(left.score_id, at(seconds=9)).crashes == 1
        assert judge.release_batch("b1") == 1
        assert judge.get(out.score_id).batch_id is None


@pytest.mark.parametrize(("state", "cleared"), [("submitted", 0), ("discarded", 1)])
def test_what_names_a_batch_that_has_ended_is_taken_up(
    ledger: Ledger, state: str, cleared: int
) -> None:
    with held(ledger, JUDGE) as hold:
        batches = BatchStore(ledger, hold)
        batches.begin("b1", "judge-1", NOON)
        batches.change("b1", state=state)
        judge = ScoreStore(ledger, hold=hold)
        judge.create(begun(batch_id="b1"), NOON)
        assert judge.clear_left() == cleared


def test_only_replies_and_requests_are_written_without_the_lock(ledger: Ledger) -> None:
    with held(ledger, JUDGE) as lost:
        judge = ScoreStore(ledger, hold=lost)
        score = judge.create(begun(), NOON, DayReservation(0.5))
    store = ScoreStore(ledger)
    log_turn(judge, score, turn(), unused_usd=0.25)
    store.create(new_score("s2"), NOON)

    for change in (
        lambda: judge.create(begun("s3"), NOON),
        lambda: judge.claim(score.score_id, NOON),
        lambda: judge.leave(score.score_id, NOON),
        lambda: judge.complete(score.score_id, DONE, NOON),
        lambda: judge.fail(score.score_id, Failure("no", retriable=True), NOON),
        lambda: judge.reserve_more(score.score_id, DayReservation(0.1), NOON),
        judge.clear_left,
    ):
        with pytest.raises(LockLostError, match="lock judge is lost"):
            change()
    assert store.get(score.score_id).turn_log == (turn(),)
    assert store.get(score.score_id).booked_cost_usd == 0.25


def test_a_request_waits_until_it_is_tried_again(ledger: Ledger) -> None:
    store = ScoreStore(ledger)
    asked = store.create(new_score(requested_by="ada"), NOON)
    left = store.create(new_score("s2"), NOON)  # by a run
    assert [request.score_id for request in store.requests(NOON)] == [asked.score_id]

    store.defer(asked.score_id, "the endpoint is down", NOON, at(seconds=15))
    assert store.requests(at(seconds=14)) == []
    assert [request.waits for request in store.requests(at(seconds=15))] == [1]
    assert events_of(ledger, asked) == [("scoring.deferred", 0, "the endpoint is down")]
    store.request(asked.score_id, "bob", at(hours=1), "http://judge")  # asked again: at once
    (found,) = store.requests(NOON)
    assert (found.requested_by, found.endpoint, found.scored_at_us) == ("ada", None, to_us(NOON))

    taken_up = store.request(left.score_id, "bob", at(hours=1), "http://judge")
    assert (taken_up.requested_by, taken_up.endpoint) == ("bob", "http://judge")
    assert taken_up.scored_at_us == to_us(at(hours=1))


def test_a_sum_is_unknown_if_one_part_is_unknown(ledger: Ledger) -> None:
    score, store = started(ledger), ScoreStore(ledger)
    log_turn(store, score, turn("score-1", cost_usd=None))
    log_turn(store, score, turn("score-2", cached_tokens=None))
    log_turn(store, score, turn("score-3"))

    logged = store.get(score.score_id)
    assert (logged.judge_cost_usd, logged.cached_tokens) == (None, None)
    assert (logged.input_tokens, logged.output_tokens) == (3_000, 600)


def test_a_turn_has_one_reply(ledger: Ledger) -> None:
    score = started(ledger)
    reply = turn(text="Grüße, \N{PILE OF POO} 'quoted' \"twice\"\n```fence")
    log_turn(ScoreStore(ledger), score, reply)

    with pytest.raises(ValueError, match=r"score-1 .* has its reply already"):
        log_turn(ScoreStore(ledger), score, turn(text="another"))
    assert ScoreStore(ledger).get(score.score_id).turn_log == (reply,)


def test_concurrent_replies_are_all_stored(url: str, ledger: Ledger) -> None:
    score = started(ledger)
    names = [[f"score-{who}-{number}" for number in range(10)] for who in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(log_turns, [url] * 3, [score.score_id] * 3, names))

    logged = ScoreStore(ledger).get(score.score_id)
    assert sorted(logged_turn.turn for logged_turn in logged.turn_log) == sorted(
        reduce(operator.iadd, names, [])
    )
    # 3 x 10 replies of 0.01 USD and 200 tokens
    assert logged.judge_cost_usd == pytest.approx(0.30)
    assert logged.output_tokens == 6_000


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
    latencies = {score.session_key: score.latency_ms for score in store.on_date(MARCH_1)}
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
