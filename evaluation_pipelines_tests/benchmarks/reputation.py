"""The refresh of reputation against a plain query with the same result, by number of signals."""

from dataclasses import replace

from evaluation_pipelines_tests.benchmarks.measure import run_function
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section

_SIGNALS = (1_000_000, 5_000_000, 20_000_000)
_JUDGED = 5_000_000
_IDENTITIES = 20_000


def run(_options: Options) -> Section:
    """Each size in a process of its own; the target holds for five million signals."""
    section = Section(sizes={"identities": _IDENTITIES, "signals": _JUDGED})
    for signals in _SIGNALS:
        measured = run_function(
            "reputation_work:refresh_and_query", signals=signals, identities=_IDENTITIES
        )
        plain, refresh = measured.answer["plain"], measured.answer["refresh"]
        section.add(f"query {signals}", replace(measured, seconds=plain))
        section.add(f"refresh {signals}", replace(measured, seconds=refresh))
        section.outcomes.append(_outcome(signals, plain, refresh))
    return section


def _outcome(signals: int, plain: float, refresh: float) -> Outcome:
    is_target = signals == _JUDGED
    return Outcome(
        f"refresh of reputation, {signals // 1_000_000} million signals, against a plain query",
        f"{refresh:.2f} s",
        f"{plain:.2f} s",
        f"{refresh / plain:.2f}x",
        "<= 1.5x" if is_target else "-",
        refresh / plain <= 1.5 if is_target else None,
    )
