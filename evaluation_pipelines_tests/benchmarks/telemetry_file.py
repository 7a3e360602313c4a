"""The telemetry that is measured with: that of the demo's team, as much of it as wanted."""

import os
import shutil
import sys
import tempfile
from datetime import date
from pathlib import Path
from unittest.mock import patch

from evaluation_pipelines_tests.benchmarks.measure import tell
from evaluation_pipelines_tests.telemetry_generator import collector
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry

END = date(2026, 6, 1)
"""The day after the last one; all telemetry lies in the past, and is the same on every run."""
DAYS = 14
FLEET_SCALE = 4.5
"""Sessions as long as those of a real fleet."""

_VERSION = 1


def cache_folder() -> Path:
    """Where generated files are kept between runs: EVAL_BENCH_DIR, or one in the temp folder."""
    named = os.environ.get("EVAL_BENCH_DIR")
    folder = Path(named) if named else Path(tempfile.gettempdir()) / "evaluation-pipelines-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def telemetry_file(size_mb: int) -> Path:
    """One file of about that many megabytes (of 10^6 bytes); generated once, then kept."""
    path = cache_folder() / f"v{_VERSION}-{size_mb}mb.jsonl"
    if not path.exists():
        tell(f"generating {path.name} ...")
        extent = Extent.of_bytes(size_mb * 10**6, DAYS, FLEET_SCALE)
        folder = path.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        write_files(folder, seed=1, end=END, extent=extent, rotate_bytes=None)
        (folder / "agents.jsonl").rename(path)
        shutil.rmtree(folder)
    return path


def write_files(
    folder: Path, *, seed: int, end: date, extent: Extent, rotate_bytes: int | None
) -> None:
    """Telemetry without its broken lines: most peers stop at the first one."""
    with patch.object(collector, "BROKEN_EVERY", sys.maxsize):  # other tests generate, too
        write_telemetry(folder, seed=seed, end=end, extent=extent, rotate_bytes=rotate_bytes)
