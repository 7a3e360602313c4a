"""What has arrived: which files hold something unread, and whether an ingest would get any."""

import os
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.unread_files import (
    UnreadFile,
    find_unread_files,
    holds_complete_line,
    ingest_lags,
)
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.workplace import NOW, Workplace

FIRST = line(claude("user_prompt", 0))
SECOND = line(claude("user_prompt", 60))


def arrived(workplace: Workplace) -> list[UnreadFile]:
    """The arrivals, where nothing is passed over."""
    arrivals, passed_over = find_unread_files(workplace.stores)
    assert passed_over == []
    return arrivals


def test_an_empty_folder_and_an_empty_file_are_no_arrivals(workplace: Workplace) -> None:
    assert arrived(workplace) == []
    workplace.land("logs.jsonl", b"")
    assert arrived(workplace) == []


def test_a_new_file_has_arrived_as_a_whole(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", FIRST)
    (arrival,) = arrived(workplace)

    assert (arrival.file.path, arrival.file.size_bytes) == ("logs.jsonl", len(FIRST))
    assert (arrival.source, arrival.generation, arrival.position) == (None, 0, 0)
    # 2026-06-01T12:00:00Z
    assert arrival.first_time_ns == 1_780_315_200 * 1_000_000_000


def test_what_is_read_has_not_arrived_and_what_is_appended_has(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", FIRST)
    workplace.ingest()
    assert arrived(workplace) == []

    workplace.land("logs.jsonl", SECOND, "ab")
    (arrival,) = arrived(workplace)
    assert arrival.source is not None
    assert (arrival.position, arrival.generation) == (len(FIRST), 1)


def test_the_oldest_telemetry_comes_first_whatever_the_names(workplace: Workplace) -> None:
    workplace.land("a.jsonl", SECOND)
    workplace.land("b.jsonl", FIRST)

    assert [each.file.path for each in arrived(workplace)] == ["b.jsonl", "a.jsonl"]


def test_a_file_without_any_time_counts_from_its_last_change(workplace: Workplace) -> None:
    path = workplace.land("a.jsonl", b"no telemetry\n")
    os.utime(path, (1_000, 1_000))  # seconds since 1970: before the other one
    workplace.land("b.jsonl", FIRST)

    assert [each.first_time_ns for each in arrived(workplace)] == [
        1_000 * 1_000_000_000,
        1_780_315_200 * 1_000_000_000,
    ]


def test_a_renamed_file_is_known_by_what_it_is(workplace: Workplace) -> None:
    path = workplace.land("logs.jsonl", FIRST)
    workplace.ingest()
    path.rename(path.with_name("logs-backup.jsonl"))

    assert arrived(workplace) == []


def test_a_file_that_was_emptied_and_written_anew_is_the_next_generation(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", FIRST + FIRST)
    workplace.ingest()
    workplace.land("logs.jsonl", SECOND)
    (arrival,) = arrived(workplace)

    assert (arrival.source, arrival.generation, arrival.position) == (None, 1, 0)


def test_other_content_of_the_same_length_is_the_next_generation(workplace: Workplace) -> None:
    assert len(FIRST) == len(SECOND)
    workplace.land("logs.jsonl", FIRST)
    workplace.ingest()
    workplace.land("logs.jsonl", SECOND)
    (arrival,) = arrived(workplace)

    assert (arrival.source, arrival.generation) == (None, 1)


def test_a_clock_that_is_set_back_does_not_make_the_older_generation_the_newest(
    workplace: Workplace,
) -> None:
    hours = count()

    def read() -> int:
        """Each ingest is an hour before the last one."""
        return Ingest(workplace.stores, lambda: NOW - timedelta(hours=next(hours))).run().files

    workplace.land("logs.jsonl", FIRST + FIRST)
    assert read() == 1
    workplace.land("logs.jsonl", SECOND)
    assert read() == 1
    assert read() == 0
    assert arrived(workplace) == []
    assert [each.unread_bytes for each in ingest_lags(workplace.stores)[0]] == [0]
    workplace.land("logs.jsonl", FIRST, "ab")
    (arrival,) = arrived(workplace)
    assert (arrival.position, arrival.generation) == (len(SECOND), 2)


def test_what_is_not_read_is_named_with_its_reason(workplace: Workplace, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(FIRST)
    workplace.landing.root.joinpath("link.jsonl").symlink_to(outside)
    os.mkfifo(workplace.landing.root / "fifo.jsonl")
    arrivals, passed_over = find_unread_files(workplace.stores)

    assert arrivals == []
    assert {each.path: each.reason for each in passed_over} == {
        "link.jsonl": "a link that leads outside the folder",
        "fifo.jsonl": "not a regular file",
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named_and_the_others_are_found(
    workplace: Workplace,
) -> None:
    workplace.land("a.jsonl", FIRST).chmod(0)
    workplace.land("b.jsonl", SECOND)
    arrivals, (passed,) = find_unread_files(workplace.stores)

    assert [each.file.path for each in arrivals] == ["b.jsonl"]
    assert (passed.path, passed.reason[:15]) == ("a.jsonl", "cannot be read:")


@pytest.mark.parametrize(
    ("name", "content", "complete"),
    [
        ("logs.jsonl", FIRST, True),
        ("logs.jsonl", FIRST + SECOND[:40], True),
        ("logs.jsonl", FIRST[:-40], False),
        ("logs.jsonl", FIRST.removesuffix(b"\n"), True),  # a backup may end so for ever
        ("logs.jsonl", b"no telemetry", False),
        ("logs.jsonl", b"no telemetry\n", True),  # goes to quarantine
        ("export.json", b'{\n  "resourceLogs": [', False),
        ("export.json", b'{\n  "resourceLogs": []\n}', True),
    ],
)
def test_a_line_is_complete_when_an_ingest_would_take_it(
    workplace: Workplace, name: str, content: bytes, complete: bool
) -> None:
    workplace.land(name, content)
    (arrival,) = arrived(workplace)

    assert holds_complete_line(workplace.stores, arrival) is complete
    # The ingest is the judge of that.
    assert (workplace.ingest().counts.lines > 0) is complete


def test_only_what_follows_the_position_counts(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", FIRST)
    workplace.ingest()
    workplace.land("logs.jsonl", SECOND[:40], "ab")
    (arrival,) = arrived(workplace)
    assert not holds_complete_line(workplace.stores, arrival)

    workplace.land("logs.jsonl", SECOND[40:], "ab")
    (arrival,) = arrived(workplace)
    assert holds_complete_line(workplace.stores, arrival)


def test_a_file_that_was_moved_meanwhile_holds_nothing_for_now(workplace: Workplace) -> None:
    path = workplace.land("logs.jsonl", FIRST)
    (arrival,) = arrived(workplace)
    path.rename(path.with_name("backup.jsonl"))

    assert not holds_complete_line(workplace.stores, arrival)
    assert [each.file.path for each in arrived(workplace)] == ["backup.jsonl"]
