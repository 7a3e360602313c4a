"""The steps that a worker process repeats, by their name."""

import os

from evaluation_pipelines.domain.schemas import AGENT_SESSIONS
from evaluation_pipelines.stages.build import Build
from evaluation_pipelines.stages.ingest import Ingest
from evaluation_pipelines.stages.judging.judge import judge as judge_due
from evaluation_pipelines.stages.judging.order import Order
from evaluation_pipelines.stages.stores import Stores


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
    judge_due(stores, Order(f"process {os.getpid()}"), days)
