"""Lines in quarantine: grouped, found by name, counted, and stored in few files."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.schemas import QUARANTINE
from evaluation_pipelines.storage.compaction import GRACE_PERIOD
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.quarantine.entries import (
    NoSuchEntryError,
    all_entries,
    find_entry,
    group_entries,
    newest_entries,
    to_entries,
)
from evaluation_pipelines.telemetry.quarantine.retry import Retry, RetryReport
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line
from evaluation_pipelines_tests.world.lake_files import root_of


def test_entries_are_grouped_by_file_and_reason_without_its_numbers(workplace: Workplace) -> None:
    workplace.land("a.jsonl", b"{\n{{\n" + line(claude("user_prompt")) + b"\xff\n")
    workplace.land("b.jsonl", b"xx\xff\n")
    workplace.ingest()
    found = group_entries(all_entries(workplace.stores))

    assert [(group.path, group.entries, group.reason[:30]) for group in found] == [
        ("a.jsonl", 2, "not JSON: Expecting property n"),
        ("a.jsonl", 1, "not UTF-8 at byte N"),
        ("b.jsonl", 1, "not UTF-8 at byte N"),
    ]
    assert found[0].newest.offset == 2


def test_an_entry_is_found_by_its_name_or_a_unique_beginning(
    workplace: Workplace,
) -> None:
    workplace.land("a.jsonl", b"{\n" + line(claude("user_prompt"), 5))  # type: ignore[arg-type]
    workplace.ingest()
    frame = all_entries(workplace.stores)
    both = to_entries(frame)

    assert [entry.record_index for entry in both] == [-1, 1]
    assert [find_entry(frame, entry.name) for entry in both] == both
    for name in ("", "a", "1:2:3", f"{both[0].file_id}:1", f"{both[1].name}0"):
        with pytest.raises(NoSuchEntryError, match="quarantine list --entries"):
            find_entry(frame, name)
    assert find_entry(frame, both[1].name[:-2]) == both[1]
    with pytest.raises(NoSuchEntryError, match="2 entries start with"):
        find_entry(frame, both[0].file_id)


def test_lines_that_came_on_the_first_day_asked_for_are_counted(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        workplace.land("a.jsonl", b"}\n{{\n")
        workplace.ingest()
        day = NOW.date()
        since = [day + timedelta(days=number) for number in (-1, 0, 1)]
        assert [newest_entries(workplace.stores, 1, first)[1] for first in since] == [2, 2, 0]


def test_deleted_parts_of_the_quarantine_are_ignored(
    tmp_path: Path,
) -> None:
    with open_workplace(tmp_path, compact_parts=2) as workplace:
        workplace.land("a.jsonl", b"}\n")
        workplace.ingest()
        (part,) = Manifest(workplace.ledger).current(QUARANTINE.name, None)
        (root_of(workplace.lake) / part.path).unlink()
        assert all_entries(workplace.stores).is_empty()
        assert Retry(workplace.stores, lambda: NOW).run() == RetryReport()
        workplace.land("a.jsonl", b"{{\n", "ab")
        workplace.ingest()
        assert workplace.quarantined()["offset"].to_list() == [2]


def test_many_parts_of_the_quarantine_become_one_and_orphans_are_swept(tmp_path: Path) -> None:
    folder = tmp_path / "lake" / QUARANTINE.name
    with open_workplace(tmp_path, compact_parts=3) as workplace:
        for number in range(7):
            workplace.land("a.jsonl", b"}" * (number + 1) + b"\n", "ab")
            workplace.ingest()
        assert len(Manifest(workplace.ledger).current(QUARANTINE.name, None)) < 3
        lengths = workplace.quarantined().sort("offset")["length_bytes"].to_list()
        assert lengths == [1, 2, 3, 4, 5, 6, 7]
        assert len(list(folder.iterdir())) > 3

        orphan = folder / "of-a-crash.parquet"
        orphan.write_bytes(b"PAR1")
        os.utime(orphan, (0, 0))  # long ago, by any clock
        workplace.land("a.jsonl", b"x\n", "ab")
        Ingest(workplace.stores, lambda: NOW + 2 * GRACE_PERIOD).run()
        named = {part.path for part in Manifest(workplace.ledger).current(QUARANTINE.name, None)}
        assert len(named) <= 3
        assert not orphan.exists()
        assert workplace.quarantined().height == 8
