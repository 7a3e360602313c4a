"""The results file and its table next to it."""

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from evaluation_pipelines_tests.benchmarks.measure import tell
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section

RESULTS = Path(__file__).parent / "results.json"
TABLE = Path(__file__).parent / "results.md"
BEGIN, END = "<!-- results:begin -->\n", "<!-- results:end -->"

_PACKAGES = "chdb cysimdjson dagster duckdb msgspec orjson polars pyarrow".split()
_HEADINGS = ("what", "ours", "peer", "ratio", "target", "met")


def machine() -> dict[str, Any]:
    """What the figures were measured on; nothing that says whose it is."""
    import psutil

    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": _system(),
        "python": platform.python_version(),
    }


def results(sections: dict[str, Section], options: Options) -> dict[str, Any]:
    """Everything of a run as JSON."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": {name: version(name) for name in _PACKAGES},
        "options": asdict(options),
        "sections": {
            name: {"sizes": section.sizes, "rounds": section.rounds}
            for name, section in sections.items()
        },
        "outcomes": [
            asdict(outcome) for section in sections.values() for outcome in section.outcomes
        ],
    }


def write(run: dict[str, Any]) -> None:
    """Keep a run: the results file and the table made from it."""
    RESULTS.write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
    before, _, rest = TABLE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    TABLE.write_text(f"{before}{BEGIN}{table(run)}{END}{after}", encoding="utf-8")


def table(run: dict[str, Any]) -> str:
    """Return what stands between the marks of the document."""
    rows = [_cells(Outcome(**outcome)) for outcome in run["outcomes"]]
    return "\n".join([_circumstances(run), "", *_table(_HEADINGS, rows)]) + "\n"


def _circumstances(run: dict[str, Any]) -> str:
    machine, options = run["machine"], run["options"]
    packages = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    return (
        f"{run['date']}: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}, Python {machine['python']}; {packages}; "
        f"{options['size_mb']} MB, {options['rounds']} rounds."
    )


def print_outcomes(outcomes: list[Outcome]) -> None:
    """The table for the terminal."""
    rows = [_HEADINGS, *map(_cells, outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        tell("  ".join(cells).rstrip())


def _cells(outcome: Outcome) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: ""}[outcome.met]
    return (outcome.what, outcome.ours, outcome.peer, outcome.ratio, outcome.target, met)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (headings, ("---",) * len(headings), *rows)]


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    if sys.platform == "linux":
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return f"{platform.system()} {platform.release()}"
