"""Upserts that are killed, that run twice at once, and that meet a full disk or a dead server."""

import logging
import random
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.schemas import REPUTATION_EVENTS
from evaluation_pipelines.storage.clickhouse import ClickHouseUnavailableError, open_clickhouse
from evaluation_pipelines_tests.reputation.reputation_signals import expected_scores
from evaluation_pipelines_tests.reputation.reputation_worker import NOW, begin, put, state, worker
from evaluation_pipelines_tests.servers.clickhouse import clickhouse_server

_LOGGER = logging.getLogger(__name__)


def assert_holds(dsn: str, expected: pl.DataFrame) -> None:
    """The store holds these signals, each once, and the scores that follow from them."""
    with open_clickhouse(dsn, patience_s=30) as clickhouse:
        store = ReputationStore(clickhouse)
        live = store.live(REPUTATION_EVENTS, expected["event_id"].to_list())
        assert live["event_id"].n_unique() == live.height == expected.height
        assert store.status().filter(name="reputation_events")["row_count"].to_list() == [
            expected.height
        ]
        found = {row["identity_id"]: row for row in store.scores_as_of(NOW).to_dicts()}
        for identity, scores in expected_scores(expected, NOW).items():
            row = {name: found[identity][name] for name in scores}
            assert row == pytest.approx(scores, abs=1e-6)
        store.refresh()
        assert counted(store.scores()).equals(counted(store.scores_as_of(datetime.now(UTC))))


def counted(scores: pl.DataFrame) -> pl.DataFrame:
    """Signals of every identity that has any."""
    columns = ["identity_id", "total_events", "positive_events", "negative_events"]
    return scores.filter(pl.col("total_events") > 0).select(columns).sort("identity_id")


def where_it_was_cut_off(dsn: str) -> str:
    """At which of its steps a writer was killed, as the next one finds it."""
    with open_clickhouse(dsn, patience_s=30) as clickhouse:
        store = ReputationStore(clickhouse)
        signals = store.status().filter(name="reputation_events")["row_count"].item()
        stored, current = store.scores(), store.scores_as_of(datetime.now(UTC))
    if signals > state(0).height:
        return "signals lie at their new places and still at the old ones"
    if counted(stored).equals(counted(current)):
        return "scores are those of the signals"
    return "signals are complete, scores are not those of them"


@pytest.mark.parametrize(("seed", "rounds"), [(1, 2), pytest.param(2, 100, marks=pytest.mark.slow)])
def test_an_upsert_that_is_killed_anywhere_is_made_good_by_the_next_one(
    tmp_path: Path, seed: int, rounds: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same moments every time
    dsn, found = f"chdb://{tmp_path / 'engine'}", Counter[str]()
    put(dsn, 0)
    for number in range(rounds):
        with worker("repeat", dsn) as process:
            begin(process)
            time.sleep(chance.uniform(0, 0.6))
            process.kill()
            process.wait()
        found[where_it_was_cut_off(dsn)] += 1
        put(dsn, number)
        assert_holds(dsn, state(number))
    _LOGGER.info("%d kills: %s", rounds, dict(found))
    # Of many kills some came between two steps.
    assert len(found) == 3 or rounds < 10, found


def test_two_writers_at_once_leave_what_one_does(tmp_path: Path) -> None:
    with clickhouse_server(tmp_path / "engine") as dsn:
        put(dsn, 0)
        with worker("once", dsn) as one, worker("once", dsn) as other:
            begin(one)
            begin(other)
            assert (one.wait(), other.wait()) == (0, 0)
        assert_holds(dsn, state(1))


@pytest.mark.slow
def test_writers_of_different_states_at_once_leave_each_signal_once(tmp_path: Path) -> None:
    with clickhouse_server(tmp_path / "engine") as dsn:
        with worker("repeat", dsn) as one, worker("repeat", dsn) as other:
            begin(one)
            begin(other)
            time.sleep(2)
        put(dsn, 7)
        assert_holds(dsn, state(7))


def test_a_server_that_dies_under_an_upsert_loses_and_doubles_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    with ExitStack() as stack, clickhouse_server(folder) as dsn:
        put(dsn, 0)
        process = stack.enter_context(worker("repeat", dsn))
        begin(process)
        time.sleep(0.5)
    # The server was killed while the worker wrote to it.
    assert process.wait() != 0
    with pytest.raises(ClickHouseUnavailableError), open_clickhouse(dsn, patience_s=0):
        pass
    with clickhouse_server(folder) as dsn:
        put(dsn, 3)
        assert_holds(dsn, state(3))


def test_an_insert_that_the_disk_refuses_says_so_and_the_next_one_goes_on(tmp_path: Path) -> None:
    dsn = f"chdb://{tmp_path / 'engine'}"
    put(dsn, 0)
    with worker("full", dsn) as process:
        begin(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("error: insert into reputation_events: ")
        assert process.stdout.readline() == "done\n"
    assert_holds(dsn, state(1))
