"""What stays the same while telemetry grows: the cost of a new megabyte, an idle tick."""

import os
import shutil
from datetime import timedelta
from pathlib import Path

from evaluation_pipelines_tests.benchmarks.measure import run_function
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.benchmarks.telemetry_file import END, cache_folder, write_files
from evaluation_pipelines_tests.telemetry_generator.generator import Extent
from evaluation_pipelines_tests.world import session

_DAYS = 100
_MB = 10**6
_TICKS = 20
_FILES = 10_000


def run(options: Options) -> Section:
    """Ingest of one new megabyte on top of one day and of a hundred days; an idle tick."""
    section, new, names = Section(), _new_files(options.rounds + 2), ("1 day", f"{_DAYS} days")
    with data_folder() as little, data_folder(name="run-long") as much:
        for folder, days in ((little, 1), (much, _DAYS)):
            _fill(folder, days)
            run_function("ours:ingest", folder=str(folder))
        os.sync()  # what was written until now must not slow down what is measured
        for file in new:  # the two in turn: the machine may be busier at one time than another
            for folder, name in zip((little, much), names, strict=True):
                shutil.copy(file, folder / "landing" / file.name)
                measured = run_function("ours:ingest", folder=str(folder))
                assert measured.answer["files"] == 1
                section.add(f"new megabyte after {name}", measured)
    with data_folder(name="many-files") as folder:
        for number in range(_FILES):
            (folder / "landing" / f"{number}.jsonl").write_bytes(session(f"s-{number}"))
        run_function("ours:ingest", folder=str(folder))
        _measure_tick(section, folder)
    few, many = (section.median(f"new megabyte after {name}") for name in names)
    section.outcomes.insert(
        0,
        Outcome(
            f"ingest of 1 new MB: {_DAYS} days of history against 1",
            f"{many * 1000:.0f} ms",
            f"{few * 1000:.0f} ms",
            f"{many / few:.2f}x",
            "<= 1.2x",
            many / few <= 1.2,
        ),
    )
    return section


def _measure_tick(section: Section, folder: Path) -> None:
    with (folder / "landing" / "0.jsonl").open("ab") as handle:  # a collector is within a line
        handle.write(b'{"resourceLogs":[{"resource"')
    measured = run_function("ours:tick", folder=str(folder), times=_TICKS)
    section.add("idle tick", measured)
    names = ("median_ms", "walk_median_ms", "files")
    median_ms, walk_ms, files = (measured.answer[name] for name in names)
    section.sizes |= {"tick_files": files, "tick_median_ms": round(median_ms, 2)}
    section.outcomes.append(
        Outcome(
            f"a sensor tick with nothing new, {files} files, against a walk with stat",
            f"{median_ms:.1f} ms",
            f"{walk_ms:.1f} ms",
            f"{median_ms / walk_ms:.1f}x",
            "<= 2x, <= 50 ms",
            median_ms <= 50 and median_ms / walk_ms <= 2,
        )
    )


def _fill(folder: Path, days: int) -> None:
    """History: a file of about a megabyte for each day."""
    staged = cache_folder() / "history"
    shutil.rmtree(staged, ignore_errors=True)
    extent = Extent.of_bytes(days * _MB, days)
    write_files(staged, seed=2, end=END, extent=extent, rotate_bytes=_MB)
    for path in staged.glob("[!.]*.jsonl"):
        path.rename(folder / "landing" / path.name)
    shutil.rmtree(staged)


def _new_files(count: int) -> list[Path]:
    """Files of a megabyte each, of the days after the history."""
    staged, files = cache_folder() / "new", list[Path]()
    for number in range(count):
        shutil.rmtree(staged, ignore_errors=True)
        end = END + timedelta(days=number + 1)
        extent = Extent.of_bytes(_MB, days=1)
        write_files(staged, seed=3, end=end, extent=extent, rotate_bytes=None)
        files.append((staged / "agents.jsonl").rename(cache_folder() / f"new-{number}.jsonl"))
    shutil.rmtree(staged)
    return files
