"""Ledger errors of telemetry."""

from evaluation_pipelines.storage.ledger.errors import LedgerError


class UnknownSourceFileError(LedgerError):
    """No source file has this id."""


class PositionMovedError(LedgerError):
    """The read position of the file is not the start of the batch."""


class SessionDateTakenError(LedgerError):
    """Another reader assigned a session of the batch to another date."""


class ForgottenMeanwhileError(LedgerError):
    """Something was forgotten after the events of the batch were looked at."""


class OldPartsError(LedgerError):
    """The parts of the batch were written so long ago that a sweep may have deleted them."""
