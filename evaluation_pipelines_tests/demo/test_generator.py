"""What the generator writes, as files."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry
from evaluation_pipelines_tests.telemetry_generator.truth import Truth

END = date(2026, 11, 21)
SMALL = Extent(days=3, sessions_per_day=8)


def generate(folder: Path, seed: int = 3, end: date = END) -> Truth:
    return write_telemetry(folder, seed=seed, end=end, extent=SMALL, rotate_bytes=500_000)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def log_times(folder: Path) -> Iterator[datetime]:
    for path in folder.glob("agents*.jsonl"):
        for line in path.read_bytes().splitlines():
            for part in line.split(b'"event.timestamp","value":{"stringValue":"')[1:]:
                yield datetime.fromisoformat(part[:24].decode())


def test_the_same_seed_and_end_give_the_same_bytes_and_the_same_truth(tmp_path: Path) -> None:
    first, second = generate(tmp_path / "first"), generate(tmp_path / "second")

    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    assert first == second


@pytest.mark.parametrize(("seed", "end"), [(2, END), (3, END + timedelta(days=1))])
def test_another_seed_or_end_gives_other_sessions(tmp_path: Path, seed: int, end: date) -> None:
    first, other = generate(tmp_path / "first"), generate(tmp_path / "other", seed, end)

    ids = [{session.session_id for session in truth.sessions} for truth in (first, other)]
    assert ids[0].isdisjoint(ids[1])


def test_there_are_as_many_sessions_as_asked_for_on_the_days_before_the_end(tmp_path: Path) -> None:
    truth = generate(tmp_path)

    assert len(truth.sessions) == 3 * 8
    assert {session.session_date for session in truth.sessions} == {
        date(2026, 11, 18),
        date(2026, 11, 19),
        date(2026, 11, 20),
    }


def test_nothing_happens_at_or_after_the_end(tmp_path: Path) -> None:
    generate(tmp_path)

    assert max(log_times(tmp_path)) < datetime(2026, 11, 21, tzinfo=UTC)


def test_weekends_are_quiet(tmp_path: Path) -> None:
    truth = write_telemetry(tmp_path, seed=1, end=END, extent=Extent(7, 3, 0.2))

    days = [session.session_date.weekday() for session in truth.sessions]
    # 21 sessions over 5 * 1.0 + 2 * 0.3 = 5.6 shares: 3.75 on a weekday, 1.125 on a day off.
    assert len(days) == 21
    assert sum(day >= 5 for day in days) in (2, 3)


def test_a_rotated_file_lies_beside_the_live_one_torn_between_line_and_newline(
    tmp_path: Path,
) -> None:
    truth = generate(tmp_path)

    *backups, live = sorted(tmp_path.glob("agents*.jsonl"))
    assert live.name == "agents.jsonl"
    assert backups
    for backup in backups:
        assert backup.name.startswith("agents-2026-11-")
        assert backup.read_bytes()[-1:] == b"}"
        assert backup.stat().st_size > 500_000
    assert live.read_bytes()[:2] == b"\n{"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == truth.delivery.bytes


def test_without_a_limit_there_is_one_file(tmp_path: Path) -> None:
    write_telemetry(tmp_path, seed=1, end=END, extent=SMALL, rotate_bytes=None)

    assert sorted(contents(tmp_path)) == ["agents.jsonl", "sessions.attribution.jsonl"]


def test_lines_of_the_live_file_are_counted(tmp_path: Path) -> None:
    truth = generate(tmp_path)

    lines = [line for text in contents(tmp_path).values() for line in text.split(b"\n") if line]
    assert len(lines) == truth.delivery.lines
    assert sum(line.startswith(b'{"resourceMetrics"') for line in lines) == truth.delivery.metrics
    assert sum(line.startswith(b'{"resourceSpans"') for line in lines) == truth.delivery.traces


def test_integers_are_strings_as_a_collector_writes_them(tmp_path: Path) -> None:
    generate(tmp_path)

    integers = {
        type(attribute["value"]["intValue"])
        for line in (tmp_path / "agents.jsonl").read_bytes().splitlines()
        if line.startswith(b'{"resourceLogs"') and line.endswith(b"]}]}]}")
        for resource in json.loads(line)["resourceLogs"]
        for record in resource["scopeLogs"][0]["logRecords"]
        for attribute in record["attributes"]
        if "intValue" in attribute["value"]
    }
    assert integers == {str}


def test_telemetry_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    generate(tmp_path)
    before = contents(tmp_path)

    with pytest.raises(FileExistsError, match="choose another folder"):
        generate(tmp_path, seed=2)

    assert contents(tmp_path) == before


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    seen: list[str] = []

    def interrupt(_days: int) -> None:
        seen.extend(sorted(contents(tmp_path)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_telemetry(tmp_path, seed=1, end=END, extent=SMALL, progress=interrupt)

    # Until it is complete it has a hidden name, which an ingest does not look at.
    assert seen == [".agents.jsonl", ".sessions.attribution.jsonl"]
    assert contents(tmp_path) == {}


def test_each_day_that_is_done_is_told(tmp_path: Path) -> None:
    told: list[int] = []

    write_telemetry(tmp_path, seed=1, end=END, extent=SMALL, progress=told.append)

    assert told == [1, 1, 1]


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_an_extent_by_bytes_gives_about_so_many(tmp_path: Path, scale: float) -> None:
    extent = Extent.of_bytes(12_000_000, days=4, scale=scale)

    truth = write_telemetry(tmp_path, seed=1, end=END, extent=extent)

    # Sessions differ in size by about their mean: with 25 (scale 5) or more, a fifth is 1 sigma.
    assert truth.delivery.bytes == pytest.approx(12_000_000, rel=0.3)
