"""Coverage of corrected means, calibration and lift where the truth is known.

Writes the table of ``estimators.md`` next to it.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from evaluation_pipelines_tests.benchmarks.measure import tell
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section
from evaluation_pipelines_tests.simulation.audits import JUDGES
from evaluation_pipelines_tests.simulation.estimators import (
    IGNORING,
    Line,
    calibrated,
    corrected,
    lifted,
)
from evaluation_pipelines_tests.simulation.measure import SMALLEST_COVERAGE
from evaluation_pipelines_tests.simulation.people import REVIEWS, WEARERS

DOCUMENT = Path(__file__).with_name("estimators.md")
BEGIN, END = "<!-- estimators:begin -->\n", "<!-- estimators:end -->"

_HEADINGS = ("figure", "scenario", "covered", "refused", "width")
_PERIODS, _SAMPLES = 60, 500


def run(options: Options) -> Section:
    """Measure every scenario, on as many cores as there are."""
    jobs = scenarios()
    section = Section(sizes={"scenarios": len(jobs), "samples": _SAMPLES, "periods": _PERIODS})
    os.environ |= dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS"), "1")
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.threads, mp_context=spawned) as pool:
        under_way = [pool.submit(job) for _, job in jobs]
        found = [line for future in under_way for line in future.result()]
    for line in found:
        tell("  " + "  ".join(cells(line)))
    write(found)
    missed = [
        f"{figure}, {name}: {covered.value:.1%}"
        for figure, name, covered, _, _ in found
        if figure != IGNORING
        and covered.trials
        and covered.value + 2 * covered.error < SMALLEST_COVERAGE
    ]
    for scenario in missed:
        tell(f"  missed: {scenario}")
    given = sum(figure != IGNORING and covered.trials > 0 for figure, _, covered, *_ in found)
    what = "intervals of corrected means, calibration and lift that hold"
    section.outcomes = [Outcome(what, str(given - len(missed)), str(given), "-", "all", not missed)]
    return section


def scenarios() -> list[tuple[str, Callable[[], list[Line]]]]:
    """Return the names of all scenarios, and what measures them."""
    return [
        *((judge.name, partial(corrected, judge, _PERIODS)) for judge in JUDGES),
        *((review.name, partial(calibrated, review, _SAMPLES)) for review in REVIEWS),
        *((wearer.name, partial(lifted, wearer, _SAMPLES)) for wearer in WEARERS),
    ]


def cells(line: Line) -> tuple[str, ...]:
    """Return a row of the table."""
    figure, name, covered, refused, width = line
    hidden = not covered.trials
    digits = 2 if width < 2 else 1
    return (
        figure,
        name,
        "-" if hidden else f"{100 * covered.value:.1f}",
        f"{100 * refused.value:.1f}",
        "-" if hidden else f"{width:.{digits}f}",
    )


def _rows(found: Iterable[Line]) -> Iterator[tuple[str, ...]]:
    yield _HEADINGS
    yield ("---",) * len(_HEADINGS)
    yield from map(cells, found)


def write(found: Iterable[Line]) -> None:
    """Replace the table in the document."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "".join(f"| {' | '.join(row)} |\n" for row in _rows(found))
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
