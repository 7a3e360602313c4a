"""A backfill from events to scorecards: one run against one run per date and loops over sessions.

All read the same landed events and must come to the same scores. A run a date is measured on some
dates and extrapolated: each starts a process and Dagster anew, by Dagster's command, as people do.
The loop that calls the program's own steps for one session at a time is
extrapolated, too. The plain loop does only what these made-up events
need (no masques, no quantiles, no tables of events and sessions): it is there to be known.
"""

import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from evaluation_pipelines.build import TELEMETRY_TABLES
from evaluation_pipelines_tests.benchmarks.measure import (
    BenchmarkError,
    Measurement,
    run_command,
    run_function,
)
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.benchmarks.telemetry_file import END
from evaluation_pipelines_tests.defs.dagster_home import dagster_home

_ONE_RUN, _SINGLE = "one run of all dates", "a run of one date"
_STEPS, _LOOP = "own steps, session by session", "plain Python loop"
_SINGLE_RUNS, _SESSIONS_ONE_BY_ONE = 3, 50


def run(options: Options) -> Section:
    """Each once: they take minutes, and are as long as many rounds."""
    days, sessions = options.days, options.sessions_a_day
    section = Section(sizes={"days": days, "sessions_a_day": sessions})
    first, last = END - timedelta(days=days), END - timedelta(days=1)
    with data_folder(name="backfill") as folder:
        target = "backfill_work:land"
        landed = run_function(target, folder=str(folder), days=days, sessions=sessions)
        section.sizes["events"] = landed.answer["events"]
        for day in (first + timedelta(days=n) for n in range(min(_SINGLE_RUNS, days))):
            section.add(_SINGLE, _built(folder, day, day))
        whole = _built(folder, first, last)
        section.add(_ONE_RUN, whole)
        count = min(sessions, _SESSIONS_ONE_BY_ONE)
        section.sizes["sessions_one_by_one"] = count
        target = "backfill_work:one_by_one"
        section.add(_STEPS, run_function(target, folder=str(folder), day=str(last), sessions=count))
        target = "backfill_work:loop"
        loop = run_function(target, folder=str(folder), first=str(first), last=str(last))
        section.add(_LOOP, loop)
    if whole.answer != loop.answer:
        raise BenchmarkError(f"backfill and loop disagree: {whole.answer}, {loop.answer}")
    section.outcomes = _outcomes(section, days)
    return section


def _built(folder: Path, first: date, last: date) -> Measurement:
    """The daily tables of some dates made by a command, as in a terminal."""
    command = ("dagster", "asset", "materialize", "-m", "evaluation_pipelines.definitions")
    tables = ",".join(table.table.name for table in TELEMETRY_TABLES)
    dates = ("--select", tables, "--partition-range", f"{first}...{last}")
    environment = (
        ("EVAL_DATA_DIR", str(folder)),
        ("DAGSTER_HOME", str(dagster_home(folder / "dagster"))),
        ("DAGSTER_DISABLE_TELEMETRY", "yes"),
    )
    measured = run_command(sys.executable, "-m", *command, *dates, environment=environment)
    made = run_function("backfill_work:made", folder=str(folder), first=str(first), last=str(last))
    return replace(measured, answer=made.answer)


def _outcomes(section: Section, days: int) -> list[Outcome]:
    sessions = int(section.sizes["sessions_a_day"])
    run = section.best(_ONE_RUN)
    one_by_one = section.best(_STEPS) / section.sizes["sessions_one_by_one"] * days * sessions
    peers: tuple[tuple[str, float, float | None], ...] = (
        (f"{days} runs (extrapolated)", section.median(_SINGLE) * days, 10),
        ("a loop of its own steps per session (extrapolated)", one_by_one, 20),
        ("a plain Python loop that does far less", section.best(_LOOP), None),
    )
    return [
        Outcome(
            f"backfill of {days} dates, {sessions} sessions a day, in one run against {name}",
            f"{run:.1f} s",
            f"{peer:.1f} s",
            f"{peer / run:.1f}x",
            "known" if target is None else f">= {target:g}x",
            None if target is None else peer / run >= target,
        )
        for name, peer, target in peers
    ]
