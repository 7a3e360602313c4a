"""What can go wrong with what the ledger keeps of telemetry."""

from evaluation_pipelines.storage.ledger.errors import LedgerError


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
