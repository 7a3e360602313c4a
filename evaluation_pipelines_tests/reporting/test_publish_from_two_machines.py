"""Two machines that publish, with one ledger in PostgreSQL and one ClickHouse for dashboards."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.reporting import publish as publishing
from evaluation_pipelines.reporting.analysts_database import AnalyticsError, Published, publish
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.reporting.serve import serve_published
from evaluation_pipelines.storage.date_lock import step_lock
from evaluation_pipelines.storage.ledger.leases import Leases
from evaluation_pipelines_tests.built_before import build_from
from evaluation_pipelines_tests.otlp_builders import DAY_S, session
from evaluation_pipelines_tests.reporting.served_rows import ask, published, served
from evaluation_pipelines_tests.storage.ledger.test_leases import expire
from evaluation_pipelines_tests.telemetry.pipeline_worker import Worker
from evaluation_pipelines_tests.workplace import NOW, open_workplace

pytestmark = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


def shared(tmp_path: Path, url: str, dsn: str) -> dict[str, Any]:
    """Return the settings of each machine."""
    return {
        "lake_dir": tmp_path / "lake",
        "landing_dir": tmp_path / "landing",
        "ledger_url": url,
        "serve_clickhouse_dsn": dsn,
    }


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_two_processes_that_publish_all_the_time_leave_the_rows_of_one(
    tmp_path: Path, url: str, clickhouse_over_http_database: str, rounds: int
) -> None:
    settings = shared(tmp_path, url, clickhouse_over_http_database)
    links = [tmp_path / name / "analytics.duckdb" for name in ("first", "second")]
    with open_workplace(tmp_path / "third", **settings) as workplace, ExitStack() as stack:
        build_from(workplace, session("a"))
        workers = [Worker("publish_in_turns", link.parent, **settings) for link in links]
        for worker in workers:
            stack.callback(worker.discard)
        for worker in workers:
            worker.go()
        for number in range(rounds):
            wait_for_publishes(links)
            workplace.land(f"more-{number}.jsonl", session(f"b{number}", number * DAY_S))
            workplace.ingest()
            workplace.build()
        for _ in range(2):  # the first ones may have begun before the last build
            wait_for_publishes(links)
        for worker in workers:
            worker.stop()
        number_given = Leases(workplace.ledger).acquire("publish", "test", 60)
    assert number_given is not None
    assert number_given > 2 * (rounds + 2)
    tables = [published(link) for link in links]
    assert len(tables[0]["sessions"]) == 1 + rounds
    there = served(clickhouse_over_http_database, links[0])
    assert there.pop("schema_version") in [each.pop("schema_version") for each in tables]
    assert tables == [there, there]


def wait_for_publishes(links: list[Path]) -> None:
    """Wait until each machine has published once more."""
    before, deadline = [link.resolve() for link in links], time.monotonic() + 120
    while any(link.resolve() == old for link, old in zip(links, before, strict=True)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_publish_that_waits_too_long_names_the_machine_that_publishes(
    tmp_path: Path, url: str
) -> None:
    with open_workplace(tmp_path, ledger_url=url, lease_seconds=1) as workplace:
        build_from(workplace, session("a"))
        pattern = rf"process {os.getpid()} on {socket.gethostname()} has kept the lease publish"
        with (
            step_lock(workplace.ledger, workplace.lake.locks, "publish", 0),
            pytest.raises(AnalyticsError, match=pattern),
        ):
            publish_analytics(workplace.stores, NOW)
        assert publish_analytics(workplace.stores, NOW).link.exists()


def test_a_publish_whose_lease_was_taken_changes_nothing_any_more(
    tmp_path: Path,
    url: str,
    clickhouse_over_http_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It slept for longer than the lease: before it swaps its database, then before it serves."""
    dsn = clickhouse_over_http_database
    settings = shared(tmp_path, url, dsn)
    with open_workplace(tmp_path / "first", **settings) as workplace:
        build_from(workplace, session("a"))
        leases = Leases(workplace.ledger)

        def lose_lease() -> None:
            expire(workplace.ledger, "publish")
            number = leases.acquire("publish", "another", 60)
            assert number is not None
            leases.release("publish", number)

        with monkeypatch.context() as patched:
            patched.setattr(publishing, "publish", after(lose_lease, publish))
            with pytest.raises(AnalyticsError, match="Lease 1 on publish is void, 2 is valid"):
                publish_analytics(workplace.stores, NOW)
            assert not list(workplace.settings.analytics_path.parent.glob("analytics*/*"))
        with monkeypatch.context() as patched:
            patched.setattr(publishing, "serve_published", after(lose_lease, serve_published))
            said = publish_analytics(workplace.stores, NOW).not_served
            assert said is not None
            assert "Lease 3 on publish is void, 4 is valid" in said
            assert ask(dsn, "show tables") == []
        assert publish_analytics(workplace.stores, NOW).not_served is None


def after(first: Callable[[], None], then: Callable[..., Published]) -> Callable[..., Published]:
    """Return a function that does something before what it stands for."""

    def both(*arguments: Any) -> Published:
        first()
        return then(*arguments)

    return both
