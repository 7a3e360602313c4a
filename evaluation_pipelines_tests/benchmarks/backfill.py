"""A backfill from events to scorecards: one run against one run per date and loops over sessions.

All read the same landed events and must come to the same scores. A run a date is measured on some
dates and extrapolated: each starts a process and Dagster anew. Runs are started by Dagster's
command, as people start them, and for comparison from Python, which leaves out what the command
does before and after. The loop that calls the program's own steps for one session at a time is
extrapolated, too. The plain loop does only what these made-up events
need (no masques, no quantiles, no tables of events and sessions): it is there to be known.
"""

import json
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
from evaluation_pipelines_tests.dagster_home import dagster_home

_ONE_RUN, _SINGLE = "one run of all dates", "a run of one date"
_IN_PYTHON = ", started from Python"
_STEPS, _LOOP = "own steps, session by session", "plain Python loop"
_SINGLE_RUNS, _SESSIONS_ONE_BY_ONE = 3, 50


_OF_A_TEAM = 30
"""Sessions a day of a small team, as the demo makes them up."""


def small(options: Options) -> Section:
    """As many dates with the sessions of a small team."""
    return run(replace(options, sessions_a_day=_OF_A_TEAM))


def run(options: Options) -> Section:
    """Each once: they take minutes, and are as long as many rounds."""
    days, sessions = options.days, options.sessions_a_day
    section = Section(sizes={"days": days, "sessions_a_day": sessions})
    first, last = END - timedelta(days=days), END - timedelta(days=1)
    with data_folder(name="backfill") as root:
        answers = []
        for start, kind in ((_from_python, _IN_PYTHON), (_by_command, "")):
            folder = root / start.__name__
            target = "backfill_work:land"
            landed = run_function(target, folder=str(folder), days=days, sessions=sessions)
            section.sizes["events"] = landed.answer["events"]
            for day in (first + timedelta(days=n) for n in range(min(_SINGLE_RUNS, days))):
                section.add(_SINGLE + kind, start(folder, day, day))
            whole = start(folder, first, last)
            section.add(_ONE_RUN + kind, whole)
            answers.append(whole.answer)
        count = min(sessions, _SESSIONS_ONE_BY_ONE)
        section.sizes["sessions_one_by_one"] = count
        target = "backfill_work:one_by_one"
        section.add(_STEPS, run_function(target, folder=str(folder), day=str(last), sessions=count))
        target = "backfill_work:loop"
        loop = run_function(target, folder=str(folder), first=str(first), last=str(last))
        section.add(_LOOP, loop)
    if any(answer != loop.answer for answer in answers):
        raise BenchmarkError(f"the backfills and the loop disagree: {answers}, {loop.answer}")
    section.outcomes = _outcomes(section, days)
    return section


def _by_command(folder: Path, first: date, last: date) -> Measurement:
    """The daily tables of some dates made by a command, as in a terminal."""
    command = ("dagster", "asset", "materialize", "-m", "evaluation_pipelines.definitions")
    tables = ",".join(table.table.name for table in TELEMETRY_TABLES)
    dates = ("--select", tables, "--partition-range", f"{first}...{last}")
    measured = _measured(folder, "-m", *command, *dates)
    made = run_function("backfill_work:made", folder=str(folder), first=str(first), last=str(last))
    return replace(measured, answer=made.answer)


def _from_python(folder: Path, first: date, last: date) -> Measurement:
    """The same by a function of Dagster, in a process of its own."""
    program = f"from {__package__}.backfill_work import build; build('{first}', '{last}')"
    measured = _measured(folder, "-c", program)
    return replace(measured, answer=json.loads(measured.answer.splitlines()[-1]))


def _measured(folder: Path, *command: str) -> Measurement:
    environment = (
        ("EVAL_DATA_DIR", str(folder)),
        ("DAGSTER_HOME", str(dagster_home(folder / "dagster"))),
        ("DAGSTER_DISABLE_TELEMETRY", "yes"),
    )
    return run_command(sys.executable, *command, environment=environment)


def _outcomes(section: Section, days: int) -> list[Outcome]:
    sessions = int(section.sizes["sessions_a_day"])
    run, in_python = section.best(_ONE_RUN), section.best(_ONE_RUN + _IN_PYTHON)
    one_by_one = section.best(_STEPS) / section.sizes["sessions_one_by_one"] * days * sessions
    single, single_in_python = (section.median(_SINGLE + each) for each in ("", _IN_PYTHON))
    peers: tuple[tuple[str, float, float, float | None], ...] = (
        (f"{days} runs (extrapolated)", run, single * days, 10),
        (f"{days} runs (extrapolated){_IN_PYTHON}", in_python, single_in_python * days, 10),
        ("a loop of its own steps per session (extrapolated)", run, one_by_one, 20),
        ("a plain Python loop that does far less", run, section.best(_LOOP), None),
    )
    return [
        Outcome(
            f"backfill of {days} dates, {sessions} sessions a day, in one run against {name}",
            f"{ours:.1f} s",
            f"{peer:.1f} s",
            f"{peer / ours:.1f}x",
            "known" if target is None else f">= {target:g}x",
            None if target is None else peer / ours >= target,
        )
        for name, ours, peer, target in peers
    ]
