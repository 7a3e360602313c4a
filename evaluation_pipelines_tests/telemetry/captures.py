"""Captured telemetry of agent programs, its references, and its sessions by both paths."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines_tests.telemetry.golden import Row, stateless, stored
from evaluation_pipelines_tests.workplace import open_workplace

_DATA = Path(__file__).parents[1] / "data"
_COUNTS = ("prompts", "tools_ok", "tools_failed", "api_requests")
_SAME = (
    *("prompts", "api_requests", "api_errors", "input_tokens", "output_tokens"),
    *("cache_read_tokens", "cache_creation_tokens", "total_tokens"),
    *("tools_ok", "tools_failed", "tools_denied", "total_tools", "models"),
)

WAYS = [(form, path) for form in ("as sent", "by a collector") for path in ("stateless", "stored")]
"""All combinations of encoding and path."""


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

    def rows(self, way: tuple[str, str], folder: Path) -> dict[str, Row]:
        """Return sessions by session id; the path "stored" uses a lake in ``folder``."""
        form, path = way
        if path == "stateless":
            return stateless(self.file(form))
        with open_workplace(folder) as workplace:
            workplace.land("logs.jsonl", self.file(form).read_bytes())
            assert workplace.ingest().counts.quarantined == 0
            workplace.build()
            return stored(workplace)


def as_reference(row: Row) -> dict[str, Any]:
    """Return a row with the fields of the reference, which has no prices and so no scores."""
    return {
        **{name: row[name] for name in _SAME},
        "cli": row["source_cli"],
        "masques": [] if row["masque"] is None else [row["masque"]],
        "active_s": round(row["active_s"], 6),
        "cost_usd": None,
        "dimensions": None,
    }


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
