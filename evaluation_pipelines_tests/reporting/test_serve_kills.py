"""Publishes that are killed while they serve: readers see whole dates, the next one does the rest.

Kills before each single statement are in ``test_served_database.py``.
"""

import logging
import time
from collections import Counter
from pathlib import Path

import pytest

from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines_tests.otlp_builders import DAY_S, session
from evaluation_pipelines_tests.reporting.served_rows import ask, published, served
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers
from evaluation_pipelines_tests.workplace import NOW, open_workplace

_LOGGER = logging.getLogger(__name__)
_EVENTS = "select session_id, count() as events from agent_events group by session_id"
_STAGING = "select count() as number from system.tables where name like '\\_serving%'"


@pytest.mark.slow
def test_a_publish_killed_while_it_serves_leaves_whole_dates(
    tmp_path: Path, clickhouse_over_http_database: str
) -> None:
    random, rounds, dsn, found = seeded(1), 20, clickhouse_over_http_database, Counter[str]()
    step, settings = "ingest_build_and_publish", {"serve_clickhouse_dsn": dsn}
    with (
        open_workplace(tmp_path, **settings) as workplace,
        sequential_workers(rounds, step, tmp_path, **settings) as workers,
    ):
        for number, worker in enumerate(workers):
            names = [f"s{number}-{day}" for day in range(3)]
            lines = (session(name, day * DAY_S + number) for day, name in enumerate(names))
            workplace.land("logs.jsonl", b"".join(lines), "ab")
            before = workplace.settings.analytics_path.resolve()
            worker.go()
            wait_until_published(workplace.settings.analytics_path, before)
            time.sleep(random.uniform(0, 1))
            worker.kill()
            events = (
                {row["session_id"]: row["events"] for row in ask(dsn, _EVENTS)} if number else {}
            )
            assert set(events.values()) <= {2}
            assert len(events) >= 3 * number
            found[
                f"{len(events.keys() & set(names))} new, {ask(dsn, _STAGING)[0]['number']} staging"
            ] += 1
            link = publish_analytics(workplace.stores, NOW).link
            assert served(dsn, link) == published(link)
            assert len(published(link)["sessions"]) == 3 * (number + 1)
    _LOGGER.info("%d kills: %s", rounds, dict(found))
    assert len(found) > 1  # some came amid the statements


def wait_until_published(link: Path, before: Path) -> None:
    """Wait until the analysts' database was swapped in: serving follows."""
    deadline = time.monotonic() + 60
    while link.resolve() == before:
        assert time.monotonic() < deadline
        time.sleep(0.001)
