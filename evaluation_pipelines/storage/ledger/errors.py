"""What can go wrong with the ledger; every message says what to do."""

from evaluation_pipelines.errors import UserError


class LedgerError(UserError):
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


class UnknownRevisionError(LedgerError):
    """Another version of this program wrote the ledger."""


class LedgerConflictError(LedgerError):
    """A row that must be unique is already there, or a row that it refers to is not."""
