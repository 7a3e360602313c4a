"""The score of the newest session of a large file, beside the source design's own way."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from evaluation_pipelines_tests.benchmarks.measure import (
    BenchmarkError,
    Measurement,
    run_command,
    run_function,
)
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section
from evaluation_pipelines_tests.benchmarks.telemetry_file import telemetry_file

_OURS, _PEER = "evaluation-pipelines score", "DuckDB read_json_auto into tables"
_PROGRAM = "from evaluation_pipelines.cli import main; main()"


def run(options: Options) -> Section:
    """Both in turn, on a quarter of the large file; they must agree on the session."""
    section, file = Section(), telemetry_file(options.size_mb // 4)
    section.sizes["file_bytes"] = file.stat().st_size
    for _ in range(max(options.rounds - 1, 1)):
        section.add(_OURS, ours := _score(file))
        section.add(_PEER, peer := run_function("one_session_peer:newest", source=os.fspath(file)))
        if ours.answer != peer.answer:
            raise BenchmarkError(f"two answers: {ours.answer}, {peer.answer}")
    speed = section.best(_PEER) / section.best(_OURS)
    memory = section.worst(_OURS, "peak_mb") / section.worst(_PEER, "peak_mb")
    section.outcomes = [
        Outcome(
            f"score of one session of {options.size_mb // 4} MB against read_json_auto",
            f"{section.best(_OURS):.1f} s",
            f"{section.best(_PEER):.1f} s",
            f"{speed:.1f}x",
            ">= 8x",
            speed >= 8,
        ),
        Outcome(
            "the same, peak memory",
            f"{section.worst(_OURS, 'peak_mb'):.0f} MB",
            f"{section.worst(_PEER, 'peak_mb'):.0f} MB",
            f"{memory:.2f}x",
            "<= 0.125x",
            memory <= 0.125,
        ),
    ]
    return section


def _score(file: Path) -> Measurement:
    """The program as a person starts it; ``answer`` is what it says of the session."""
    measured = run_command(
        sys.executable, "-c", _PROGRAM, "score", os.fspath(file), "--format", "json"
    )
    (session,) = json.loads(measured.answer)
    stats = session["stats"]
    answer = {
        "session_id": session["session_id"],
        "prompts": stats["prompts"],
        "total_tools": stats["total_tools"],
        "total_tokens": stats["total_tokens"],
        "cost_usd": round(stats["total_cost"], 6),
    }
    return replace(measured, answer=answer)
