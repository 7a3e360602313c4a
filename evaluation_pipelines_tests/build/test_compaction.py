"""Compaction: many landed parts of a date become one, and no row is lost or counted twice."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.build import DateBuilt, DateFailed
from evaluation_pipelines.schemas import (
    AGENT_EVENTS_LANDED,
)
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines_tests.build.two_dates import FIRST, build
from evaluation_pipelines_tests.lake_files import folder_of, root_of
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import session


@pytest.fixture
def many_parts(tmp_path: Path) -> Iterator[Workplace]:
    """Six small ingests of one date, one of them of a copy; parts are merged from four on."""
    with open_workplace(tmp_path, compact_parts=4) as opened:
        for number in range(5):
            opened.land("logs.jsonl", session(f"s{number}", number * 60), "ab")
            opened.ingest()
        opened.land("copy.jsonl", session("s0"))
        opened.ingest()
        yield opened


def landed_files(workplace: Workplace) -> set[str]:
    folder = folder_of(workplace.lake, AGENT_EVENTS_LANDED, FIRST)
    return {path.name for path in folder.iterdir()}


def test_many_parts_become_one_with_every_row(many_parts: Workplace) -> None:
    before = many_parts.landed()
    assert len(landed_files(many_parts)) == 6
    (built,) = many_parts.build()
    assert isinstance(built, DateBuilt)
    assert built.facts["landed"] == 12
    assert built.facts["duplicates"] == 2
    (part,) = Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    assert (part.row_count, Path(part.path).name.startswith("merged-")) == (12, True)
    assert (
        many_parts.landed()
        .sort("event_id", "source_file_id")
        .equals(before.sort("event_id", "source_file_id"))
    )
    buckets = many_parts.lake.read_part(part, AGENT_EVENTS_LANDED)["bucket"]
    assert buckets.is_sorted()
    assert (part.first_bucket, part.last_bucket) == (buckets.min(), buckets.max())


def test_parts_are_merged_up_to_a_size(
    many_parts: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six parts of about the same size, two to three of which fit into one."""
    before = many_parts.landed()
    parts = Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    limit = max(part.size_bytes for part in parts) * 2 + 10
    monkeypatch.setattr("evaluation_pipelines.storage.compaction._MERGED_BYTES", limit)
    many_parts.build()
    merged = Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    assert len(merged) == 3
    assert sum(part.row_count for part in merged) == before.height
    assert many_parts.landed()["event_id"].sort().equals(before["event_id"].sort())


def test_merged_parts_stay_for_an_hour_for_readers(many_parts: Workplace) -> None:
    old = landed_files(many_parts)
    many_parts.build()
    assert old < landed_files(many_parts)
    build(many_parts, FIRST, later=timedelta(minutes=59))
    assert old < landed_files(many_parts)
    build(many_parts, FIRST, later=timedelta(minutes=61))
    assert len(landed_files(many_parts)) == 1
    assert many_parts.landed().height == 12


def test_a_merged_part_is_merged_again_with_later_parts(
    many_parts: Workplace,
) -> None:
    many_parts.build()
    for number in range(5, 8):
        many_parts.land("logs.jsonl", session(f"s{number}", number * 60), "ab")
        many_parts.ingest()
    (built,) = many_parts.build()
    assert isinstance(built, DateBuilt)
    assert built.facts["landed"] == 18
    assert len(Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)) == 1


def test_merging_changes_no_table(many_parts: Workplace, tmp_path: Path) -> None:
    many_parts.build()
    landing = many_parts.landing.root
    with open_workplace(tmp_path / "unmerged", landing_dir=landing) as unmerged:
        unmerged.ingest()
        unmerged.build()
        origin = ["source_file_id", "source_offset"]
        assert unmerged.events().drop(origin).equals(many_parts.events().drop(origin))
        assert unmerged.sessions().equals(many_parts.sessions())
        assert unmerged.performance().equals(many_parts.performance())


def test_files_left_by_a_crash_are_never_read_and_deleted_after_an_hour(
    many_parts: Workplace,
) -> None:
    orphan = folder_of(many_parts.lake, AGENT_EVENTS_LANDED, FIRST) / "orphan.parquet"
    many_parts.landed().write_parquet(orphan)
    # By the clock of the build and by that of the disk.
    an_hour_ago = (min(NOW, datetime.now(UTC)) - timedelta(hours=1, minutes=1)).timestamp()
    os.utime(orphan, (an_hour_ago, an_hour_ago))
    (built,) = many_parts.build()
    assert isinstance(built, DateBuilt)
    assert built.facts["landed"] == 12
    assert not orphan.exists()


def test_a_damaged_part_among_many_fails_the_merge_and_loses_no_part(
    many_parts: Workplace,
) -> None:
    parts = Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST)
    damaged = root_of(many_parts.lake) / parts[2].path
    content = damaged.read_bytes()
    damaged.write_bytes(b"not parquet")
    (failed,) = many_parts.build()
    assert isinstance(failed, DateFailed)
    assert f"{damaged} is damaged" in failed.error
    assert "ingest --again --date 2026-06-01" in failed.error
    assert Manifest(many_parts.ledger).current(AGENT_EVENTS_LANDED.name, FIRST) == parts
    damaged.write_bytes(content)
    (built,) = build(many_parts, later=timedelta(minutes=1))
    assert isinstance(built, DateBuilt)
    assert built.facts["landed"] == 12
