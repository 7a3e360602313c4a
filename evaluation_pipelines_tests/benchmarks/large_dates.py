"""Peak memory of the build of a large date: of many sessions, and of a single long one."""

import sys
from datetime import timedelta
from pathlib import Path

from evaluation_pipelines_tests.benchmarks.measure import (
    BenchmarkError,
    Measurement,
    run_command,
    run_function,
)
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.benchmarks.telemetry_file import END

_PROGRAM = str(Path(sys.executable).with_name("evaluation-pipelines"))
_SHARDS = 16
_DATES = (
    ("100,000 sessions of 19 events", 100_000, 19, None, 600),
    ("one session of 1 000 000 events", 1, 1_000_000, None, 1000),
    ("the same with unlike parameters", 1, 1_000_000, "unlike", 1000),
    ("the same with parameters that are alike", 1, 1_000_000, "alike", 1000),
)
"""What a date has: sessions, the events of each, the parameters of its tool calls, and the most MB
that its build may take."""


def run(_options: Options) -> Section:
    """Each once: the peak hardly differs from run to run."""
    section = Section(sizes={"shards": _SHARDS})
    for what, sessions, events, parameters, most_mb in _DATES:
        with data_folder(name="large-date") as folder:
            measured = _build(folder, sessions, events, parameters)
        section.add(what, measured)
        section.outcomes.append(
            Outcome(
                f"build of a date of {what} in {_SHARDS} shards, peak memory",
                f"{measured.peak_mb:.0f} MB",
                "-",
                "-",
                f"<= {most_mb} MB",
                measured.peak_mb <= most_mb,
            )
        )
    return section


def _build(folder: Path, sessions: int, events: int, parameters: str | None) -> Measurement:
    """The command for a date that has landed, as in a terminal."""
    day = str(END - timedelta(days=1))
    size = {"days": 1, "sessions": sessions, "events": events}
    run_function("backfill_work:land", folder=str(folder), parameters=parameters, **size)
    measured = run_command(
        *(_PROGRAM, "build", "--date", day),
        environment=(("EVAL_DATA_DIR", str(folder)), ("EVAL_SHARDS", str(_SHARDS))),
    )
    made = run_function("backfill_work:made", folder=str(folder), first=day, last=day)
    if made.answer["cards"] != 2 * sessions:  # of two profiles
        raise BenchmarkError(f"not all sessions of {day} were built: {made.answer}")
    return measured
