"""``doctor`` as a person and a monitor see it."""

import json
import os
from datetime import UTC, datetime

import pytest

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.receiver import open_receiver
from evaluation_pipelines_tests.world import session


def seen(program: Program, *arguments: str) -> dict[str, str]:
    """What was seen -> its state."""
    checks = program("doctor", "--format", "json", *arguments).items()
    return {check["seen"]: check["state"] for check in checks}


def test_telemetry_of_today_is_seen_with_what_it_lacks(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = (datetime.now(UTC) - datetime(2026, 6, 1, 12, tzinfo=UTC)).total_seconds() - 3600
    program.land("logs.jsonl", session("s", today))
    os.utime(program.folder / "data/landing/logs.jsonl", (0, 0))
    ran = program("doctor", "--offline")
    assert ran.code == 1
    assert "of telemetry not read yet (since 1970-01-01 00:00)" in ran.out
    assert "Or run: evaluation-pipelines ingest, then evaluation-pipelines build" in ran.out
    program("ingest")
    ran = program("doctor", "--offline")
    assert "warning: Telemetry is read but not built yet\n  Keep make serve" in ran.out
    program("build")
    (program.folder / "data").chmod(0o755)
    ran = program("doctor", "--format", "json", "--offline")
    assert ran.code == 4
    document = json.loads(ran.out)
    assert document["state"] == "warning"
    (found,) = document["programs"]
    assert found["program"] == "claude_code"
    assert {"what": "texts of prompts", "switch": "OTEL_LOG_USER_PROMPTS=1"}.items() <= found[
        "gaps"
    ][0].items()
    states = {item["seen"].partition(" (mode")[0]: item["state"] for item in document["items"]}
    assert states[f"Other users have access to data: {program.folder / 'data'}"] == "warning"
    monkeypatch.setenv("EVAL_SERVICE_URL", "http://127.0.0.1:9")
    refused = "service at http://127.0.0.1:9 is not responding: Connection refused"
    assert seen(program)[refused] == "failed"


def test_what_answers_is_seen(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_receiver() as receiver:
        base = receiver.url.removesuffix("/hook")
        monkeypatch.setenv("EVAL_DAGSTER_URL", base)
        monkeypatch.setenv("OPENAI_BASE_URL", base)
        monkeypatch.setenv("EVAL_JUDGE_MODEL", "m")
        monkeypatch.setenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD", "5")
        states = seen(program)
    address = base.removeprefix("http://")
    assert states[f"judge endpoint at {address} is responding"] == "ok"
    assert states[f"Dagster at {base} is responding"] == "ok"
