"""Work of the concurrent scorers in the tests; importable, since processes are spawned."""

from evaluation_pipelines.judging.domain.budget import DayReservation
from evaluation_pipelines.judging.ledger.score_queries import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_store import ReceivedReply, ScoreStore
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, begun, turn
from evaluation_pipelines_tests.world.ledger import NOON


def score_all(url: str, sessions: int) -> None:
    """Score sessions one after the other."""
    ledger = open_ledger(url)
    for number in range(sessions):
        score = ScoreStore(ledger).create(begun(f"s{number}#baseline-1"), NOON)
        ScoreStore(ledger).log_turn(ReceivedReply(score.score_id, turn()))
        ScoreStore(ledger).complete(score.score_id, DONE, NOON)
    ledger.close()


def log_turns(url: str, score_id: str, names: list[str]) -> None:
    """Log the replies of a conversation with concurrent turns."""
    ledger = open_ledger(url)
    for name in names:
        ScoreStore(ledger).log_turn(ReceivedReply(score_id, turn(name)))
    ledger.close()


def begin_all(url: str, keys: list[str], usd: float) -> int:
    """Begin scorings while a budget of one dollar a day allows it; return their number."""
    ledger, number = open_ledger(url), 0
    for key in keys:
        try:
            ScoreStore(ledger).create(begun(key), NOON, DayReservation(usd, 0.0, 1.0))
        except DayBudgetReachedError:
            continue
        number += 1
    ledger.close()
    return number
