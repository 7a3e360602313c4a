"""Evaluations of agents in the ledger and in the embedded ClickHouse, which is kept in use.

Run it with a data folder: it uses its ClickHouse until it is ended.
"""

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from evaluation_pipelines.reputation.submitted import SubmittedEvaluations, load_submitted
from evaluation_pipelines.reputation.updates import export_agent_ratings, open_reputation
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.tables.people import SUBMITTED_EVALUATIONS
from evaluation_pipelines.storage.stores import open_stores


def fill(folder: str, agents: int, evaluations: int) -> dict[str, int]:
    """Store evaluations of agents, load them into ClickHouse, and export the windows."""
    now = datetime.now(UTC)
    rows = [_row(agent, number, now) for agent in range(agents) for number in range(evaluations)]
    with open_stores(_settings(folder)) as stores:
        with writing(stores.ledger.engine) as connection:
            connection.execute(sa.insert(SUBMITTED_EVALUATIONS), rows)
        with open_reputation(stores.settings, now) as store:
            load_submitted(stores, store, now)
            export_agent_ratings(stores, store, now)
        return {"waiting": SubmittedEvaluations(stores.ledger).waiting()}


def use(folder: str) -> None:
    """Hold the folder of ClickHouse, and read the windows of all agents each second."""
    now = datetime.now(UTC)
    with open_reputation(_settings(folder), now) as store:
        sys.stdout.write("busy\n")
        sys.stdout.flush()
        while True:
            store.evaluations(now)
            time.sleep(1)


def _row(agent: int, number: int, now: datetime) -> dict[str, object]:
    return {
        "organization_id": "default",
        "agent_id": f"agent-{agent}",
        "evaluation_id": f"e-{number}",
        "evaluated_at": now - timedelta(minutes=number + 1),
        "passed": number % 7 != 0,
        "latency_ms": float(number % 60),
        "latency_budget_ms": 100.0,
        "model": "model-a",
        "source": "sdk",
        "submitted_by": "bench",
        "submitted_at": now,
    }


def _settings(folder: str) -> Settings:
    # Settings of the person who measures must not change what is measured.
    return Settings(data_dir=Path(folder))


if __name__ == "__main__":
    use(sys.argv[1])
