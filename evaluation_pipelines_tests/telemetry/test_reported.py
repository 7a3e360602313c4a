"""Inputs after public reports of people who collect telemetry give the right numbers together."""

import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.telemetry.captures import stateless

REPORTED = Path(__file__).parents[1] / "data" / "reported"
EXPECTED = {
    path.name.removesuffix(".expected.json"): json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(REPORTED.glob("*.expected.json"))
}
TWO_DAYS_S = 2 * 24 * 3600


def test_reported_inputs_give_their_numbers(program: Program) -> None:
    for path in REPORTED.glob("*.jsonl"):
        landed = program.land(path.name, path.read_bytes())
        # A line that is not complete may still be growing, unless no byte came for a day.
        os.utime(landed, (time.time() - TWO_DAYS_S,) * 2)
    program("ingest")
    program("build")
    sessions = program("sessions", "--limit", "500", "--format", "json").items()
    quarantined = program("quarantine", "list", "--format", "json").items()
    events = _table(program, "agent_events").join(
        _table(program, "event_texts_landed").select(
            "event_id", has_content=pl.col("content").is_not_null()
        ),
        on="event_id",
        how="left",
    )

    differences = [
        *(d for name, case in EXPECTED.items() for d in _sessions(name, case, sessions)),
        *(d for name, case in EXPECTED.items() for d in _events(name, case, events.to_dicts())),
    ]
    assert differences == []
    assert {
        name: case["quarantined"] for name, case in EXPECTED.items() if "quarantined" in case
    } == {
        name: found
        for name in EXPECTED
        if (found := sum(f"{name}.jsonl" in json.dumps(entry) for entry in quarantined))
    }


def _table(program: Program, name: str) -> pl.DataFrame:
    return pl.concat(map(pl.read_parquet, program("publish", "--files", name).out.split()))


def _sessions(name: str, case: dict[str, Any], found: list[dict[str, Any]]) -> list[str]:
    """Differences of the sessions of a case."""
    differences = []
    for wanted in case["sessions"]:
        rows = [row for row in found if row["session_id"] == wanted["session_id"]]
        number = wanted.get("_windows", 0 if wanted.get("_absent") else 1)
        if len(rows) != number:
            differences.append(f"{name} {wanted['session_id']}: {len(rows)} rows, not {number}")
        differences += [
            f"{name} {wanted['session_id']} {field}: {row[field]!r}, not {value!r}"
            for row in rows
            for field, value in wanted.items()
            if not field.startswith("_") and not _same(row[field], value)
        ]
    return differences


def _events(name: str, case: dict[str, Any], found: list[dict[str, Any]]) -> list[str]:
    """Events of a case that are missing."""
    return [
        f"{name}: no event {wanted}"
        for wanted in case.get("events", [])
        if not any(all(row[field] == value for field, value in wanted.items()) for row in found)
    ]


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float):
        return bool(found == pytest.approx(wanted))
    if isinstance(wanted, str) and wanted.endswith("Z"):
        return datetime.fromisoformat(found) == datetime.fromisoformat(wanted)
    return bool(found == wanted)


_DATA = Path(__file__).parents[1] / "data" / "reported"


def test_what_runs_differently_is_a_variant_of_one_model() -> None:
    rows = stateless(
        *(_DATA / f"{name}.jsonl" for name in ("cc-model-1m-suffix", "codex-service-tier"))
    )

    assert {key: (row["model"], row["model_variant"]) for key, row in rows.items()} == {
        # Two of four requests, half of the output.
        "b03-1m": ("claude-opus-4-7", "mixed"),
        "b03-1m-only": ("claude-opus-4-7", "context 1m"),
        "b14-default": ("gpt-5.5", "effort high"),
        "b14-flex": ("gpt-5.5", "effort high, tier flex"),
        "b14-priority": ("gpt-5.5", "effort high, tier priority"),
    }
