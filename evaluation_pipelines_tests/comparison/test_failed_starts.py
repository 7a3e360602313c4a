"""A run that failed before any tool call is a run of its model, from telemetry to comparison."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluation_pipelines.comparison.compare_models import compare_models
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.sessions.score import score_files
from evaluation_pipelines_tests.comparison_builders import model
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world import claude, line

QUESTION = Question(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 2, tzinfo=UTC))


def good_run(name: str) -> bytes:
    """A prompt, an answered request of one cent and a tool call that succeeded."""
    cost = {"model": "aspen-4", "cost_usd": 0.01, "input_tokens": 10, "output_tokens": 20}
    return line(
        claude("user_prompt", 0, session__id=name),
        claude("api_request", 1, session__id=name, **cost),
        claude("tool_result", 2, session__id=name, tool_name="Read", success="true"),
    )


def failed_run(name: str) -> bytes:
    """A prompt that no request answered."""
    error = {"model": "aspen-4", "status_code": 500, "error": "Internal server error"}
    return line(
        claude("user_prompt", 0, session__id=name),
        claude("api_error", 95, session__id=name, **error),
    )


def test_it_counts_as_0_in_the_row_of_the_model_that_it_asked(tmp_path: Path) -> None:
    content = b"".join([good_run("good"), failed_run("failed")])
    with open_workplace(tmp_path) as place:
        place.land("logs.jsonl", content)
        place.ingest()
        place.build()
        stored = {row["session_id"]: row for row in place.sessions().to_dicts()}
        scored = score_files([("logs.jsonl", io.BytesIO(content))], place.settings).sessions
        evaluations = place.lake.read(SESSION_EVALUATIONS, [QUESTION.since.date()])
        said = dict(evaluations.select("session_id", "effective_100").rows())
        found = compare_models(place.stores, QUESTION, NOW)
    names = ("status", "model", "models", "provider", "cost_usd")
    assert [stored["failed"][name] for name in names[:3]] == ["failed", "aspen-4", []]
    (failed,) = (row for row in scored if row["session_id"] == "failed")
    assert {name: failed[name] for name in names} == {
        name: stored["failed"][name] for name in names
    }
    row = model(found, "aspen-4")
    assert (row["runs"], row["failed_at_start"], found.models.height) == (2, 1, 1)
    # The mean of one cent and nothing; of the good run's score and 0.
    assert row["avg_cost_usd"] == 0.005
    assert said["failed"] == 0
    assert row["avg_score"] == pytest.approx(said["good"] / 2)
