"""The ledger: positions, manifest, session index, dates, books and scores in one database."""

from dataclasses import dataclass

import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.alerts import AlertBook
from evaluation_pipelines.adapters.ledger.engine import create_ledger_engine
from evaluation_pipelines.adapters.ledger.evaluation_events import EvaluationEvents
from evaluation_pipelines.adapters.ledger.ingest import IngestBooks
from evaluation_pipelines.adapters.ledger.overrides import Overrides
from evaluation_pipelines.adapters.ledger.parts import Parts
from evaluation_pipelines.adapters.ledger.profiles import JudgeProfiles
from evaluation_pipelines.adapters.ledger.quarantine import QuarantineBook
from evaluation_pipelines.adapters.ledger.revision import bring_up_to_date
from evaluation_pipelines.adapters.ledger.scores import ScoreStore
from evaluation_pipelines.adapters.ledger.sessions import SessionIndex
from evaluation_pipelines.adapters.ledger.source_files import SourceFiles
from evaluation_pipelines.adapters.ledger.tool_priorities import ToolPriorities
from evaluation_pipelines.adapters.ledger.touched import TouchedDates
from evaluation_pipelines.adapters.ledger.waiting import WaitingDates


@dataclass(frozen=True, slots=True)
class Ledger:
    """An open ledger, safe to use from several threads; other processes open their own."""

    engine: sa.Engine
    files: SourceFiles
    parts: Parts
    sessions: SessionIndex
    touched: TouchedDates
    ingest: IngestBooks
    scores: ScoreStore
    quarantine: QuarantineBook
    waiting: WaitingDates
    profiles: JudgeProfiles
    overrides: Overrides
    evaluation_events: EvaluationEvents
    alerts: AlertBook
    tool_priorities: ToolPriorities

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_ledger(url: str, lock_timeout: float = 60.0, *, create: bool = True) -> Ledger:
    """Open a ledger; create it or bring its tables up to date where that is needed.

    Args:
        url: ``sqlite:///path/to/file`` (the folder is created) or a PostgreSQL URL.
        lock_timeout: seconds to wait for other writers, here and in every operation.
        create: Whether one that is not there is made.

    Raises:
        LedgerUrlError: the URL names no database that can hold a ledger.
        NoLedgerError: there is none and none is to be made.
        LedgerTooNewError: a newer version of this program wrote it.
        LedgerNotWritableError: its folder or file cannot be created or written.
        NotALedgerError: the file is not a database.
        LedgerLockedError: another process kept it locked for too long.
        LedgerDiskFullError: no space left.
    """
    engine = create_ledger_engine(url, lock_timeout, create=create)
    try:
        bring_up_to_date(engine, create=create)
    except BaseException:
        engine.dispose()
        raise
    return Ledger(
        engine=engine,
        files=SourceFiles(engine),
        parts=Parts(engine),
        sessions=SessionIndex(engine),
        touched=TouchedDates(engine),
        ingest=IngestBooks(engine),
        scores=ScoreStore(engine),
        quarantine=QuarantineBook(engine),
        waiting=WaitingDates(engine),
        profiles=JudgeProfiles(engine),
        overrides=Overrides(engine),
        evaluation_events=EvaluationEvents(engine),
        alerts=AlertBook(engine),
        tool_priorities=ToolPriorities(engine),
    )
