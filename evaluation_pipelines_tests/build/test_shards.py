"""Shards: each has the sessions of its buckets, and all of them together a date."""

import hashlib
import pickle
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from socket import gethostname

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.build import DateBuilt, DateFailed
from evaluation_pipelines.build.started_dates import BuildContext, ShardRequest, build_shard
from evaluation_pipelines.engine import EngineError
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
    SCORECARDS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.storage.lake import DamagedPartError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.parts import ALL_BUCKETS, bucket_of, buckets_of, shards
from evaluation_pipelines_tests.build.two_dates import FIRST, build
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import NOON_NS, claude, line, session
from evaluation_pipelines_tests.world.lake_files import root_of, sorted_rows

NOON = datetime.fromtimestamp(NOON_NS / 1e9, UTC)


def test_the_bucket_is_the_hash_of_the_session_id() -> None:
    """BLAKE2b with 8 bytes, read as a big-endian number, modulo 256: its last byte."""
    for name in ("s1", "", "ü", "0199f0c2-5b7e"):
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        assert bucket_of(name) == digest[-1]
    series = pl.Series(["s1", "s2", "s1"])
    assert buckets_of(series).to_list() == [bucket_of("s1"), bucket_of("s2"), bucket_of("s1")]


@given(st.integers(1, 256))
def test_shards_divide_the_buckets(count: int) -> None:
    divided = shards(count)
    assert [bucket for shard in divided for bucket in range(shard.first, shard.last + 1)] == list(
        range(256)
    )
    assert len(divided) == count


@pytest.fixture
def four_shards(tmp_path: Path) -> Iterator[Workplace]:
    """40 sessions of one date, built in four shards."""
    with open_workplace(tmp_path, shards=4) as workplace:
        prompts = [claude("user_prompt", n, session__id=f"s{n}", prompt="text") for n in range(40)]
        workplace.land("texts.jsonl", b"".join(map(line, prompts)))
        workplace.land("logs.jsonl", b"".join(session(f"s{number}") for number in range(40)))
        workplace.ingest()
        workplace.build()
        yield workplace


def ranges(workplace: Workplace, table: Table) -> list[tuple[int, int]]:
    """Return the bucket ranges of the current parts of the first date."""
    parts = Manifest(workplace.ledger).current(table.name, FIRST)
    return sorted((part.first_bucket, part.last_bucket) for part in parts)


@pytest.mark.parametrize("table", [AGENT_EVENTS, AGENT_SESSIONS, TOOL_REPORTS])
def test_a_part_has_the_sessions_of_its_shard_alone(four_shards: Workplace, table: Table) -> None:
    assert ranges(four_shards, table) == [(0, 63), (64, 127), (128, 191), (192, 255)]
    for part in Manifest(four_shards.ledger).current(table.name, FIRST):
        ids = four_shards.lake.read_part(part, table)["session_id"]
        assert all(
            part.first_bucket <= bucket_of(session_id) <= part.last_bucket for session_id in ids
        )


@pytest.mark.parametrize("table", [AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED])
def test_landed_parts_are_sorted_by_bucket_and_carry_their_range(
    four_shards: Workplace, table: Table
) -> None:
    part = Manifest(four_shards.ledger).current(table.name, FIRST)[0]
    rows = four_shards.lake.read_part(part, table)
    expected = sorted(bucket_of(row) for row in rows["session_id"])
    assert rows["bucket"].to_list() == expected
    assert (part.first_bucket, part.last_bucket) == (expected[0], expected[-1])


def test_another_number_of_shards_replaces_all_parts_of_a_date(
    four_shards: Workplace, tmp_path: Path
) -> None:
    before = sorted_rows(four_shards.lake, AGENT_SESSIONS)
    with open_workplace(tmp_path, shards=3) as again:
        (built,) = build(again, FIRST, later=timedelta(minutes=1))
        assert isinstance(built, DateBuilt)
        assert ranges(again, AGENT_SESSIONS) == [(0, 84), (85, 169), (170, 255)]
        assert sorted_rows(again.lake, AGENT_SESSIONS).equals(before)


