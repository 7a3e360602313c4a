"""Coverage, false verdicts and power of the comparison, over all scenarios of the simulation.

Writes the tables of ``comparison-measured.md``, after each round of samples anew: a run that
is ended early leaves what it has measured.
"""

import math
import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from operator import add
from pathlib import Path

from evaluation_pipelines_tests.benchmarks.measure import tell
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section
from evaluation_pipelines_tests.simulation.measure import Measured, Share, measure
from evaluation_pipelines_tests.simulation.scenarios import (
    MONEY_SCENARIOS,
    SCENARIOS,
    WORSE,
    Scenario,
)

DOCUMENT = Path(__file__).with_name("comparison-measured.md")
BEGIN, END = "<!-- coverage:begin -->\n", "<!-- coverage:end -->"
MONEY_BEGIN, MONEY_END = "<!-- money:begin -->\n", "<!-- money:end -->"

_ROUNDS, _SAMPLES, _SAMPLES_OF_LABELS = 12, 50, 9
"""Rounds, and samples of a round: of one label, and of several."""

_SEED, _SEEDS_OF_ROUND = 2026, 1000
_HEADINGS = (
    "scenario",
    "difference",
    "mean",
    "pass rate",
    "cost",
    "points per $",
    "false",
    "found",
    "refused",
    "width",
)
_INTERVALS = ("difference", "mean", "pass rate", "cost", "points per dollar")
_MONEY_HEADINGS = ("scenario", "points per $", "cost ratio", "false", "found")
_POWER = Scenario("").people, 10.0
"""People who used both models and true points that must be found in half of the samples."""


def run(options: Options) -> Section:
    """Measure every scenario, on as many cores as there are."""
    every = (*SCENARIOS, *MONEY_SCENARIOS)
    section = Section(sizes={"scenarios": len(every), "samples": _ROUNDS * _SAMPLES})
    # Each process has one thread; a fork of a process with threads of Polars would hang.
    os.environ |= dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS"), "1")
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.threads, mp_context=spawned) as pool:
        found: list[Measured] = []
        # The longest first, so that no core waits for another at the end.
        order = sorted(
            every, key=lambda scenario: -scenario.labels * scenario.models * sum(scenario.runs)
        )
        rounds = [
            {scenario.name: pool.submit(measure_one, scenario, number) for scenario in order}
            for number in range(_ROUNDS)
        ]
        for under_way in rounds:
            more = [under_way[scenario.name].result() for scenario in every]
            found = list(map(add, found, more)) if found else more
            write(found[: len(SCENARIOS)])
            write_money(found[len(SCENARIOS) :])
            tell(f"  {_said_of(found)}")
    missed = [
        f"{measured.scenario.name}: {what}" for measured in found for what in measured.failures()
    ]
    for line in missed:
        tell(f"  missed: {line}")
    section.outcomes = [
        Outcome(
            "scenarios whose intervals and verdicts hold",
            str(sum(not measured.failures() for measured in found)),
            str(len(found)),
            "-",
            "all that are given and can be had",
            not missed,
        ),
        _power(found),
    ]
    return section


def measure_one(scenario: Scenario, number: int) -> Measured:
    """Measure a scenario in one round, with as many samples as its size allows."""
    samples = _SAMPLES if scenario.labels == 1 else _SAMPLES_OF_LABELS
    return measure(scenario, samples, _SEED + number * _SEEDS_OF_ROUND)


def _said_of(found: Sequence[Measured]) -> str:
    """Return the numbers of samples, and their Monte-Carlo errors."""
    most, least = (choose(measured.samples for measured in found) for choose in (max, min))
    errors = [100 * math.sqrt(0.95 * 0.05 / number) for number in (most, least)]
    return (
        f"{most} samples of each kind, {least} of those with four labels. The Monte-Carlo error of "
        f"95 % or 5 % is {errors[0]:.1f} points, with four labels {errors[1]:.1f} for false "
        "verdicts; of 50 % it is "
        f"{50 / math.sqrt(most):.1f}."
    )


def _power(found: Iterable[Measured]) -> Outcome:
    power = min(
        measured.found.value
        for measured in found
        if (measured.scenario.people, measured.scenario.better) == _POWER
        and not measured.scenario.apart
        and measured.scenario.labels == 1
    )
    what = "true 10 points, 9 people who used both, one label: found"
    return Outcome(what, f"{power:.0%}", "-", "-", ">= 50 %", power >= 0.5)


def cells(measured: Measured) -> tuple[str, ...]:
    """Return a row of the table."""
    return (
        measured.scenario.name,
        *(_percent(measured.intervals()[name]) for name in _INTERVALS),
        _percent(measured.false, hide=measured.is_refused),
        _percent(measured.found, hide=measured.is_refused),
        _percent(measured.refused),
        "-" if math.isnan(measured.width) else f"{measured.width:.1f}",
    )


def money_cells(worse: Measured, as_good: Measured) -> tuple[str, ...]:
    """Return a row of the table about money."""
    return (
        worse.scenario.name.removesuffix(f": {WORSE}"),
        _percent(worse.worth),
        _percent(worse.ratio),
        _percent(worse.false_money),
        _percent(as_good.found_money),
    )


def _percent(share: Share, *, hide: bool = False) -> str:
    return "-" if hide or not share.trials else f"{100 * share.value:.1f}"


def table(headings: Sequence[str], cells_of_rows: Iterable[Sequence[str]]) -> str:
    """Return a table of ``comparison-measured.md``."""
    rows = [headings, ("---",) * len(headings), *cells_of_rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write(found: Iterable[Measured]) -> None:
    """Replace the table of intervals and verdicts on quality in the document."""
    every = list(found)
    _replace(f"{_said_of(every)}\n\n{table(_HEADINGS, map(cells, every))}", BEGIN, END)


def write_money(found: Sequence[Measured]) -> None:
    """Replace the table of verdicts on money in the document."""
    half = len(found) // 2
    rows = map(money_cells, found[:half], found[half:])
    _replace(table(_MONEY_HEADINGS, rows), MONEY_BEGIN, MONEY_END)


def _replace(rows: str, begin: str, end: str) -> None:
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    DOCUMENT.write_text(f"{before}{begin}\n{rows}\n{end}{after}", encoding="utf-8")
