"""What can go wrong with scorings in the ledger."""

from evaluation_pipelines.judging.domain.budget.run_budget import Deferred
from evaluation_pipelines.storage.ledger.errors import LedgerError


class ScoringOpenError(LedgerError):
    """The session is being scored by the same profile and model already, or was a moment ago."""


class DayBudgetReachedError(LedgerError):
    """What is to be set aside for a scoring does not fit into the budget of the day.

    Attributes:
        refused: Which limit, and a sentence about it.
        is_held: Whether it may fit when scorings under way, whosever they are, have ended.
    """

    def __init__(self, refused: Deferred, *, is_held: bool) -> None:
        super().__init__(refused.reason)
        self.refused = refused
        self.is_held = is_held


class UnknownScoreError(LedgerError):
    """No scoring has this id."""


class ScoreEndedError(LedgerError):
    """The scoring is completed or has failed: nothing about it changes any more."""


class ScoreLeaseLostError(LedgerError):
    """Somebody else is at work on the scoring, or nobody is."""
