"""A backfill from events to scorecards: one run beside a run a date and loops over the sessions.

All read the same landed events and must come to the same scores. A run a date is measured on some
dates and extrapolated: each starts a process and Dagster anew. So is the loop that calls the
program's own steps for one session at a time. The plain loop does only what these made-up events
need (no masques, no quantiles, no tables of events and sessions): it is there to be known.
"""

import json
import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

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
    with data_folder(name="backfill") as folder:
        landed = run_function(
            "backfill_work:land", folder=str(folder), days=days, sessions=sessions
        )
        section.sizes["events"] = landed.answer["events"]
        for number in range(min(_SINGLE_RUNS, days)):
            day = first + timedelta(days=number)
            section.add(_SINGLE, _dagster(folder, day, day))
        whole = _dagster(folder, first, last)
        section.add(_ONE_RUN, whole)
        count = min(sessions, _SESSIONS_ONE_BY_ONE)
        section.sizes["sessions_one_by_one"] = count
        target = "backfill_work:one_by_one"
        section.add(_STEPS, run_function(target, folder=str(folder), day=str(last), sessions=count))
        loop = run_function(
            "backfill_work:loop", folder=str(folder), first=str(first), last=str(last)
        )
        section.add(_LOOP, loop)
    if whole.answer != loop.answer:
        raise BenchmarkError(f"the backfill and the loop disagree: {whole.answer}, {loop.answer}")
    section.outcomes = _outcomes(section, days)
    return section


def _dagster(folder: Path, first: date, last: date) -> Measurement:
    """The job of the daily tables over some dates, in a process of its own, as a backfill runs."""
    program = f"from {__package__}.backfill_work import build; build('{first}', '{last}')"
    environment = (
        ("EVAL_DATA_DIR", str(folder)),
        ("DAGSTER_HOME", str(dagster_home(folder / "dagster"))),
        ("DAGSTER_DISABLE_TELEMETRY", "yes"),
    )
    measured = run_command(sys.executable, "-c", program, environment=environment)
    return replace(measured, answer=json.loads(measured.answer.splitlines()[-1]))


def _outcomes(section: Section, days: int) -> list[Outcome]:
    ours, sessions = section.best(_ONE_RUN), int(section.sizes["sessions_a_day"])
    one_by_one = section.best(_STEPS) / section.sizes["sessions_one_by_one"] * days * sessions
    peers: tuple[tuple[str, float, float | None], ...] = (
        (f"{days} runs (extrapolated)", section.median(_SINGLE) * days, 10),
        (
            "a loop of its own steps per session (extrapolated)",
            one_by_one,
            None if sessions == _OF_A_TEAM else 20,
        ),
        ("a plain Python loop that does far less", section.best(_LOOP), None),
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
        for name, peer, target in peers
    ]
