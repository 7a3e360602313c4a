"""What people reported of their agents' telemetry: each input with its right numbers."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.golden import stored
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

REPORTED = Path(__file__).parents[1] / "data" / "reported"
CASES = ("codex-agent-response", "codex-prewarm", "copilot-no-cache-counts")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return one pipeline that has read and built all cases."""
    with open_workplace(tmp_path_factory.mktemp("reported")) as opened:
        for case in CASES:
            opened.land(f"{case}.jsonl", (REPORTED / f"{case}.jsonl").read_bytes())
        opened.ingest()
        opened.build()
        yield opened


@pytest.mark.parametrize("case", CASES)
def test_a_reported_input_gives_its_right_numbers(workplace: Workplace, case: str) -> None:
    expected = json.loads((REPORTED / f"{case}.expected.json").read_text())
    rows, events = stored(workplace), workplace.events().to_dicts()
    for session in expected["sessions"]:
        row = rows.get(session["session_id"])
        assert (row is None) == session.pop("_absent", False)
        if row is not None:
            assert {name: row[name] for name in session} == session
    for event in expected.get("events", []):
        assert event in [{name: each[name] for name in event} for each in events]
