"""Captured telemetry of agent programs, its references, and its sessions by both paths."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.sessions.score import score_files
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.workplace import Workplace

_DATA = Path(__file__).parents[1] / "data"
RECORDED = tuple(sorted(path.parent.name for path in _DATA.glob("*/truth.json")))
"""Programs that were recorded against the model server."""

CLIS = tuple(sorted(path.parent.name for path in _DATA.glob("*/expected.json")))
"""Those of them with the results of a plain-Python reference."""

REPORTED = _DATA / "reported"
"""Small inputs of every program, most after public reports."""

_COUNTS = ("prompts", "tools_ok", "tools_failed", "api_requests")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Capture:
    """Telemetry that one agent program exported in sessions against a scripted model server."""

    cli: str

    def file(self, form: str) -> Path:
        """Return the telemetry, as the program sent it or as a collector wrote it."""
        if form == "as sent":
            return SAMPLES / self.cli / "logs.jsonl"
        return _DATA / self.cli / "logs.pbjson.jsonl"

    @property
    def expected(self) -> dict[str, Any]:
        """Results of a plain-Python reference."""
        return dict(json.loads((_DATA / self.cli / "expected.json").read_text()))

    @property
    def truth(self) -> list[dict[str, Any]]:
        """Sessions as the model server saw them."""
        return list(json.loads((_DATA / self.cli / "truth.json").read_text())["sessions"])


FORMS = {form: Capture("claude_code").file(form) for form in ("as sent", "by a collector")}


def stateless(*paths: Path) -> dict[str, Row]:
    """Return rows by session id, computed directly from files."""
    handles = [path.open("rb") for path in paths]
    try:
        named = zip(map(str, paths), handles, strict=True)
        scored = score_files(named, Settings())
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


def answered_calls(session: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the API calls of a session that the model server answered."""
    return [call for call in session["api_calls"] if call["status"] == 200]


def differences(rows: Mapping[str, Row], truth: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the counts that differ from the truth, with the fields of the reference."""
    different = []
    for session in truth:
        (session_id,) = session["session_ids"]
        results = [call["result"] for call in session["tool_calls"]]
        actual = {
            "prompts": session["n_user_prompts"],
            "tools_ok": results.count("ok"),
            "tools_failed": results.count("failed"),
            "api_requests": len(answered_calls(session)),
        }
        counted = rows.get(session_id, dict.fromkeys(_COUNTS, 0))
        different += [
            {
                "label": session["label"],
                "session_ids": session["session_ids"],
                "field": name,
                "telemetry": counted[name],
                "truth": actual[name],
            }
            for name in _COUNTS
            if counted[name] != actual[name]
        ]
    return different
