"""Tool reports of many sessions against a plain loop over all pairs of their calls."""

from dataclasses import replace

from evaluation_pipelines_tests.benchmarks.measure import BenchmarkError, run_function
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section

_PARTS = (
    # Longer ones have more different calls than are compared, and say so.
    # Short sessions: the loop has little to compare, and makes neither rows nor places.
    ("500 sessions of 60 calls", {"sessions": 500, "calls": 60, "edits": 2}, None),
    ("4 sessions of 1200 calls", {"sessions": 4, "calls": 1200, "edits": 0}, 3.0),
)


def run(options: Options) -> Section:
    """Both in turn; they must agree on everything that they find."""
    section = Section(sizes={"calls": 34_800})
    for what, size, target in _PARTS:
        ours, loop = f"tool reports, {what}: package", f"tool reports, {what}: loop"
        answers = []
        for _ in range(max(options.rounds - 1, 1)):
            for name, function in ((ours, "package"), (loop, "loop")):
                measured = run_function(f"tool_reports_work:report_with_{function}", **size)
                # Making the calls is not what is measured: the function timed its own work.
                measured = replace(measured, seconds=measured.answer.pop("seconds"))
                section.add(name, measured)
                answers.append(measured.answer)
        if any(answer != answers[0] for answer in answers):
            raise BenchmarkError(f"the package and the loop disagree: {answers}")
        ratio = section.best(loop) / section.best(ours)
        section.outcomes.append(
            Outcome(
                f"tool reports, {what}, against a Python loop",
                f"{section.best(ours):.2f} s",
                f"{section.best(loop):.2f} s",
                f"{ratio:.1f}x",
                "known" if target is None else f">= {target:.0f}x",
                None if target is None else ratio >= target,
            )
        )
    _prompts(section)
    return section


def _prompts(section: Section) -> None:
    """A session of 5000 long, different prompts, against all pairs in the window by rapidfuzz."""
    names = "tool reports, prompts: package", "tool reports, prompts: rapidfuzz"
    found = []
    for name, function in zip(names, ("package", "rapidfuzz"), strict=True):
        measured = run_function(f"tool_reports_work:prompts_with_{function}", calls=5_000)
        seconds = measured.answer.pop("seconds")
        section.add(name, replace(measured, seconds=seconds))
        found.append(measured.answer)
    if found[0] != found[1]:
        raise BenchmarkError(f"they disagree on the repeated calls: {found}")
    ours, peer = (section.best(name) for name in names)
    section.outcomes.append(
        Outcome(
            "tool report of 5000 different prompts of 150 words, against rapidfuzz alone",
            f"{ours:.1f} s",
            f"{peer:.1f} s",
            f"{ours / peer:.2f}x",
            "<= 1.2x, <= 5 s",
            ours / peer <= 1.2 and ours <= 5,
        )
    )
