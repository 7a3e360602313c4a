"""Work of the concurrent scorers in the tests; importable, since processes are spawned."""

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.ledger.errors import (
    DayBudgetReachedError,
    ScoreEndedError,
    ScoreLeaseLostError,
    ScoringOpenError,
)
from evaluation_pipelines.judging.ledger.score_records import Lease
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, new_score, turn
from evaluation_pipelines_tests.storage.ledger.ledger_builders import NOON, at


def score_all(url: str, owner: str, sessions: int) -> list[str]:
    """Score sessions that others score concurrently; return the keys of those scored here."""
    ledger, scored = open_ledger(url), []
    for number in range(sessions):
        key = f"s{number}#baseline-1"
        try:
            score = ScoreStore(ledger).create(
                new_score(key), NOON, Lease(owner, 60), known_scorings=0
            )
        except ScoringOpenError:
            continue
        ScoreStore(ledger).log_turn(score.score_id, owner, turn())
        ScoreStore(ledger).complete(score.score_id, owner, DONE, NOON)
        scored.append(key)
    ledger.close()
    return scored


def take_over_all(url: str, owner: str, score_ids: list[str]) -> list[str]:
    """Take over expired scorings concurrently with others; return the ids of those taken."""
    ledger, scored = open_ledger(url), []
    for score_id in score_ids:
        try:
            ScoreStore(ledger).claim(score_id, Lease(owner, 60), at(seconds=61))
        except (ScoreLeaseLostError, ScoreEndedError):
            continue
        ScoreStore(ledger).complete(score_id, owner, DONE, at(seconds=62))
        scored.append(score_id)
    ledger.close()
    return scored


def log_turns(url: str, score_id: str, owner: str, names: list[str]) -> None:
    """Log the replies of a conversation with concurrent turns."""
    ledger = open_ledger(url)
    for name in names:
        ScoreStore(ledger).log_turn(score_id, owner, turn(name))
    ledger.close()


def begin_all(url: str, owner: str, keys: list[str], usd: float) -> int:
    """Begin scorings while a budget of one dollar a day allows it; return their number."""
    ledger, number = open_ledger(url), 0
    for key in keys:
        try:
            ScoreStore(ledger).create(
                new_score(key), NOON, Lease(owner, 60), DayReservation(usd, 0.0, 1.0)
            )
        except DayBudgetReachedError:
            continue
        number += 1
    ledger.close()
    return number
