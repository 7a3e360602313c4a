"""Files with unread bytes, and whether they have complete lines."""

import gzip
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import BinaryIO

import pytest

from evaluation_pipelines.storage.landing import Landing, LandingFile
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.unread_files import (
    UnreadFile,
    find_unread_files,
    has_complete_line,
    ingest_lags,
    unread_since,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import claude, line

SETTLED = "evaluation_pipelines.storage.landing._SETTLED_NS"
FIRST = line(claude("user_prompt", 0))
SECOND = line(claude("user_prompt", 60))


def find_all(workplace: Workplace) -> list[UnreadFile]:
    """Return the unread files; no entry may be skipped."""
    unread_files, skipped = find_unread_files(workplace.stores)
    assert skipped == []
    return unread_files


def test_a_new_file_is_unread_from_the_beginning(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", FIRST)
    (unread_file,) = find_all(workplace)

    assert (unread_file.file.path, unread_file.file.size_bytes) == ("logs.jsonl", len(FIRST))
    assert (unread_file.source, unread_file.generation, unread_file.position) == (None, 0, 0)
    # 2026-06-01T12:00:00Z
    assert unread_file.first_time_ns == 1_780_315_200 * 1_000_000_000


def test_the_oldest_telemetry_comes_first_whatever_the_names(workplace: Workplace) -> None:
    workplace.land("a.jsonl", SECOND)
    workplace.land("b.jsonl", FIRST)

    assert [file.file.path for file in find_all(workplace)] == ["b.jsonl", "a.jsonl"]


def test_since_when_a_growing_file_waits_is_told_by_its_first_unread_record(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", FIRST)
    workplace.land("logs.jsonl", SECOND, "ab")  # changed just now; its records are of June
    june_1 = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert unread_since(workplace.stores, find_all(workplace)) == june_1

    workplace.ingest()
    assert unread_since(workplace.stores, find_all(workplace)) is None
    workplace.land("logs.jsonl", line(claude("user_prompt", 120)), "ab")
    (unread_file,) = find_all(workplace)
    # Its record is older than the last read, at which it was not there.
    assert unread_file.source is not None
    assert unread_since(workplace.stores, [unread_file]) == unread_file.source.last_read_at


def test_a_file_without_any_time_counts_from_its_last_change(workplace: Workplace) -> None:
    path = workplace.land("a.jsonl", b"no telemetry\n")
    os.utime(path, (1_000, 1_000))  # seconds since 1970: before the other one
    workplace.land("b.jsonl", FIRST)

    assert [file.first_time_ns for file in find_all(workplace)] == [
        1_000 * 1_000_000_000,
        1_780_315_200 * 1_000_000_000,
    ]


def test_a_clock_that_is_set_back_does_not_make_the_older_generation_the_newest(
    workplace: Workplace,
) -> None:
    hours = count()

    def read() -> int:
        """Ingest with a clock one hour before the last one."""
        return Ingest(workplace.stores, lambda: NOW - timedelta(hours=next(hours))).run().files

    workplace.land("logs.jsonl", FIRST + FIRST)
    assert read() == 1
    workplace.land("logs.jsonl", SECOND)
    assert read() == 1
    assert read() == 0
    assert find_all(workplace) == []
    assert [lag.unread_bytes for lag in ingest_lags(workplace.stores)[0]] == [0]
    workplace.land("logs.jsonl", FIRST, "ab")
    (unread_file,) = find_all(workplace)
    assert (unread_file.position, unread_file.generation) == (len(SECOND), 2)


class OpenedFiles(Landing):
    """A landing folder that remembers which files were opened."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open(self, file: LandingFile) -> BinaryIO:
        """Remember the file, and open it."""
        self.opened.append(file.path)
        return super().open(file)


def opened_by_a_look(workplace: Workplace) -> list[str]:
    """Return the files that are opened to find those with unread bytes."""
    landing = OpenedFiles(workplace.landing.root)
    find_unread_files(replace(workplace.stores, landing=landing))
    return landing.opened


def test_a_file_is_opened_until_it_has_been_read_and_has_settled(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.land("a.jsonl", FIRST)
    workplace.ingest()
    workplace.land("b.jsonl", SECOND[:-40])
    assert [opened_by_a_look(workplace) for _ in range(2)] == [["a.jsonl", "b.jsonl"]] * 2

    settle(monkeypatch)  # seen once more, and then no more
    looks = [opened_by_a_look(workplace) for _ in range(3)]
    assert looks == [["a.jsonl", "b.jsonl"], ["b.jsonl"], ["b.jsonl"]]
    workplace.land("a.jsonl", SECOND, "ab")
    assert opened_by_a_look(workplace) == ["a.jsonl", "b.jsonl"]


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all files settle in less than the two seconds, and more than a clock is inexact by."""
    monkeypatch.setattr(SETTLED, 20_000_000)
    time.sleep(0.03)


def rewrite(path: Path) -> None:
    path.write_bytes(SECOND)


def rewrite_and_put_the_time_back(path: Path) -> None:
    before = path.stat()
    path.write_bytes(SECOND)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_file(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(SECOND)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("change", [rewrite, rewrite_and_put_the_time_back, replace_file])
def test_other_content_of_the_same_length_is_found_in_a_settled_file(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    path = workplace.land("logs.jsonl", FIRST)
    workplace.ingest()
    settle(monkeypatch)
    assert (find_all(workplace), opened_by_a_look(workplace)) == ([], [])

    change(path)
    (unread_file,) = find_all(workplace)
    assert (unread_file.source, unread_file.position) == (None, 0)
    assert workplace.ingest().counts.events == 1
    assert workplace.landed().height == 2


def test_a_settled_file_is_found_again_that_grows_under_an_unread_name(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workplace.land("logs.jsonl", FIRST)
    workplace.ingest()
    settle(monkeypatch)
    find_all(workplace)
    with path.open("ab") as collector:  # which has it open while it is rotated
        path.rename(path.with_name("logs.jsonl.1"))
        assert find_all(workplace) == []
        collector.write(SECOND)
    (unread_file,) = find_all(workplace)
    assert (unread_file.file.path, unread_file.position) == ("logs.jsonl.1", len(FIRST))


def test_a_settled_file_whose_end_is_missing_is_named_by_every_look(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.land("logs.jsonl.gz", gzip.compress(FIRST + SECOND)[:-12])
    workplace.ingest()
    settle(monkeypatch)
    for _ in range(3):
        unread_files, (skipped,) = find_unread_files(workplace.stores)
        assert (unread_files, "its end is missing" in skipped.reason) == ([], True)


@pytest.mark.parametrize(
    ("name", "content", "complete"),
    [
        ("logs.jsonl", FIRST, True),
        ("logs.jsonl", FIRST + SECOND[:40], True),
        ("logs.jsonl", FIRST[:-40], False),
        ("logs.jsonl", FIRST.removesuffix(b"\n"), True),  # a backup may stay like this
        ("logs.jsonl", b"no telemetry", False),
        ("logs.jsonl", b"no telemetry\n", True),  # goes to quarantine
        ("export.json", b'{\n  "resourceLogs": [', False),
        ("export.json", b'{\n  "resourceLogs": []\n}', True),
    ],
)
def test_a_line_is_complete_if_an_ingest_reads_it(
    workplace: Workplace, name: str, content: bytes, complete: bool
) -> None:
    workplace.land(name, content)
    (unread_file,) = find_all(workplace)

    assert has_complete_line(workplace.stores, unread_file) is complete
    # The ingest must agree.
    assert (workplace.ingest().counts.lines > 0) is complete


def test_a_file_that_was_moved_has_no_complete_line_until_it_is_listed_again(
    workplace: Workplace,
) -> None:
    path = workplace.land("logs.jsonl", FIRST)
    (unread_file,) = find_all(workplace)
    path.rename(path.with_name("backup.jsonl"))

    assert not has_complete_line(workplace.stores, unread_file)
    assert [file.file.path for file in find_all(workplace)] == ["backup.jsonl"]
