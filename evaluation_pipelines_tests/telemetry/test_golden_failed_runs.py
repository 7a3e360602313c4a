"""Captured sessions in which no request was answered: whose runs they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines_tests.telemetry.captures import answered_calls
from evaluation_pipelines_tests.telemetry.golden import stateless

DATA = Path(__file__).parents[1] / "data"


def asked(session: dict[str, Any]) -> set[str]:
    """Return the models of the requests that reached the model server."""
    return {call["model"] for call in session["api_calls"]}


@pytest.mark.parametrize(
    ("program", "number"), [("claude_code", 2), ("codex", 1), ("gemini_cli", 1), ("qwen_code", 1)]
)
def test_they_are_failed_runs_of_the_model_that_the_server_was_asked_for(
    program: str, number: int
) -> None:
    truth = json.loads((DATA / program / "truth.json").read_text())["sessions"]
    rows = stateless(SAMPLES / program / "logs.jsonl")
    failed = {
        session["session_ids"][0]: ("failed", asked(session))
        for session in truth
        if not answered_calls(session)
    }
    assert len(failed) == number
    found = {name: (rows[name]["status"], {rows[name]["model"]}) for name in failed}
    assert found == failed
