"""Starts: the code location against ``import dagster``, commands against what they import."""

import json
import sys
from pathlib import Path

from evaluation_pipelines_tests.benchmarks.measure import run_command
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder

_PROGRAMS = {
    "import dagster": "import dagster",
    "load the code location": (
        "from evaluation_pipelines.definitions import defs; defs().get_repository_def()"
    ),
}
_PROGRAM = str(Path(sys.executable).with_name("evaluation-pipelines"))
_COMMANDS = {
    # Command -> what it is compared with, and the limit.
    "--help": ("typer, rich", 3.0),
    "--version": ("typer, rich", 3.0),
    "sessions": ("typer, rich, polars, duckdb", 1.6),
    "status": ("typer, rich, polars, duckdb", 1.6),
    "show": ("typer, rich, polars, duckdb", 1.6),
}


def run(options: Options) -> Section:
    """Both in turn, once more than there are rounds: the first warms the disk's cache."""
    section = Section()
    for warm in (False, *[True] * options.rounds):
        for name, program in _PROGRAMS.items():
            measured = run_command(sys.executable, "-c", program)
            if warm:
                section.add(name, measured)
    alone, whole = (section.best(name) for name in _PROGRAMS)
    section.outcomes = [
        Outcome(
            "loading the code location against import dagster",
            f"{whole:.2f} s",
            f"{alone:.2f} s",
            f"{whole / alone:.2f}x",
            "<= 2.2x",
            whole / alone <= 2.2,
        )
    ]
    return section


def commands(options: Options) -> Section:
    """Processor time of commands on the demo, and of the imports of their libraries."""
    section = Section()
    with data_folder(name="start") as folder:
        on_demo = [("EVAL_DATA_DIR", str(folder))]
        run_command(_PROGRAM, "demo", environment=on_demo)
        listed = run_command(_PROGRAM, "sessions", "--format", "json", environment=on_demo)
        shown = {"show": [json.loads(listed.answer)["items"][0]["session_id"]]}
        for _ in range(options.rounds):
            for command, (libraries, _limit) in _COMMANDS.items():
                whole = (_PROGRAM, command, *shown.get(command, ()))
                section.add(command, run_command(*whole, environment=on_demo))
                imports = f"import {libraries}"
                section.add(imports, run_command(sys.executable, "-c", imports))
    for command, (libraries, limit) in _COMMANDS.items():
        ours = section.median(command, "cpu_seconds")
        peer = section.median(f"import {libraries}", "cpu_seconds")
        section.outcomes.append(
            Outcome(
                f"start of {command}, processor time, against import {libraries}",
                f"{ours:.2f} s",
                f"{peer:.2f} s",
                f"{ours / peer:.2f}x",
                f"<= {limit:g}x",
                ours / peer <= limit,
            )
        )
    return section
