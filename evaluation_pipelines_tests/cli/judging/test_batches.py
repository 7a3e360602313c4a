"""``judge list batches``, ``judge run --collect``, requests for a session that waits in a batch."""

import json
from collections.abc import Iterator

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S


@pytest.fixture
def endpoint(program: Program, monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeEndpoint]:
    """The endpoint of a judge in batch mode, and two sessions of 2025-02-06."""
    lines = [session_with_texts(f"s{n}", -480 * DAY_S + 60 * n) for n in (1, 2)]
    program.land("logs.jsonl", b"".join(lines))
    program("ingest")
    program("build")
    with open_judge_endpoint() as opened:
        monkeypatch.setenv("OPENAI_BASE_URL", opened.base_url)
        monkeypatch.setenv("EVAL_JUDGE_MODEL", "judge-1")
        monkeypatch.setenv("EVAL_JUDGE_MODE", "batch")
        monkeypatch.setenv("EVAL_JUDGE_INPUT_USD_PER_MTOK", "1")
        monkeypatch.setenv("EVAL_JUDGE_OUTPUT_USD_PER_MTOK", "10")
        yield opened


def test_a_night_in_the_terminal(program: Program, endpoint: JudgeEndpoint) -> None:
    assert program("judge", "list", "batches").out == "No open batches.\n"
    sent = program("judge", "run")
    assert (sent.code, "2 sent in 1 batches" in sent.out) == (0, True)

    (record,) = program("judge", "list", "batches", "--format", "json").items()
    assert (record["state"], record["requests"]) == ("submitted", 2)
    assert record["reserved_usd"] > 0
    assert "in_progress" in program("judge", "list", "batches").out

    waiting = json.loads(program("judge", "s1", "--format", "json").out)
    assert waiting["mode"] == "batch"
    assert waiting["expected_by"].startswith("2026-05-29")  # a day after its creation
    asked = program("judge", "s1", "--wait")
    assert (asked.code, "it waits in a batch" in asked.err) == (1, True)
    assert "expected by 2026-05-29" in asked.out
    assert endpoint.requests == []

    for _ in range(2):
        endpoint.batches.finish()
        assert program("judge", "run", "--collect").code == 0
    assert program("judge", "list", "batches").out == "No open batches.\n"
    assert "closed" in program("judge", "list", "batches", "--all").out
    shown = json.loads(program("show", "--judge", "s1", "--format", "json").out)
    assert (shown["status"], "mode" in shown) == ("completed", False)
