"""Telemetry of the demo: real samples of each agent program, and the recording of a team."""

import json
import lzma
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from evaluation_pipelines.storage.landing import Landing

SAMPLES = Path(__file__).parent / "samples"
"""One folder per agent program with the OTLP requests that it really sent."""

SAMPLES_FOLDER = "samples"
"""Folder of the samples in the landing folder."""

RECORDING = Path(__file__).parent / "recording"
"""Compressed landing files of a team's last days, by their path in the landing folder."""

IDENTITIES = Path(__file__).parent / "identities.yaml"
"""Who is who in the recorded team."""

_TEAM_FOLDER = "demo"
_NANOSECONDS_PER_DAY = 86_400 * 10**9
_NANOSECONDS = re.compile(rb"\b1\d{18}\b")
_DATE = re.compile(rb"\b(\d{4}-\d\d-\d\d)(?=T\d\d[:-])")


class Recorded(NamedTuple):
    """Period of the team: ``days`` days before midnight (UTC) of ``end``."""

    end: date
    days: int


def recorded() -> Recorded:
    """Return when the recorded team worked."""
    span = json.loads((RECORDING / "recording.json").read_text(encoding="utf-8"))
    return Recorded(date.fromisoformat(span["end"]), span["days"])


def put_telemetry(landing_dir: Path, today: date, progress: Callable[[int], None]) -> str:
    """Put samples and recording into the landing folder, and describe them in a sentence.

    The recording is moved to the days before ``today``. Files that exist are left alone:
    telemetry is never rewritten.

    Args:
        landing_dir: The landing folder; it is created if needed.
        today: The day (UTC) after the last recorded one.
        progress: Called with 1 for each recorded file.
    """
    span = recorded()
    team = landing_dir / _TEAM_FOLDER
    is_new = not any(team.glob("*.jsonl"))
    for source in recorded_files():
        if is_new:
            _unpack(source, landing_dir, today - span.end)
        progress(1)
    samples = _copy_samples(landing_dir)
    return (
        f"recorded telemetry of agent programs in {landing_dir / SAMPLES_FOLDER} "
        f"({len(samples)} files), {span.days} days of a generated team, nine weeks of a model "
        f"that gets worse, a few generated sessions of every other agent, and a team whose "
        f"programs send spans only, in {team}"
    )


def put_identities(path: Path) -> None:
    """Copy the identities of the team to ``path``, unless there is such a file."""
    _write(path, IDENTITIES.read_bytes())


def recorded_files() -> list[Path]:
    """Return the compressed files of the recording."""
    return sorted(RECORDING.rglob("*.jsonl.xz"))


def other_telemetry(landing: Landing) -> list[str]:
    """Return the telemetry files of a landing folder that the demo has not put there."""
    files, _ = landing.list_files()
    own = (f"{SAMPLES_FOLDER}/", f"{_TEAM_FOLDER}/", "outcomes/demo.jsonl")
    return [file.path for file in files if not file.path.startswith(own)]


def _unpack(source: Path, landing_dir: Path, moved_by: timedelta) -> None:
    """Write a recorded file with all its times, and the date in its name, moved."""
    name = str(source.relative_to(RECORDING)).removesuffix(".xz")
    target = landing_dir / _with_dates_moved(name.encode(), moved_by).decode()
    with lzma.open(source) as file:
        lines = _with_dates_moved(file.read(), moved_by)
    days = moved_by.days * _NANOSECONDS_PER_DAY
    _write(target, _NANOSECONDS.sub(lambda found: b"%d" % (int(found[0]) + days), lines))


def _with_dates_moved(text: bytes, moved_by: timedelta) -> bytes:
    def moved(found: re.Match[bytes]) -> bytes:
        day = datetime.fromisoformat(found[1].decode()).replace(tzinfo=UTC)
        return (day + moved_by).strftime("%Y-%m-%d").encode()

    return _DATE.sub(moved, text)


def _copy_samples(landing_dir: Path) -> list[Path]:
    copies = []
    for source in sorted(SAMPLES.rglob("*.jsonl")):
        copy = landing_dir / SAMPLES_FOLDER / source.relative_to(SAMPLES)
        _write(copy, source.read_bytes())
        copies.append(copy)
    return copies


def _write(path: Path, content: bytes) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Under a hidden name first: ingest never takes an incomplete copy for telemetry.
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(content)
    hidden.replace(path)
