"""Captured Claude Code telemetry, its references, and its scores by both paths."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.sessions.score import score_files
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.workplace import Workplace

_DATA = Path(__file__).parents[1] / "data" / "claude_code"

FORMS = {
    "as sent": SAMPLES / "claude_code" / "logs.jsonl",
    "by a collector": _DATA / "logs.pbjson.jsonl",
}
EXPECTED: dict[str, Any] = json.loads((_DATA / "expected.json").read_text())
TRUTH: list[dict[str, Any]] = json.loads((_DATA / "truth.json").read_text())["sessions"]

Row = Mapping[str, Any]


def stateless(*paths: Path) -> dict[str, Row]:
    """Return rows by session id, computed directly from files."""
    handles = [path.open("rb") for path in paths]
    try:
        named = zip(map(str, paths), handles, strict=True)
        scored = score_files(named, Settings(_env_file=None))
    finally:
        for handle in handles:
            handle.close()
    assert scored.quarantined == []
    return {row["session_id"]: row for row in scored.sessions}


def stored(workplace: Workplace) -> dict[str, Row]:
    """Return the same rows from the lake, joined by this helper, not by the program."""
    scores = {row["session_key"]: row for row in workplace.performance().to_dicts()}
    sessions = workplace.sessions().to_dicts()
    assert scores.keys() == {row["session_key"] for row in sessions}
    return {row["session_id"]: {**scores[row["session_key"]], **row} for row in sessions}
