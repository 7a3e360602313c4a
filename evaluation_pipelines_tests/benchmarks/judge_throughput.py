"""The judge client against the ideal: an endpoint with a fixed latency and no other cost."""

from evaluation_pipelines_tests.benchmarks.measure import BenchmarkError, Measurement, run_function
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section
from evaluation_pipelines_tests.judge_endpoint import open_judge_process

_LATENCY_S = 2.0
_CONCURRENCY = 32
_TURNS = 2
_FEWER = 5


def run(options: Options) -> Section:
    """A fifth of the sessions, then all of them, each asked in two turns of one conversation.

    The endpoint runs in a process of its own. The ideal is that it is never idle:
    sessions * turns * latency / concurrency.
    """
    section = Section()
    few, many = options.sessions // _FEWER, options.sessions
    for sessions in (few, many):
        section.add(_name(sessions), _asked(sessions))
    ideal_s = many * _TURNS * _LATENCY_S / _CONCURRENCY
    section.sizes |= {"sessions": many, "concurrency": _CONCURRENCY, "latency_s": _LATENCY_S}
    took_s = section.best(_name(many))
    peaks = [section.worst(_name(sessions), "peak_mb") for sessions in (many, few)]
    section.outcomes = [
        Outcome(
            f"judge: {many} sessions, {_CONCURRENCY} at a time, {_LATENCY_S:.0f} s an answer; "
            "the peer is the ideal",
            f"{took_s:.1f} s",
            f"{ideal_s:.1f} s",
            f"{ideal_s / took_s:.2f}x",
            ">= 0.95x",
            ideal_s / took_s >= 0.95,
        ),
        Outcome(
            f"the same, peak memory: {many} sessions against {few}",
            f"{peaks[0]:.0f} MB",
            f"{peaks[1]:.0f} MB",
            f"{peaks[0] / peaks[1]:.2f}x",
            "<= 1.1x",
            peaks[0] / peaks[1] <= 1.1,
        ),
    ]
    return section


def _name(sessions: int) -> str:
    return f"judge {sessions} sessions"


def _asked(sessions: int) -> Measurement:
    with open_judge_process(_LATENCY_S) as base_url:
        measured = run_function(
            "judge_work:ask", base_url=base_url, sessions=sessions, concurrency=_CONCURRENCY
        )
    if measured.answer["calls"] != sessions * _TURNS:
        raise BenchmarkError(f"{measured.answer['calls']} calls for {sessions} sessions")
    return measured
