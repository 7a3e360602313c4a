"""Errors of scorings in the ledger."""

from evaluation_pipelines.judging.domain.budget.run_budget import Deferred
from evaluation_pipelines.storage.ledger.errors import LedgerError


class ScoringOpenError(LedgerError):
    """The same profile and model score the session already, or did so a moment ago."""


class DayBudgetReachedError(LedgerError):
    """A reservation does not fit into the budget of the day.

    Attributes:
        refused: The limit that was reached, with a sentence about it.
        is_held: True if it may fit after scorings in progress, of any run, have ended.
    """

    def __init__(self, refused: Deferred, *, is_held: bool) -> None:
        super().__init__(refused.reason)
        self.refused = refused
        self.is_held = is_held


class UnknownScoreError(LedgerError):
    """No scoring has this id."""


class ScoreEndedError(LedgerError):
    """The scoring is completed or failed and cannot be changed."""
