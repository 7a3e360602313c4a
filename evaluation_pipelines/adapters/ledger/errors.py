"""What can go wrong with the ledger; every message says what to do."""

from evaluation_pipelines.domain.judging.budget import Deferred
from evaluation_pipelines.domain.mendable import MendableError


class LedgerError(MendableError):
    """Base of all errors of the ledger. The transaction was rolled back: nothing changed."""


class LedgerUrlError(LedgerError):
    """The URL names no database that can hold a ledger."""


class NoLedgerError(LedgerError):
    """Somebody wants to look at a ledger that nobody has made yet."""


class LedgerLockedError(LedgerError):
    """Another process kept the ledger locked for longer than we wait."""


class NotALedgerError(LedgerError):
    """The file is not a database, or a damaged one."""


class LedgerNotWritableError(LedgerError):
    """The ledger or its folder cannot be opened or written."""


class LedgerDiskFullError(LedgerError):
    """No space left for the ledger."""


class LedgerTooNewError(LedgerError):
    """The ledger was written by a newer version of this program."""


class LedgerConflictError(LedgerError):
    """A row that must be unique is already there, or a row that it refers to is not."""


class UnknownSourceFileError(LedgerError):
    """No source file has this id."""


class LeaseLostError(LedgerError):
    """Someone else has taken the lease on the file since."""


class PositionMovedError(LedgerError):
    """The file's position is not where the batch starts."""


class SessionDateTakenError(LedgerError):
    """A session of the batch was filed under another date meanwhile."""


class PartsNotCurrentError(LedgerError):
    """Some of the parts to be replaced are no longer current."""


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
