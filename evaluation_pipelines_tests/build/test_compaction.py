"""Compaction: many landed parts of a date become one, and no row is lost or counted twice."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from evaluation_pipelines.build import DAILY_TABLES, Build, DateBuilt, DateFailed
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED, SESSION_EVALUATIONS
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.parts import bucket_of
from evaluation_pipelines_tests.build.two_dates import ALL_TABLES, FIRST, SECOND, build
from evaluation_pipelines_tests.storage.full_disk import files_up_to
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line, session
from evaluation_pipelines_tests.world.lake_files import contents, folder_of, root_of, sorted_rows


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


FULL_AT_BYTES = 1_000_000
"""Larger than the ledger; smaller than the events of a session whose prompts have long ids."""


def test_a_build_on_a_full_disk_keeps_the_tables_of_before_and_leaves_no_file(
    tmp_path: Path,
) -> None:
    """The first shard is written, the second one does not fit."""
    first, second = (
        next(f"s{n}" for n in range(99) if bucket_of(f"s{n}") // 128 == shard) for shard in (0, 1)
    )
    with open_workplace(tmp_path, shards=2) as workplace:
        workplace.land("logs.jsonl", session(first) + session(second) + session("next", DAY_S))
        workplace.ingest()
        workplace.build()
        tables = [table.table for table in DAILY_TABLES]
        before, files = contents(workplace.lake, *tables), lake_files(workplace)
        long_ids = (os.urandom(12_000).hex() for _ in range(100))
        prompts = [
            claude("user_prompt", 9, session__id=second, prompt__id=prompt_id)
            for prompt_id in long_ids
        ]
        workplace.land("more.jsonl", line(*prompts) + session(first, 60) + session("last", DAY_S))
        workplace.ingest()
        landed = lake_files(workplace) - files
        with files_up_to(FULL_AT_BYTES):
            failed, built = build(workplace)
        assert isinstance(built, DateBuilt)  # there is space for a smaller date
        assert isinstance(failed, DateFailed)
        assert (failed.session_date, failed.table) == (FIRST, AGENT_EVENTS.name)
        folder = folder_of(workplace.lake, AGENT_EVENTS, FIRST)
        assert f"LakeError: cannot write {folder}/agent_events-" in failed.error
        assert failed.error.endswith(" MiB free. Check space and permissions, then run again.")
        of_date = {key: content for key, content in before.items() if key[1] == FIRST}
        after = contents(workplace.lake, *tables)
        assert {key: content for key, content in after.items() if key[1] == FIRST} == of_date
        assert {file for file in lake_files(workplace) - files if str(FIRST) in str(file)} == {
            path for path in landed if str(FIRST) in str(path)
        }
        assert list((root_of(workplace.lake) / "_tmp").iterdir()) == []

        (built,) = build(workplace, later=timedelta(minutes=1))
        assert isinstance(built, DateBuilt)
        rebuilt = {table.name: sorted_rows(workplace.lake, table) for table in tables}
        assert rebuilt[AGENT_EVENTS.name].height == 6 + 100 + 4
        build(workplace, FIRST, SECOND)
        assert all(
            sorted_rows(workplace.lake, table).equals(rebuilt[table.name]) for table in tables
        )


def lake_files(workplace: Workplace) -> set[Path]:
    return set(root_of(workplace.lake).rglob("*.parquet"))


def test_a_date_whose_events_were_not_recorded_is_current_and_its_next_build_records_them(
    two_dates: Workplace,
) -> None:
    execute(
        two_dates,
        "create trigger full before insert on service_events "
        "begin select raise(abort, 'no space'); end",
    )
    published: list[str] = []
    job = Build(
        two_dates.stores,
        ALL_TABLES,
        lambda found: published.extend(built.table.name for built in found.values()),
        lambda: NOW,
    )
    failed, _ = job.run([FIRST, SECOND])
    assert isinstance(failed, DateFailed)
    assert str(failed).startswith(
        f"{FIRST}: NotAnnouncedError: {SESSION_EVALUATIONS.name} is current, but its events"
    )
    assert "no space" in failed.error
    assert published.count(SESSION_EVALUATIONS.name) == 2
    assert len(Manifest(two_dates.ledger).current(SESSION_EVALUATIONS.name, FIRST)) == 1
    execute(two_dates, "drop trigger full")
    built, _ = build(two_dates, later=timedelta(minutes=1))
    assert isinstance(built, DateBuilt)
    assert (
        execute(two_dates, "select count(*) from service_events where type like 'evaluation.%'")
        == 2
    )


def execute(workplace: Workplace, statement: str) -> object:
    with workplace.ledger.engine.begin() as connection:
        found = connection.execute(sa.text(statement))
        return found.scalar() if found.returns_rows else None
