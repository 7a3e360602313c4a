"""Generate the recording that the demo ships: ``python -m ...telemetry_generator.record``."""

import json
import lzma
import shutil
import sys
import tempfile
from datetime import date
from pathlib import Path

from evaluation_pipelines.demo.landing import RECORDING, recorded
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry
from evaluation_pipelines_tests.telemetry_generator.guests import write_guests
from evaluation_pipelines_tests.telemetry_generator.outcomes import write_outcomes
from evaluation_pipelines_tests.telemetry_generator.outside import write_outside
from evaluation_pipelines_tests.telemetry_generator.span_wordings import SPAN_WORDINGS
from evaluation_pipelines_tests.telemetry_generator.upgrades import write_upgrades

SEED = 1
EXTENT = Extent()


def write_landing_files(landing_dir: Path, end: date) -> None:
    """Write the telemetry of the made-up team, and what other systems report about its agents."""
    team = landing_dir / "demo"
    write_telemetry(team, seed=SEED, end=end, extent=EXTENT)
    write_guests(team, seed=SEED, end=end, days=EXTENT.days)
    write_guests(
        team,
        seed=SEED,
        end=end,
        days=EXTENT.days,
        sessions_each=4,
        wordings=SPAN_WORDINGS,
        name="programs",
    )
    write_upgrades(team, seed=SEED, end=end)
    write_outside(landing_dir, seed=SEED, end=end, days=EXTENT.days)
    write_outcomes(landing_dir, seed=SEED, end=end)


def record(end: date) -> None:
    """Replace the recording by one of the days before ``end``."""
    shutil.rmtree(RECORDING, ignore_errors=True)
    RECORDING.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        write_landing_files(Path(folder), end)
        for path in sorted(Path(folder).rglob("*.jsonl")):
            target = RECORDING / f"{path.relative_to(folder)}.xz"
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    span = {"end": end.isoformat(), "days": EXTENT.days}
    (RECORDING / "recording.json").write_text(json.dumps(span) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(date.fromisoformat(sys.argv[1]) if len(sys.argv) > 1 else recorded().end)
