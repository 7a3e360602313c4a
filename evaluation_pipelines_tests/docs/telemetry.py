"""The data on which the blocks of a document run; a comment in the document names it.

``<!-- data: genuine, landed -->`` puts the genuine sample into the landing folder,
``<!-- data: generated, published -->`` puts there what the demo does, builds and publishes it.
"""

import os
import re
import shutil
import tempfile
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from evaluation_pipelines.build import Build
from evaluation_pipelines.build.build import publish_scores, unpublished_dates
from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.demo.judge_demo import judge_demo
from evaluation_pipelines.demo.landing import SAMPLES, put_identities, put_telemetry
from evaluation_pipelines.judging.score_table import last_period, write_missing_tools
from evaluation_pipelines.people.identity_store import sync_identities
from evaluation_pipelines.reporting.comparison_report import refresh_comparison
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.reputation.external_signals import load_external_signals
from evaluation_pipelines.reputation.updates import (
    bridge_sessions,
    export_agent_ratings,
    open_reputation,
)
from evaluation_pipelines.schemas import REPUTATION_SCORES, SESSION_EVALUATIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.telemetry.ingest import Ingest

GENUINE = SAMPLES / "claude_code" / "logs.jsonl"

_MARK = re.compile(r"<!-- data: (?P<what>genuine, landed|generated, published) -->")


def midnight() -> datetime:
    """Begin of today: the demo ends then, and commands in documents have this machine's clock."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def prepare(text: str, folder: Path) -> None:
    """Put the data that a document asks for into ``folder/data``; nothing where it asks none."""
    mark = _MARK.search(text)
    if mark is None:
        return
    data = folder / "data"
    if mark["what"] == "genuine, landed":
        (data / "landing").mkdir(parents=True)
        shutil.copyfile(GENUINE, data / "landing" / "agents.jsonl")
        return
    # Linked, not copied: a landing file is known by its inode.
    made = generated(midnight())
    shutil.copytree(made / "landing", data / "landing", copy_function=os.link)
    shutil.copytree(made / "lake", data / "lake", copy_function=os.link)
    shutil.copytree(made / "reports", data / "reports")
    shutil.copytree(made / "analytics_files", data / "analytics_files", copy_function=os.link)
    shutil.copyfile(made / "analytics.duckdb", data / "analytics.duckdb", follow_symlinks=False)
    for name in ("ledger.db", "identities.yaml"):
        shutil.copyfile(made / name, data / name)


def generate(landing: Path, today: datetime) -> None:
    put_telemetry(landing, today.date(), lambda _days: None)


def generated(today: datetime) -> Path:
    """Data folder with that telemetry, built; made once a day, not to be changed."""
    return Path(_made(today).name)


@cache
def _made(today: datetime) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    generate(Path(folder.name) / "landing", today)
    with _stores(Path(folder.name)) as stores:
        put_identities(stores.settings.identities_path)
        sync_identities(stores, today)
        Ingest(stores, lambda: today).run()
        job = Build(stores, clock=lambda: today)
        job.run(job.pending_dates())
        judge_demo(stores, clock=lambda: today)
        publish_scores(stores, unpublished_dates(stores), clock=lambda: today)
        job.run(job.pending_dates())
        write_missing_tools(stores, last_period(today))
        write_masque_lift(stores, today)
        _write_reputation(stores, today)
        refresh_comparison(stores, today)
        publish_analytics(stores, today)
    return folder


def _write_reputation(stores: Stores, today: datetime) -> None:
    """Reputation as of the same time: the view that is maintained knows only the present."""
    with open_reputation(stores.settings, today) as store:
        bridge_sessions(stores, store, stores.lake.partitions(SESSION_EVALUATIONS), today)
        load_external_signals(stores, store, today)
        export_agent_ratings(stores, store, today)
        stores.lake.write(store.scores_as_of(today), REPUTATION_SCORES, None)


def _stores(data_dir: Path) -> AbstractContextManager[Stores]:
    return open_stores(Settings(data_dir=data_dir))
