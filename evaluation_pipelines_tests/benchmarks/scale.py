"""What ingest and build cost by both engines, and what a second core gives.

Processor time is that of all processes of an engine: with Ray, also of those of its node. Every
worker has one thread. Ray must be installed (``pip install 'evaluation-pipelines[ray]'``).
"""

import json
import sys
from pathlib import Path

from evaluation_pipelines_tests.benchmarks.measure import (
    BenchmarkError,
    Measurement,
    run_command,
    tell,
)
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.benchmarks.telemetry_file import telemetry_file

_SHARDS = 4
_ENGINES = ("local", "ray")
_CORES = (1, 2)
_STEPS = ("ingest", "build")
_SIZES = ("sessions", "lake_bytes", "ledger_bytes")
_MOST_OVERHEAD, _LEAST_SPEEDUP = 1.15, 1.7


def run(options: Options) -> Section:
    """All contestants in turn, as many times as there are rounds."""
    section, file = Section(), telemetry_file(options.size_mb)
    section.sizes = {"file_bytes": file.stat().st_size, "shards": _SHARDS}
    rows = set()
    for _ in range(options.rounds):
        for engine in _ENGINES:
            for cores in _CORES:
                answer = _filled(file, engine, cores).answer
                rows.add(answer["rows"])
                section.sizes |= {name: answer[name] for name in _SIZES}
                for step in _STEPS:
                    figures = answer["steps"][step]
                    section.rounds.setdefault(_name(engine, cores, step), []).append(figures)
                tell(f"  {engine}, {cores} cores: {answer['steps']}")
    if len(rows) != 1:
        raise BenchmarkError("the engines made different rows")
    section.outcomes = [*_costs(section), *_speedups(section)]
    tell(f"  sizes: {section.sizes}")
    return section


def _name(engine: str, cores: int, step: str) -> str:
    return f"{step}, {engine}, {cores} cores"


def _filled(file: Path, engine: str, cores: int) -> Measurement:
    with data_folder([file], name="scale") as folder:
        arguments = {"folder": str(folder), "engine": engine, "cores": cores, "shards": _SHARDS}
        child = (sys.executable, "-m", f"{__package__}.child", "scale_work:fill")
        threads = (("POLARS_MAX_THREADS", "1"), ("RAY_DEDUP_LOGS", "0"))
        whole = run_command(*child, json.dumps(arguments), environment=threads)
    told = json.loads(whole.answer.splitlines()[-1])
    return Measurement(told["seconds"], whole.cpu_seconds, whole.peak_mb, told["answer"])


def _costs(section: Section) -> list[Outcome]:
    """Processor time of each step, on all cores: of a GB of telemetry, and of 1000 sessions."""
    units = {
        "ingest": ("a GB of telemetry (10^9 bytes)", section.sizes["file_bytes"] / 1e9),
        "build": ("1000 sessions", section.sizes["sessions"] / 1000),
    }
    found = []
    for step, (unit, number) in units.items():
        local, ray = (
            section.best(_name(engine, _CORES[-1], step), "cpu_seconds") / number
            for engine in _ENGINES
        )
        found.append(
            Outcome(
                f"{step} of {unit} by Ray on one node against threads and processes, CPU",
                f"{ray:.2f} s",
                f"{local:.2f} s",
                f"{ray / local:.2f}x",
                f"<= {_MOST_OVERHEAD}x",
                ray / local <= _MOST_OVERHEAD,
            )
        )
    return found


def _speedups(section: Section) -> list[Outcome]:
    """Wall time of ingest and build on one core against two."""
    found = []
    for engine in _ENGINES:
        one, two = (
            sum(section.best(_name(engine, cores, step)) for step in _STEPS) for cores in _CORES
        )
        found.append(
            Outcome(
                f"ingest and build, engine `{engine}`, on 2 cores against 1",
                f"{two:.1f} s",
                f"{one:.1f} s",
                f"{one / two:.2f}x",
                f">= {_LEAST_SPEEDUP}x",
                one / two >= _LEAST_SPEEDUP,
            )
        )
    return found
