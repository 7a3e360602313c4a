"""The numbers of a day of the judge."""

from evaluation_pipelines.judging.domain.score_rows import ScoringsOfDay
from evaluation_pipelines.judging.ledger.score_queries import scorings_of_day
from evaluation_pipelines.judging.ledger.score_store import Failure, ScoreStore
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines_tests.judging.ledger.score_builders import (
    DONE,
    log_turn,
    new_score,
    started,
    turn,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import NOON, at


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
    assert scorings_of_day(ledger, at(hours=1)) == ScoringsOfDay(1, 1, 2, 0.01, 1, models)
    assert scorings_of_day(ledger, at(hours=1), "acme") == ScoringsOfDay(1, 1, 1, 0.01, 1, models)
    assert scorings_of_day(ledger, at(hours=20), "acme") == ScoringsOfDay(0, 0, 1, 0.0, 0)


def test_a_day_without_scorings_is_zero(ledger: Ledger) -> None:
    assert scorings_of_day(ledger, NOON) == ScoringsOfDay(0, 0, 0, 0.0, 0)
