"""False alerts and power of the regression watch, over all histories of the simulation.

Writes the table of ``comparison-measured.md``, after each history anew; rows that were not
measured stay as they are.
"""

import math
import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from evaluation_pipelines_tests.benchmarks.coverage import DOCUMENT
from evaluation_pipelines_tests.benchmarks.measure import tell
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section
from evaluation_pipelines_tests.simulation.histories import DROPS, HISTORIES, History
from evaluation_pipelines_tests.simulation.measure import Share
from evaluation_pipelines_tests.simulation.watching import Watched, watch

BEGIN, END = "<!-- watch:begin -->\n", "<!-- watch:end -->"
HEADINGS = ("history", "false alerts", "found", "night", "intervals")

_QUARTERS, _DROPS = 200, 1000
_MUST_HOLD = "8 points less, runs with sd 15"


def run(options: Options) -> Section:
    """Look at histories night after night, on as many cores as there are."""
    chosen = [history for history in HISTORIES if options.histories in history.name]
    section = Section(sizes={"histories": len(chosen), "quarters": _QUARTERS, "drops": _DROPS})
    # Each process has one thread; a fork of a process with threads of Polars would hang.
    os.environ |= dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS"), "1")
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.threads, mp_context=spawned) as pool:
        found = []
        for watched in pool.map(measure_one, chosen):
            found.append(watched)
            tell("  " + "  ".join(cells(watched)))
            write(found)
    noisy = [row for row in found if row.is_noisy() and row.kind.is_promised]
    for watched in noisy:
        tell(f"  missed: {watched.kind.name}: {watched.false.value:.1%} false alerts")
    promised = sum(row.kind.is_promised for row in found if not row.kind.has_drop)
    section.outcomes = [
        Outcome(
            "kinds of quiet quarters with at most 5 % false alerts",
            str(promised - len(noisy)),
            str(promised),
            "-",
            "all that are promised",
            not noisy,
        ),
        *(
            Outcome(f"{_MUST_HOLD}: found in 28 nights", f"{row.found.value:.0%}", "-", "-",
                    ">= 80 %", row.found.value >= 0.8)
            for row in found
            if row.kind.name == _MUST_HOLD
        ),
    ]  # fmt: skip
    return section


def measure_one(kind: History) -> Watched:
    """Look at as many histories as its cost allows."""
    return watch(kind, _DROPS if kind in DROPS else _QUARTERS)


def cells(measured: Watched) -> tuple[str, ...]:
    """Return a row of the table."""
    night = measured.median_night
    return (
        measured.kind.name,
        _percent(measured.false),
        _percent(measured.found),
        "-" if math.isnan(night) else f"{night:.0f}",
        _percent(measured.covered),
    )


def _percent(share: Share) -> str:
    return f"{100 * share.value:.1f}" if share.trials else "-"


def write(found: Iterable[Watched]) -> None:
    """Replace rows of the table in the document, and drop those of no history."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines()}
    rows |= {watched.kind.name: _line(cells(watched)) for watched in found}
    names = [history.name for history in HISTORIES if history.name in rows]
    lines = [_line(HEADINGS), _line(("---",) * len(HEADINGS)), *(rows[name] for name in names)]
    table = "\n".join(lines)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table}\n\n{END}{after}", encoding="utf-8")


def _line(cells_of_row: Iterable[str]) -> str:
    return f"| {' | '.join(cells_of_row)} |"
