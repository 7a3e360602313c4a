"""A half line at the end of a file waits for its rest, until the file does not grow any more."""

import gzip
import os
import time
from pathlib import Path

import pytest

from evaluation_pipelines.telemetry.documents import CUT_OFF
from evaluation_pipelines.telemetry.unread_files import find_unread_files, has_complete_line
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.telemetry.numbered_prompts import numbers, prompts
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import claude, line

HALF = line(claude("user_prompt", 9))[:200]
BACKUP = "agents-2026-06-01T12-00-00.000-size.jsonl"


def rest(path: Path, seconds: float) -> None:
    """Set the last change of a file to some time ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.parametrize(
    ("name", "seconds", "newer", "quarantined"),
    [
        ("agents.jsonl", 3_600, None, 0),
        ("agents.jsonl", 25 * 3_600, None, 1),
        (BACKUP, 10, "agents.jsonl", 1),
        ("agents.jsonl", 10, BACKUP, 0),
        # A collector may still have its last bytes.
        (BACKUP, 0, "agents.jsonl", 0),
        (BACKUP, 10, "others.jsonl", 0),
        ("collector-0.jsonl", 10, "collector-1.jsonl", 0),
    ],
)
def test_a_half_line_is_quarantined_when_its_file_no_longer_grows(
    workplace: Workplace, name: str, seconds: float, newer: str | None, quarantined: int
) -> None:
    whole = prompts(0, 2)
    path = workplace.land(name, whole + HALF)
    if newer is not None:
        workplace.land(newer, prompts(2, 3))
    rest(path, seconds)
    report = workplace.ingest()
    assert report.counts.quarantined == quarantined
    assert [(each.path, each.reason) for each in report.skipped] == [
        (name, f"200 bytes from byte {len(whole)} on: {CUT_OFF}")
    ] * quarantined
    unread, _ = find_unread_files(workplace.stores)
    assert [has_complete_line(workplace.stores, each) for each in unread] == [False] * (
        1 - quarantined
    )
    # What is written later is read all the same.
    workplace.land(name, b"\n" + prompts(3, 5), "ab")
    workplace.ingest()
    events = [0, 1, 3, 4] if newer is None else [0, 1, 2, 3, 4]
    assert sorted(numbers(workplace.landed())) == events


def test_a_half_line_that_was_read_before_its_file_came_to_rest(workplace: Workplace) -> None:
    packed = gzip.compress(prompts(0, 2) + HALF)
    paths = [
        workplace.land("plain.jsonl", prompts(2, 4) + HALF),
        workplace.land("lines.jsonl.gz", packed),
        workplace.land("cut.jsonl.gz", packed[:-20]),
    ]
    assert workplace.ingest().counts.quarantined == 0
    for path in paths:
        rest(path, 25 * 3_600)
    assert workplace.ingest().counts.quarantined == 3
    again = workplace.ingest()
    assert (again.files, again.skipped) == (0, [])


def test_requests_without_any_newline_are_read_as_they_come(workplace: Workplace) -> None:
    content = prompts(0, 5).replace(b"\n", b"")
    cut = len(content) // 2
    workplace.land("logs.jsonl", content[:cut])
    assert workplace.ingest().counts.events == 2
    workplace.land("logs.jsonl", content[cut:], "ab")
    assert workplace.ingest().counts.events == 3
    assert numbers(workplace.landed()) == [0, 1, 2, 3, 4]


def test_ingest_status_and_doctor_name_a_half_line(program: Program) -> None:
    path = program.land("agents.jsonl", prompts(0, 2) + HALF)
    rest(path, 25 * 3_600)
    size = path.stat().st_size
    assert f"agents.jsonl: 200 bytes from byte {size - 200} on: cut off" in program("ingest").err
    for command in (("status",), ("doctor", "--offline")):
        out = " ".join(program(*command).out.split())
        assert f"agents.jsonl, byte {size - 200}: cut off" in out
