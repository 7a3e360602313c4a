"""A whole judge run against the ideal: from the lake to the ledger, with every reply stored."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from evaluation_pipelines.build import Build
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.benchmarks.measure import (
    BenchmarkError,
    Measurement,
    run_function,
    tell,
)
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.judge_endpoint import open_judge_process
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry

_LATENCY_S = 2.0
_CONCURRENCY = 32
_TURNS = 2
_FEWER = 5
_DAYS = 14


def run(options: Options) -> Section:
    """A fortnight of a made-up team is judged: a fifth of its sessions, then most others.

    The ideal is an endpoint that is never idle: sessions * turns * latency / concurrency. It can be
    had where the last calls are as many at a time as all others, so their number is a multiple.
    """
    section = Section()
    with data_folder(name="judge") as folder:
        tell(f"  making up {options.sessions} sessions")
        _fill(folder, options.sessions)
        few = _judged(folder, options.sessions // _FEWER)
        many = _judged(folder, options.sessions * 2 // 3 // _CONCURRENCY * _CONCURRENCY)
    section.add("judge run, a fifth", few)
    section.add("judge run, most others", many)
    sessions = int(many.answer["scored"])
    ideal_s = sessions * _TURNS * _LATENCY_S / _CONCURRENCY
    section.sizes |= {"judged sessions": sessions, "judge concurrency": _CONCURRENCY}
    section.outcomes = [
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
    return section


def _fill(folder: Path, sessions: int) -> None:
    """Telemetry of the days up to a week ago, ingested and built."""
    end = (datetime.now(UTC) - timedelta(days=7)).date()
    extent = Extent(_DAYS, sessions / _DAYS)
    write_telemetry(folder / "landing" / "team", seed=1, end=end, extent=extent)
    with open_stores(Settings(data_dir=folder)) as stores:
        Ingest(stores).run()
        job = Build(stores)
        job.run(job.pending_dates())


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
