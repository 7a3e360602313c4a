"""What the demo puts into the landing folder: genuine samples and a made-up team's fortnight."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

from evaluation_pipelines.demo.generator import Extent, write_telemetry
from evaluation_pipelines.demo.samples import copy_samples

SEED = 1
EXTENT = Extent()


def put_telemetry(landing_dir: Path, today: date, progress: Callable[[int], None]) -> str:
    """Put both there, where they are not there yet; says in words what lies there now.

    ``progress`` is told of each of the ``EXTENT.days`` days.
    """
    samples = copy_samples(landing_dir)
    team = landing_dir / "demo"
    if not any(team.glob("*.jsonl")):
        write_telemetry(team, seed=SEED, end=today, extent=EXTENT, progress=progress)
    return (
        f"genuine telemetry of agent programs ({len(samples)} files) in {landing_dir / 'samples'}, "
        f"{EXTENT.days} days of a made-up team, some broken lines among them, in {team}"
    )
