"""What the demo puts into the landing folder: genuine samples and a made-up team's fortnight.

The team works with Claude Code; a few sessions of every other agent are beside it.
"""

from collections.abc import Callable
from datetime import date
from pathlib import Path

from evaluation_pipelines.demo.generator import Extent, write_telemetry
from evaluation_pipelines.demo.guests import write_guests
from evaluation_pipelines.demo.outside import write_outside
from evaluation_pipelines.demo.samples import SAMPLES_FOLDER, copy_samples
from evaluation_pipelines.storage.landing import Landing

SEED = 1
EXTENT = Extent()
_TEAM = "demo"


def put_telemetry(landing_dir: Path, today: date, progress: Callable[[int], None]) -> str:
    """Put both there, where they are not there yet; says in words what lies there now.

    Beside them what other systems say about the team's agents, in ``signals`` and ``evaluations``.

    ``progress`` is told of each of the ``EXTENT.days`` days.
    """
    samples = copy_samples(landing_dir)
    team = landing_dir / _TEAM
    if not any(team.glob("*.jsonl")):
        write_telemetry(team, seed=SEED, end=today, extent=EXTENT, progress=progress)
        write_guests(team, seed=SEED, end=today, days=EXTENT.days)
        write_outside(landing_dir, seed=SEED, end=today, days=EXTENT.days)
    return (
        f"genuine telemetry of agent programs in {landing_dir / SAMPLES_FOLDER} "
        f"({len(samples)} files), {EXTENT.days} days of a made-up team, and a few made-up "
        f"sessions of every other agent, in {team}"
    )


def other_telemetry(landing: Landing) -> list[str]:
    """Telemetry that lies in a landing folder into which the demo has put nothing yet."""
    if (landing.root / _TEAM).exists():
        return []
    files, _ = landing.list_files()
    return [file.path for file in files if not file.path.startswith(f"{SAMPLES_FOLDER}/")]
