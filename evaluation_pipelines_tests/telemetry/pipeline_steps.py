"""The steps that a worker process repeats, by their name."""

import os

from evaluation_pipelines.build.build import Build
from evaluation_pipelines.judging.judge import judge as judge_due
from evaluation_pipelines.judging.runner.run_request import RunRequest
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ingest import Ingest


def ingest(stores: Stores) -> None:
    """Read everything new."""
    Ingest(stores).run()


def build(stores: Stores) -> None:
    """Build all dates that are due."""
    job = Build(stores)
    job.run(job.pending_dates())


def judge(stores: Stores) -> None:
    """Judge all sessions that are due."""
    days = stores.lake.partitions(AGENT_SESSIONS)
    judge_due(stores, RunRequest(f"process {os.getpid()}"), days)
