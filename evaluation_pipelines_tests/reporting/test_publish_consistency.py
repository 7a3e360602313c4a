"""A published database is of one moment, keeps its parts, and is not replaced by an older one."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.reporting import analysts_database, publish
from evaluation_pipelines.reporting.analysts_database import AnalyticsError
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, Table
from evaluation_pipelines.storage.compaction import sweep_superseded
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import PUBLISH, held
from evaluation_pipelines_tests.built_before import build_from
from evaluation_pipelines_tests.lake_files import root_of
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import session


def counts(workplace: Workplace) -> dict[str, int]:
    link = str(workplace.stores.settings.analytics_path)
    with duckdb.connect(link, read_only=True) as database:
        tables = ("agent_events", "agent_sessions", "session_performance", "session_evaluations")
        return {name: len(database.table(name).fetchall()) for name in tables}


def test_a_build_during_a_publish_does_not_mix_old_and_new_tables(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_from(workplace, session("a"))
    source = publish._source

    def build_between(
        lake: Lake, table: Table, *, copied: bool, as_map: tuple[str, ...] = ()
    ) -> analysts_database.Source:
        found = source(lake, table, copied=copied, as_map=as_map)
        if table is AGENT_SESSIONS:
            workplace.land("b.jsonl", session("b"))
            workplace.ingest()
            # With the clock of the machine: to that of the tests, the old parts are days old.
            job = Build(workplace.stores)
            job.run(job.pending_dates())
        return found

    monkeypatch.setattr(publish, "_source", build_between)
    publish_analytics(workplace.stores, NOW)
    assert counts(workplace) == {
        "agent_events": 2,
        "agent_sessions": 1,
        "session_performance": 1,
        "session_evaluations": 1,
    }


def test_a_missing_table_keeps_the_database_of_before(workplace: Workplace) -> None:
    build_from(workplace, session("a"))
    publish_analytics(workplace.stores, NOW)
    (part,) = workplace.lake.parts(AGENT_SESSIONS)
    (root_of(workplace.lake) / part.path).unlink()
    with pytest.raises(AnalyticsError, match=r"is missing.*database of before is still there"):
        publish_analytics(workplace.stores, NOW)
    assert counts(workplace)["agent_sessions"] == 1


def test_the_parts_of_a_publish_that_was_killed_after_the_swap_are_kept(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_from(workplace, session("a"))
    tidy = analysts_database._tidy

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(analysts_database, "_tidy", killed)
    with pytest.raises(KeyboardInterrupt):
        publish_analytics(workplace.stores, NOW)
    monkeypatch.setattr(analysts_database, "_tidy", tidy)
    workplace.land("b.jsonl", session("b"))
    workplace.ingest()
    workplace.build()
    sweep_superseded(workplace.stores, NOW + timedelta(days=400))
    assert counts(workplace)["agent_events"] == 2


def test_a_part_replaced_while_its_writer_waited_for_the_ledger_is_kept(
    workplace: Workplace,
) -> None:
    """The writer looks at the clock, waits for the lock, and a publish names the old part."""
    build_from(workplace, session("a"))
    (part,) = workplace.lake.parts(AGENT_EVENTS)
    looked_at_clock = datetime.now(UTC)
    publish_analytics(workplace.stores, NOW)
    new = workplace.lake.stage(
        workplace.lake.select(AGENT_EVENTS),
        AGENT_EVENTS,
        part.session_date,
        part.slot or "",
    )
    Manifest(workplace.ledger).switch([new], looked_at_clock)
    sweep_superseded(workplace.stores, NOW + timedelta(days=400))
    assert counts(workplace)["agent_events"] == 2


def test_a_second_publish_waits_for_the_first(tmp_path_factory: pytest.TempPathFactory) -> None:
    with open_workplace(tmp_path_factory.mktemp("data"), lock_timeout_seconds=1) as workplace:
        build_from(workplace, session("a"))
        with (
            held(workplace.ledger, PUBLISH),
            pytest.raises(AnalyticsError, match="has kept the lock publish"),
        ):
            publish_analytics(workplace.stores, NOW)


def test_the_database_of_before_stays_also_if_both_are_of_one_second(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_from(workplace, session("a"))
    # One of each two is of the name of the file, the other of the link.
    suffixes = iter(["ff", "x", "00", "x", "11", "x", "05", "x", "f0", "x"])
    monkeypatch.setattr(analysts_database, "_suffix", lambda: next(suffixes))
    before = None
    for _ in range(5):
        current = publish_analytics(workplace.stores, NOW).file
        assert before is None or before.exists()
        before = current
    assert len(list(current.parent.glob("*.duckdb"))) == 2


_OPENS = """
import os, sys, duckdb
opened, files = 0, set()
while opened < int(sys.argv[2]) or len(files) < 3:  # at any speed of publishing
    opened += 1
    files.add(os.readlink(sys.argv[1]))
    with duckdb.connect(sys.argv[1], read_only=True) as database:
        assert database.sql("select count(*) from sessions").fetchall() == [(1,)]
        assert database.sql("select count(*) from agent_events").fetchall() == [(2,)]
"""


@pytest.mark.parametrize("times", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_all_opens_beside_publishing_succeed(workplace: Workplace, times: int) -> None:
    build_from(workplace, session("a"))
    link = str(publish_analytics(workplace.stores, NOW).link)
    command = [sys.executable, "-c", _OPENS, link, str(times)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as opens:
        while opens.poll() is None:
            publish_analytics(workplace.stores, NOW)
        assert opens.stderr is not None
        assert (opens.returncode, opens.stderr.read()) == (0, b"")
