"""``judge validate``."""

import csv
import json
from pathlib import Path

import pytest

from evaluation_pipelines.judging import validation
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.program import Program

TASK = "csv-import.yaml"


@pytest.fixture
def validated(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Program:
    """A judge that was validated twice with one task, once without attacks."""
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    text = (validation.SHIPPED_SESSIONS / TASK).read_text("utf-8")
    (shipped / TASK).write_text(text, "utf-8")
    monkeypatch.setattr(validation, "SHIPPED_SESSIONS", shipped)
    with open_judge_endpoint() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("EVAL_JUDGE_MODEL", "judge-1")
        assert program("judge", "validate", "--no-attacks").code == 0
        assert program("judge", "validate", "--no-attacks", "--model", "judge-2").code == 0
    return program


def test_it_prints_figures_and_compares(validated: Program) -> None:
    shown = validated("judge", "validate", "--last", "--model", "judge-2")
    assert shown.code == 0
    assert shown.out.startswith("Validation of judge-2, rubric agent-methodology\n")
    assert "verdict_rate" in shown.out
    assert "\n6 sessions asked, 0 unreachable, " in shown.out
    assert "The same sessions by other judges" in shown.out
    assert "judge-1" in shown.out

    record = json.loads(validated("judge", "validate", "--last", "--format", "json").out)
    assert record["judge_model"] == "judge-2"
    assert len(record["sessions"]) == record["judged_sessions"] == 6
    rows = list(
        csv.DictReader(validated("judge", "validate", "--last", "--format", "csv").out.splitlines())
    )
    rates = {row["judge_model"]: row["value"] for row in rows if row["figure"] == "verdict_rate"}
    assert rates == {"judge-2": "1.0", "judge-1": "1.0"}


def test_without_a_judge_or_a_run_it_says_so(program: Program) -> None:
    refused = program("judge", "validate")
    assert (refused.code, "set EVAL_JUDGE_MODEL" in refused.err) == (1, True)
    assert "never validated" in program("judge", "validate", "--last").err
