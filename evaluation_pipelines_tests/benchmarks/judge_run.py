"""A whole judge run against the ideal: from the lake to the ledger, with every reply stored.

What the night of a large team takes on this machine follows from it: what there is to do before the
judge is asked, the processor time of asking, and how long the endpoint needs for its answers.
"""

from pathlib import Path

from evaluation_pipelines_tests.benchmarks.measure import (
    BenchmarkError,
    Measurement,
    run_function,
    tell,
)
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.judge_endpoint import open_judge_process

_LATENCY_S = 2.0
_CONCURRENCY = 32
_TURNS = 2
_FEWER = 5
_NIGHT = 10_000
"""Sessions of a large team in a night."""


def run(options: Options) -> Section:
    """A fortnight of a made-up team is judged: first a few of its sessions, then most others.

    The ideal is an endpoint that is never idle: sessions * turns * latency / concurrency. It can be
    had where the last calls are as many at a time as all others, so their number is a multiple.
    """
    section = Section()
    made, rounds = options.sessions * 3 // 2, -(-options.sessions // _CONCURRENCY)
    with data_folder(name="judge") as folder:
        tell(f"  making up {made} sessions")
        filled = run_function("judge_run_work:fill", folder=str(folder), sessions=made)
        few = _judged(folder, options.sessions // _FEWER)
        many = _judged(folder, rounds * _CONCURRENCY)
    section.add("judge run, a fifth", few)
    section.add("judge run, most others", many)
    section.sizes |= {"judge concurrency": _CONCURRENCY, "sessions": made, **filled.answer}
    section.outcomes = [*_run(few, many), _night(filled.answer, made, many)]
    return section


def _run(few: Measurement, many: Measurement) -> list[Outcome]:
    sessions = int(many.answer["scored"])
    ideal_s = _ideal_s(sessions)
    return [
        Outcome(
            f"judge run: {sessions} sessions from the lake to the ledger, {_CONCURRENCY} calls at "
            f"a time, {_LATENCY_S:.0f} s an answer; the peer is the ideal",
            f"{many.seconds:.1f} s",
            f"{ideal_s:.1f} s",
            f"{ideal_s / many.seconds:.2f}x",
            ">= 0.95x",
            ideal_s / many.seconds >= 0.95,
        ),
        Outcome(
            f"the same, peak memory: against {int(few.answer['scored'])} sessions",
            f"{many.peak_mb:.0f} MB",
            f"{few.peak_mb:.0f} MB",
            f"{many.peak_mb / few.peak_mb:.2f}x",
            "<= 1.2x",
            many.peak_mb / few.peak_mb <= 1.2,
        ),
    ]


def _night(filled: dict[str, float], made: int, many: Measurement) -> Outcome:
    """Each step extrapolated to a night; the endpoint bounds it if it needs longest."""
    ingest_s, build_s = (filled[step] * _NIGHT / made for step in ("ingest_s", "build_s"))
    asking_s = many.cpu_seconds * _NIGHT / many.answer["scored"]
    own_s, endpoint_s = ingest_s + build_s + asking_s, _ideal_s(_NIGHT)
    return Outcome(
        f"a night of {_NIGHT:,} sessions, extrapolated: all that this machine does, against what "
        "the endpoint takes for its answers",
        f"{own_s:.0f} s (ingest {ingest_s:.0f}, build {build_s:.0f}, judge run {asking_s:.0f})",
        f"{endpoint_s:.0f} s",
        f"{endpoint_s / own_s:.1f}x",
        "known",
        None,
    )


def _ideal_s(sessions: int) -> float:
    return sessions * _TURNS * _LATENCY_S / _CONCURRENCY


def _judged(folder: Path, max_sessions: int) -> Measurement:
    with open_judge_process(_LATENCY_S) as base_url:
        measured = run_function(
            "judge_run_work:judge_all",
            folder=str(folder),
            base_url=base_url,
            concurrency=_CONCURRENCY,
            max_sessions=max_sessions,
        )
    if measured.answer["calls"] < measured.answer["scored"] * _TURNS:
        raise BenchmarkError(f"too few calls: {measured.answer}")
    return measured
