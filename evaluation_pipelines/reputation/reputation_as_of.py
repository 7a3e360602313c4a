"""Reputation as of a past time, computed in a temporary store.

ClickHouse keeps each signal with its present score. So the sessions as of then, and the files of
outside signals, are loaded into a temporary embedded store; the statements are the same.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from evaluation_pipelines.as_of import as_of
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.reputation.external_signals import load_external_signals
from evaluation_pipelines.reputation.retractions import Retractions
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.submitted import load_submitted
from evaluation_pipelines.reputation.updates import bridge_sessions, open_reputation
from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS, SESSION_EVALUATIONS
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.store import LocalStore
from evaluation_pipelines.storage.stores import Stores


@contextmanager
def reputation_as_of(
    stores: Stores, then: datetime, progress: Progress | None = None
) -> Iterator[ReputationStore]:
    """Open a store of reputation as of ``then``.

    Raises:
        ClickHouseError: there is no embedded ClickHouse, or it rejects a statement.
        LakeError: an input cannot be read.
        OSError: a file of signals cannot be read.
    """
    past, told = as_of(stores, then), progress or Silent()
    dates = [day for day in past.lake.partitions(SESSION_EVALUATIONS) if day <= then.date()]
    with TemporaryDirectory(prefix="evaluation_pipelines_") as folder:
        aside = {"clickhouse_dsn": None, "data_dir": Path(folder)}
        settings = stores.settings.model_copy(update=aside)
        with open_reputation(settings, then) as store:
            told.begin("sessions as of then", len(dates))
            for day in dates:
                bridge_sessions(past, store, [day], then)
                told.advance(1)
            load_submitted(past, store, then)
            # What was loaded is noted in the folder, too: the lake says what today's store has.
            with closing(open_ledger(f"sqlite:///{folder}/ledger.db")) as ledger:
                lake = Lake(LocalStore(Path(folder)), Manifest(ledger))
                for table in (REPUTATION_EVENTS, AGENT_EVALUATIONS):
                    known = Retractions(past.ledger).of(table)
                    Retractions(ledger).add(table, known, then)
                load_external_signals(replace(stores, lake=lake, ledger=ledger), store, then)
            yield store
