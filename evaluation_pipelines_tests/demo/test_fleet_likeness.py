"""The generated telemetry is like that of a real fleet: mix of events and sizes of records.

The reference is public: counts of one fleet (699 sessions of 20 seats in 11 days) and median sizes
of records in two captures of Claude Code, of versions 2.1.121 and 2.1.294.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry

FLEET_RECORDS = 232_050
FLEET_SESSIONS = 699
FLEET = {
    "tool_result": 47_130,
    "tool_decision": 47_000,
    "api_request": 43_300,
    "hook_execution_start": 31_362,
    "hook_execution_complete": 31_362,
    "assistant_response": 21_976,
}
"""All kinds that are more than 2% of the records."""

MEDIAN_BYTES = {
    "user_prompt": 1123,
    "tool_decision": 1252,
    "hook_execution_start": 1312,
    "tool_result": 1371,
    "hook_execution_complete": 1589,
    "api_request": 1644,
    "assistant_response": 1392,
}
BYTES_PER_RECORD_ON_DISK = 1604


def records(folder: Path) -> Iterator[dict[str, Any]]:
    for path in folder.glob("agents*.jsonl"):
        for line in path.read_bytes().split(b"\n"):
            if not line.startswith(b'{"resourceLogs"'):
                continue
            try:
                request = json.loads(line)
            except ValueError:  # a broken line, as there are in real files
                continue
            for resource in request["resourceLogs"]:
                for record in resource["scopeLogs"][0]["logRecords"]:
                    if "body" in record:
                        yield record


def name(record: dict[str, Any]) -> str:
    return str(record["body"]["stringValue"]).removeprefix("claude_code.")


def size(record: dict[str, Any]) -> int:
    return len(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_telemetry(folder, seed=1, end=date(2026, 11, 21), extent=Extent(3, 40))
    return folder


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_the_mix_of_events_is_that_of_a_fleet_within_a_fifth(tmp_path: Path, scale: float) -> None:
    # The same number of tool calls at both scales, about 1700.
    extent = Extent(days=3, sessions_per_day=40 / scale, scale=scale)
    write_telemetry(tmp_path, seed=1, end=date(2026, 11, 21), extent=extent)

    found = Counter(map(name, records(tmp_path)))

    shares = {kind: found[kind] / found.total() for kind in FLEET}
    assert shares == pytest.approx(
        {kind: number / FLEET_RECORDS for kind, number in FLEET.items()}, rel=0.2
    )
    # Shorter sessions have as many prompts as long ones: 1.2% of a fleet, more in the demo.
    assert 0.01 < found["user_prompt"] / found.total() < 0.06


def test_sessions_of_scale_5_are_as_long_as_those_of_a_fleet(tmp_path: Path) -> None:
    truth = write_telemetry(tmp_path, seed=1, end=date(2026, 11, 21), extent=Extent(3, 40, 5.0))

    # 232 050 / 699 = 332 records a session.
    mean = truth.delivery.records / len(truth.sessions)
    assert mean == pytest.approx(FLEET_RECORDS / FLEET_SESSIONS, rel=0.15)


def test_records_are_as_large_as_genuine_ones_within_a_tenth(demo: Path) -> None:
    sizes: dict[str, list[int]] = defaultdict(list)
    for record in records(demo):
        sizes[name(record)].append(size(record))

    found = {kind: median(sizes[kind]) for kind in MEDIAN_BYTES}
    assert found == pytest.approx(MEDIAN_BYTES, rel=0.1)


def test_a_record_takes_as_much_of_the_disk_as_a_genuine_one_within_a_tenth(demo: Path) -> None:
    disk = sum(path.stat().st_size for path in demo.glob("agents*.jsonl"))

    assert disk / sum(1 for _ in records(demo)) == pytest.approx(BYTES_PER_RECORD_ON_DISK, rel=0.1)


def test_a_line_holds_several_records_and_often_several_programs(demo: Path) -> None:
    lines = [
        line
        for path in demo.glob("agents*.jsonl")
        for line in path.read_bytes().split(b"\n")
        if line.startswith(b'{"resourceLogs"')
    ]

    counts = [line.count(b'"observedTimeUnixNano"') for line in lines]
    assert 3 < sum(counts) / len(counts) < 17
    assert max(counts) < 40
    assert sum(line.count(b'"resource"') > 1 for line in lines) > len(lines) / 10
