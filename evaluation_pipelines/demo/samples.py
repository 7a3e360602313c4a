"""The genuine telemetry that the package ships, to try everything on."""

import shutil
from pathlib import Path

SAMPLES = Path(__file__).parent / "telemetry"
"""One folder per agent program, each with the OTLP requests that it really sent."""


SAMPLES_FOLDER = "samples"
"""Where they are copied to, in the landing folder."""


def copy_samples(landing_dir: Path) -> list[Path]:
    """Copy the samples into ``samples`` in the landing folder; gives the files there.

    A file that is there already is left alone: telemetry is never rewritten.
    """
    copies = []
    for source in sorted(SAMPLES.rglob("*.jsonl")):
        copy = landing_dir / SAMPLES_FOLDER / source.relative_to(SAMPLES)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Under a hidden name first: a copy that was cut short is never taken for telemetry.
            unfinished = copy.with_name(f".{copy.name}")
            shutil.copyfile(source, unfinished)
            unfinished.replace(copy)
        copies.append(copy)
    return copies
