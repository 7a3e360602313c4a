"""Money of scorings in the ledger: reserved before it is spent, shared by all processes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from evaluation_pipelines.judging.domain.budget import DayReservation
from evaluation_pipelines.judging.ledger.score_queries import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_store import Failure, ScoreStore
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.judging.ledger.score_builders import (
    DONE,
    begin_all,
    begun,
    log_turn,
    new_score,
    started,
    turn,
)
from evaluation_pipelines_tests.world.ledger import NOON, at

DAY_USD = 1.0
NOON_US = to_us(NOON)


def reservation(now_usd: float, later_usd: float = 0.0) -> DayReservation:
    return DayReservation(now_usd, later_usd, DAY_USD)


def fits(ledger: Ledger, usd: float, when: object = NOON) -> bool:
    """Return whether a scoring of this cost may begin; it is completed immediately, at no cost."""
    try:
        created = ScoreStore(ledger).create(begun("probe"), when, reservation(usd))  # type: ignore[arg-type]
    except DayBudgetReachedError:
        return False
    ScoreStore(ledger).complete(created.score_id, DONE, NOON, usd)
    return True


def test_money_is_booked_before_it_is_spent_and_corrected_after(ledger: Ledger) -> None:
    store = ScoreStore(ledger)
    score = store.create(begun(), NOON, DayReservation(0.5, 0.25))
    money = score.booked_cost_usd, score.reserved_cost_usd, score.booked_at_us
    assert money == (0.5, 0.25, NOON_US)

    log_turn(store, score, turn("score-1", at(seconds=2)), unused_usd=0.25)
    logged = store.get(score.score_id)
    money = logged.booked_cost_usd, logged.reserved_cost_usd, logged.booked_at_us
    assert money == (0.25, 0.25, NOON_US + 2_000_000)

    store.reserve_more(score.score_id, reservation(0.0625), at(seconds=3))
    more = store.get(score.score_id)
    money = more.booked_cost_usd, more.reserved_cost_usd, more.booked_at_us
    assert money == (0.3125, 0.25, NOON_US + 3_000_000)

    done = store.complete(score.score_id, DONE, at(seconds=4), 0.125)
    money = done.booked_cost_usd, done.reserved_cost_usd, done.booked_at_us
    assert money == (0.1875, None, NOON_US + 4_000_000)


def test_requests_of_a_dead_judge_stay_booked(ledger: Ledger) -> None:
    """The outcome of its requests in flight is unknown, so they count as paid."""
    store = ScoreStore(ledger)
    score = store.create(begun(), NOON, reservation(0.5, 0.25))
    assert fits(ledger, 0.25)
    assert not fits(ledger, 0.26)
    store.clear_left()
    assert fits(ledger, 0.5)
    assert not fits(ledger, 0.51)

    claimed = store.claim(score.score_id, at(minutes=2), None, reservation(0.25, 0.125))
    assert (claimed.booked_cost_usd, claimed.reserved_cost_usd) == (0.75, 0.125)
    store.leave(score.score_id, at(minutes=3), 0.125)
    left = store.get(score.score_id)
    assert (left.booked_cost_usd, left.reserved_cost_usd, left.status) == (0.625, None, "pending")
    # With an unknown price nothing is booked, and earlier bookings stay.
    again = store.claim(score.score_id, at(minutes=4))
    assert again.booked_cost_usd == 0.625
    failed = store.fail(score.score_id, Failure("no", retriable=True), at(minutes=5))
    assert failed.booked_cost_usd == 0.625


def test_a_reply_that_arrives_late_takes_nothing_from_the_next_judge(ledger: Ledger) -> None:
    store = ScoreStore(ledger)
    score = store.create(begun(), NOON, reservation(0.25))
    store.clear_left()
    store.claim(score.score_id, NOON, None, reservation(0.5))

    log_turn(store, score, turn(), unused_usd=0.125)  # its call cost half of 0.25
    assert store.get(score.score_id).booked_cost_usd == 0.625


def test_scorings_of_anchors_count_as_those_of_sessions(ledger: Ledger) -> None:
    anchors = ScoreStore(ledger, ANCHOR_SCORES)
    score = anchors.create(begun(), NOON, reservation(0.5, 0.25))
    assert not fits(ledger, 0.26)
    assert fits(ledger, 0.25)
    anchors.complete(score.score_id, DONE, NOON, 0.125)
    assert not fits(ledger, 0.63)
    assert fits(ledger, 0.625)


def test_a_refused_reservation_changes_nothing(ledger: Ledger) -> None:
    store = ScoreStore(ledger)
    mine = store.create(begun("s1"), NOON, reservation(0.5, 0.25))
    with pytest.raises(DayBudgetReachedError, match=r"up to \$0.3000 more .* \$0.7500") as refused:
        store.create(begun("s2"), NOON, reservation(0.25, 0.05))
    assert refused.value.is_held  # the first one may cost less than reserved
    with pytest.raises(DayBudgetReachedError, match="this alone exceeds the limit") as refused:
        store.create(begun("s2"), NOON, reservation(1.01))
    assert not refused.value.is_held  # even if the others release everything
    assert store.by_session("acme", "s2") == []

    waiting = store.create(new_score("s3"), NOON)
    with pytest.raises(DayBudgetReachedError):
        store.claim(waiting.score_id, NOON, None, reservation(0.3))
    assert store.get(waiting.score_id) == waiting
    with pytest.raises(DayBudgetReachedError) as refused:
        store.reserve_more(mine.score_id, reservation(0.3), NOON)
    assert not refused.value.is_held  # only the requester itself
    assert store.get(mine.score_id).booked_cost_usd == 0.5

    store.complete(mine.score_id, DONE, NOON, 0.375)
    assert store.claim(waiting.score_id, NOON, None, reservation(0.875)).booked_cost_usd == 0.875


def test_a_day_begins_with_nothing_spent(ledger: Ledger) -> None:
    done = started(ledger)
    ScoreStore(ledger).complete(done.score_id, DONE, at(hours=11.9), -1.0)

    assert not fits(ledger, 0.01, at(hours=11.99))
    assert fits(ledger, 1.0, at(hours=12))  # noon was 12 hours before midnight


def test_what_is_reserved_before_midnight_counts_afterwards(ledger: Ledger) -> None:
    scores, tomorrow = ScoreStore(ledger), at(days=1)
    waiting = scores.create(begun("waits", batch_id="b"), NOON, reservation(0.1, 0.5))

    assert not fits(ledger, 0.41, tomorrow)  # nothing has changed it since
    assert fits(ledger, 0.4, tomorrow)
    scores.release_batch("b")
    assert fits(ledger, 1.0, tomorrow)  # what was booked belongs to the day before
    assert scores.get(waiting.score_id).booked_cost_usd == 0.1


@pytest.mark.usefixtures("ledger")
def test_concurrent_scorers_stay_below_the_daily_limit_together(url: str) -> None:
    names = [[f"{who}-{number}" for number in range(30)] for who in "abc"]
    with ThreadPoolExecutor(3) as pool:  # each opens its own ledger
        begun_by = list(pool.map(begin_all, [url] * 3, names, [0.03] * 3))

    # 33 x 0.03 are 0.99; a 34th would make 1.02. None of the other 57 fits.
    assert sum(begun_by) == 33
