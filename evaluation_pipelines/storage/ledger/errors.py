"""Errors of the ledger; every message says what to do."""

from evaluation_pipelines.errors import UserError


class LedgerError(UserError):
    """Base of all ledger errors. The transaction was rolled back: nothing changed."""


class LedgerUrlError(LedgerError):
    """The URL names no database that can hold a ledger."""


class NoLedgerError(LedgerError):
    """The ledger to read does not exist."""


class LedgerLockedError(LedgerError):
    """Another process kept the ledger locked for too long."""


class NotALedgerError(LedgerError):
    """The file is not a database, or is damaged."""


class LedgerNotWritableError(LedgerError):
    """The ledger or its folder cannot be opened or written."""


class LedgerUnavailableError(LedgerError):
    """The server of the ledger cannot be reached, or the connection was cut."""


class LedgerDiskFullError(LedgerError):
    """No space left for the ledger."""


class UnknownRevisionError(LedgerError):
    """Another version of this program wrote the ledger."""


class LedgerConflictError(LedgerError):
    """A row that must be unique exists already, or a referenced row does not."""


class PartsNotCurrentError(LedgerError):
    """Some of the parts to be replaced are no longer current."""
