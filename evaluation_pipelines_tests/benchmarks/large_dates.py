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


def run(options: Options) -> Section:
    """Each once: the peak hardly differs from run to run."""
    section = Section(sizes={"shards": _SHARDS})
    many, long = 100 * options.sessions_a_day, 1000 * options.sessions_a_day
    # Sessions, the events of each, the parameters of its tool calls, the most MB of a build.
    for what, sessions, events, parameters, most_mb in (
        (f"{many:,} sessions of 19 events", many, 19, None, 600),
        (f"one session of {long:,} events with unlike parameters", 1, long, "unlike", 1000),
        (f"one session of {long:,} events with parameters alike", 1, long, "alike", 1000),
    ):
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
