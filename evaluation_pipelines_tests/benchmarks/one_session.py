"""The score of the newest session of a large file, against the way of the source design."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluation_pipelines_tests.benchmarks.measure import (
    BenchmarkError,
    Measurement,
    run_command,
    run_function,
)
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section
from evaluation_pipelines_tests.benchmarks.telemetry_file import telemetry_file

_OURS, _PEER = "evaluation-pipelines score", "DuckDB read_json_auto into tables"
_PROGRAM = "from evaluation_pipelines.cli.program import main; main()"


def run(options: Options) -> Section:
    """Both in turn, on a quarter of the large file; they must agree on the session."""
    section, file = Section(), telemetry_file(options.size_mb // 4)
    section.sizes["file_bytes"] = file.stat().st_size
    for _ in range(max(options.rounds - 1, 1)):
        section.add(_PEER, peer := run_function("one_session_peer:newest", source=os.fspath(file)))
        section.add(_OURS, ours := _score(file, peer.answer["session_id"]))
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
            ">= 6x",
            speed >= 6,
        ),
        Outcome(
            "the same, peak memory",
            f"{section.worst(_OURS, 'peak_mb'):.0f} MB",
            f"{section.worst(_PEER, 'peak_mb'):.0f} MB",
            f"{memory:.2f}x",
            "<= 0.2x",
            memory <= 0.2,
        ),
    ]
    return section


def _score(file: Path, session_id: str) -> Measurement:
    """The program as a person starts it; ``answer`` is what it says of the session."""
    command = ("score", os.fspath(file), "--session", session_id, "--format", "json")
    measured = run_command(sys.executable, "-c", _PROGRAM, *command)
    windows = json.loads(measured.answer)["items"]
    stats = [window["stats"] for window in windows]
    answer: dict[str, Any] = {"session_id": windows[0]["session_id"]}
    for name in ("prompts", "total_tools", "total_tokens", "total_cost"):
        answer[name] = _sum([stat[name] for stat in stats])
    return replace(measured, answer=answer)


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 6) if len(known) == len(values) else None
