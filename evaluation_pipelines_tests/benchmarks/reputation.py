"""The refresh of reputation against a plain query with the same result."""

from dataclasses import replace

from evaluation_pipelines_tests.benchmarks.measure import run_function
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section

_SIGNALS = 5_000_000
_IDENTITIES = 20_000


def run(_options: Options) -> Section:
    """Both in turn in one process, the best of three."""
    section = Section(sizes={"identities": _IDENTITIES, "signals": _SIGNALS})
    measured = run_function(
        "reputation_work:refresh_and_query", signals=_SIGNALS, identities=_IDENTITIES
    )
    plain, refresh = measured.answer["plain"], measured.answer["refresh"]
    section.add("query", replace(measured, seconds=plain))
    section.add("refresh", replace(measured, seconds=refresh))
    section.outcomes = [
        Outcome(
            f"refresh of reputation, {_SIGNALS:,} signals, against a plain query",
            f"{refresh:.2f} s",
            f"{plain:.2f} s",
            f"{refresh / plain:.2f}x",
            "<= 1.5x",
            refresh / plain <= 1.5,
        )
    ]
    return section
