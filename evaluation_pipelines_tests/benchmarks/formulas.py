"""Score formulas on a million sessions against an equivalent Python loop."""

from dataclasses import replace

from evaluation_pipelines_tests.benchmarks.measure import BenchmarkError, run_function
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section

_SESSIONS = 1_000_000


def run(_options: Options) -> Section:
    """Both once; they must agree on every recommendation and on the sum of the composites."""
    section = Section(sizes={"sessions": _SESSIONS})
    answers = []
    for name, function in (("Polars formulas", "polars"), ("Python loop", "loop")):
        measured = run_function(f"formulas_work:score_with_{function}", sessions=_SESSIONS)
        # Making the sessions is not what is measured: the function timed its own work.
        section.add(name, replace(measured, seconds=measured.answer.pop("seconds")))
        answers.append(measured.answer)
    if answers[0] != answers[1]:
        raise BenchmarkError(f"the formulas and the loop disagree: {answers}")
    ours, loop = section.best("Polars formulas"), section.best("Python loop")
    section.outcomes = [
        Outcome(
            "score formulas on 1 million sessions against a Python loop",
            f"{ours:.2f} s",
            f"{loop:.2f} s",
            f"{loop / ours:.0f}x",
            ">= 50x",
            loop / ours >= 50,
        )
    ]
    return section
