"""Steps that a worker process repeats, selected by name."""

import os
from datetime import UTC, datetime, timedelta

from evaluation_pipelines.build import Build
from evaluation_pipelines.judging.run import RunRequest
from evaluation_pipelines.judging.run import judge as judge_due
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage import compaction
from evaluation_pipelines.storage.lock import INGEST, held
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.otel_logs import read_otel_logs


def ingest(stores: Stores) -> None:
    Ingest(stores).run()


def read_rows_and_ingest(stores: Stores) -> None:
    """Ingest new rows of ClickHouse, which become many small files."""
    timeout_s = stores.settings.lock_timeout_seconds
    with held(stores.ledger, INGEST, timeout_s=timeout_s) as hold:
        read_otel_logs(stores, hold, rows_per_file=5)
    ingest(stores)


def build(stores: Stores) -> None:
    job = Build(stores)
    job.run(job.pending_dates())


def rebuild_publish_and_sweep(stores: Stores) -> None:
    """Build all dates again and publish; replaced files are deleted without a grace period."""
    compaction.GRACE_PERIOD = timedelta()
    Build(stores).run(stores.lake.partitions(AGENT_SESSIONS))
    publish_analytics(stores, datetime.now(UTC))
    compaction.sweep_superseded(stores, datetime.now(UTC))


def sweep(stores: Stores) -> None:
    compaction.GRACE_PERIOD = timedelta()
    now = datetime.now(UTC)
    compaction.sweep_superseded(stores, now)
    for day in stores.lake.partitions(AGENT_SESSIONS):
        compaction.sweep_orphans(stores, [AGENT_SESSIONS], day, now)


def judge(stores: Stores) -> None:
    days = stores.lake.partitions(AGENT_SESSIONS)
    judge_due(stores, RunRequest(f"process {os.getpid()}", patience_s=60), days)