def test_some_tables_of_a_date_with_other_shards_are_built_from_all_of_it(
    four_shards: Workplace, tmp_path: Path
) -> None:
    """The events keep their four parts: none of three shards could be read from them alone."""
    before = sorted_rows(four_shards.lake, TOOL_REPORTS)
    with open_workplace(tmp_path, shards=3) as again:
        (built,) = build(again, FIRST, tables=[AGENT_SESSIONS.name, TOOL_REPORTS.name])
        assert isinstance(built, DateBuilt)
        assert ranges(again, AGENT_EVENTS) == [(0, 63), (64, 127), (128, 191), (192, 255)]
        assert ranges(again, TOOL_REPORTS) == [(0, 255)]
        assert sorted_rows(again.lake, TOOL_REPORTS).equals(before)


def test_old_cards_stay_in_shards_where_their_version_scores_nothing_now(tmp_path: Path) -> None:
    """Their file had all sessions; the shard with a new card replaces it."""
    with open_workplace(tmp_path) as workplace:
        workplace.land("logs.jsonl", b"".join(session(f"s{number}") for number in range(40)))
        workplace.ingest()
        workplace.build()
        cards = sorted_rows(workplace.lake, SCORECARDS)
        assert cards["session_id"].n_unique() == 40
        first = session("s0", 60)
        still_open = [session(f"s{n}", (NOW - NOON).total_seconds() - 60) for n in range(1, 40)]
        workplace.land("more.jsonl", b"".join([first, *still_open]))
        workplace.ingest()
    with open_workplace(tmp_path, shards=4) as workplace:
        (built,) = build(workplace, FIRST)
        assert isinstance(built, DateBuilt)
        after = sorted_rows(workplace.lake, SCORECARDS)
        assert after.height == cards.height + 1
        assert after.join(cards, on=["card_id"], how="semi").height == cards.height


@pytest.mark.parametrize("table", [AGENT_EVENTS, AGENT_SESSIONS])
def test_a_date_that_lacks_a_shard_cannot_be_read(four_shards: Workplace, table: Table) -> None:
    """Three of four shards would look like a date with fewer sessions."""
    lake = four_shards.lake
    (root_of(lake) / lake.parts(table, [FIRST])[2].path).unlink()
    with pytest.raises(DamagedPartError, match="is missing"):
        lake.read(table, [FIRST])
    (failed,) = build(four_shards, FIRST, tables=[SESSION_PERFORMANCE.name, TOOL_REPORTS.name])
    assert isinstance(failed, DateFailed)
    assert "is missing" in failed.error
    (built,) = build(four_shards, FIRST, later=timedelta(minutes=1))
    assert isinstance(built, DateBuilt)
    assert sorted_rows(lake, table)["session_id"].n_unique() == 40


REQUEST = ShardRequest([date(2026, 6, 1)], ALL_BUCKETS, NOW, is_large=False)


def test_a_worker_that_cannot_open_the_stores_says_so_when_it_works(tmp_path: Path) -> None:
    """Not when it receives them: the engine would take that for a worker that was killed."""
    with open_workplace(tmp_path) as workplace:
        sent = pickle.dumps(BuildContext(workplace.stores, [AGENT_EVENTS.name]))
        workplace.land("logs.jsonl", session("s1"))
        workplace.ingest()
    ledger = tmp_path / "ledger.db"
    ledger.rename(tmp_path / "away.db")
    received = pickle.loads(sent)  # noqa: S301 - sent above
    said = rf"The worker on \S+ cannot open the stores: There is no ledger {re.escape(str(ledger))}"
    with pytest.raises(EngineError, match=said):
        build_shard(received, REQUEST)
    (tmp_path / "away.db").rename(ledger)
    (part,) = build_shard(received, REQUEST).parts
    assert (part.table_name, part.row_count) == (AGENT_EVENTS.name, 2)


def test_a_worker_on_another_machine_is_refused_a_ledger_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have another file under that name; and SQLite is not for network file systems."""
    with open_workplace(tmp_path) as workplace:
        sent = pickle.dumps(BuildContext(workplace.stores, [AGENT_EVENTS.name]))
        received = pickle.loads(sent)  # noqa: S301 - sent above
        monkeypatch.setattr("evaluation_pipelines.build.started_dates.gethostname", lambda: "node7")
        said = rf"worker on node7 cannot use .* a file on {gethostname()}\. .*=postgresql\+psycopg:"
        with pytest.raises(EngineError, match=said):
            build_shard(received, REQUEST)
