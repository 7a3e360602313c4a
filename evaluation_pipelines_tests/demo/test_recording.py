"""The recording that the demo ships: what the generator writes, moved to other days."""

import json
import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.demo.landing import SAMPLES_FOLDER, put_telemetry, recorded
from evaluation_pipelines_tests.telemetry_generator.outcomes import OUTCOMES, work_of
from evaluation_pipelines_tests.telemetry_generator.record import EXTENT, write_landing_files


def landed(landing: Path, today: date) -> dict[str, bytes]:
    """Path -> content of what the demo puts into a landing folder, samples aside."""
    put_telemetry(landing, today, lambda _files: None)
    return {
        str(path.relative_to(landing)): path.read_bytes()
        for path in landing.rglob("*.jsonl")
        if SAMPLES_FOLDER not in path.parts
    }


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the demo puts there on the last day of the recording."""
    return landed(tmp_path_factory.mktemp("before"), recorded().end)


def test_the_recording_is_what_the_generator_writes(
    tmp_path: Path, before: dict[str, bytes]
) -> None:
    span = recorded()
    write_landing_files(tmp_path, span.end)
    generated = {
        str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.jsonl")
    }

    assert before == generated
    assert span.days == EXTENT.days


@pytest.mark.parametrize("days", [-400, 2, 101])
def test_all_times_are_moved_by_whole_days(
    tmp_path: Path, before: dict[str, bytes], days: int
) -> None:
    after = landed(tmp_path, recorded().end + timedelta(days=days))

    def times(lines: bytes) -> list[int]:
        return [int(digits) for digits in re.findall(rb'"timeUnixNano":"(\d+)"', lines)]

    old, new = times(before["demo/agents.jsonl"]), times(after["demo/agents.jsonl"])
    assert len(old) > 1000
    assert new == [time + days * 86_400 * 10**9 for time in old]
    worn = [json.loads(line) for line in before["demo/sessions.attribution.jsonl"].splitlines()]
    moved = [json.loads(line) for line in after["demo/sessions.attribution.jsonl"].splitlines()]
    assert [masque["donned_at"][10:] for masque in worn] == [
        session["donned_at"][10:] for session in moved
    ]
    assert {
        (date.fromisoformat(new["donned_at"][:10]) - date.fromisoformat(old["donned_at"][:10])).days
        for old, new in zip(worn, moved, strict=True)
    } == {days}
    # Names of rotated files, and everything but times: the same number of bytes.
    assert {name: len(text) for name, text in before.items() if "20" not in name} == {
        name: len(text) for name, text in after.items() if "20" not in name
    }
    assert len(before) == len(after)


def test_telemetry_that_was_put_there_is_never_rewritten(tmp_path: Path) -> None:
    end = recorded().end
    first = landed(tmp_path, end)

    assert landed(tmp_path, end + timedelta(days=1)) == first


def test_work_of_high_quality_is_merged_more_often(tmp_path: Path) -> None:
    """Merged with the hidden quality as probability: both halves lie near their mean quality."""
    put_telemetry(tmp_path, recorded().end, lambda _files: None)
    work = work_of(tmp_path / "demo")
    sent = [json.loads(line) for line in (tmp_path / OUTCOMES).read_text("utf-8").splitlines()]
    found = sorted(
        (work[record["session_id"]].quality, record["value"])
        for record in sent
        if record["kind"] == "merged"
    )
    middle = len(found) // 2
    for half in (found[:middle], found[middle:]):
        quality, merged = (sum(column) / len(half) for column in zip(*half, strict=True))
        # Standard error at most 0.5 / sqrt(67) = 0.061: three of them.
        assert merged == pytest.approx(quality, abs=0.19)
    assert sum(session[1] for session in found[middle:]) > sum(
        session[1] for session in found[:middle]
    )
