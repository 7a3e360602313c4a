"""Loading the code location against ``import dagster`` alone."""

import sys

from evaluation_pipelines_tests.benchmarks.measure import run_command
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section

_PROGRAMS = {
    "import dagster": "import dagster",
    "load the code location": (
        "from evaluation_pipelines.definitions import defs; defs().get_repository_def()"
    ),
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
            "<= 1.8x",
            whole / alone <= 1.8,
        )
    ]
    return section
