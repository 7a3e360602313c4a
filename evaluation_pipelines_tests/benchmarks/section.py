"""What a part of the benchmark is asked for and what it gives."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from evaluation_pipelines_tests.benchmarks.measure import Measurement, tell
from evaluation_pipelines_tests.benchmarks.telemetry_file import cache_folder


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured: size of the large file, rounds, sessions judged, size of a backfill.

    ``histories`` is in the names of those that the watch looks at.
    """

    size_mb: int
    rounds: int
    threads: int
    sessions: int = 1000
    days: int = 90
    sessions_a_day: int = 1000
    histories: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the table: our figure, the peer's, and whether the target is met.

    ``met`` is None for a figure that is only there to be known.
    """

    what: str
    ours: str
    peer: str
    ratio: str
    target: str
    met: bool | None


@dataclass(slots=True)
class Section:
    """Figures of every round by contestant, sizes, and the lines of the table."""

    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)

    def add(self, name: str, measured: Measurement) -> None:
        """Keep the figures of a round."""
        self.rounds.setdefault(name, []).append(measured.figures())
        tell(f"  {name}: {self.rounds[name][-1]}")

    def best(self, name: str, figure: str = "seconds") -> float:
        """The smallest of all rounds."""
        return min(figures[figure] for figures in self.rounds[name])

    def median(self, name: str, figure: str = "seconds") -> float:
        """The median of all rounds."""
        return median(figures[figure] for figures in self.rounds[name])

    def worst(self, name: str, figure: str) -> float:
        """The largest of all rounds."""
        return max(figures[figure] for figures in self.rounds[name])


@contextmanager
def data_folder(files: Sequence[Path] = (), name: str = "run") -> Iterator[Path]:
    """An empty data folder whose ``landing`` holds links to some files; deleted afterwards."""
    folder = cache_folder() / f"{name}-{os.getpid()}"  # another run may be under way
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "landing").mkdir(parents=True)
    for file in files:
        (folder / "landing" / file.name).hardlink_to(file)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
