"""``doctor`` and ``digest`` as a person, a monitor and a webhook see them."""

import json
import os
import time
from datetime import UTC, datetime

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.receiver import open_receiver
from evaluation_pipelines_tests.world import DAY_S, claude, line, session


def seen(program: Program, *arguments: str) -> dict[str, str]:
    """What was seen -> its state."""
    checks = program("doctor", "--format", "json", *arguments).items()
    return {check["seen"]: check["state"] for check in checks}


def test_telemetry_of_today_is_seen_with_what_it_lacks(program: Program) -> None:
    assert "failed: No telemetry yet\n" in program("doctor", "--offline").out
    assert list(program.folder.iterdir()) == []  # nothing is written
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
    assert {"what": "prompt text", "switch": "OTEL_LOG_USER_PROMPTS=1"}.items() <= found["gaps"][
        0
    ].items()
    states = {item["seen"].partition(" (mode")[0]: item["state"] for item in document["items"]}
    assert states[f"Other users have access to data: {program.folder / 'data'}"] == "warning"
    program.set("EVAL_SERVICE_URL", "http://127.0.0.1:9")
    refused = "service at http://127.0.0.1:9 is not responding: Connection refused"
    assert seen(program)[refused] == "failed"


def test_half_a_line_is_no_telemetry_to_ingest(program: Program) -> None:
    """Its writer may be at work; later it is named, since no ingest could read it."""
    path = program.land("half.jsonl", session("a") + b"half a line")
    program("ingest")
    program("build")
    assert "All telemetry is read" in program("doctor", "--offline").out
    os.utime(path, (time.time() - 120,) * 2)
    ran = program("doctor", "--offline")
    assert "warning: half.jsonl ends in an incomplete line: 11 bytes not read" in ran.out
    assert "All telemetry is read" in ran.out


def test_what_answers_is_seen(program: Program) -> None:
    with open_receiver() as receiver:
        base = receiver.url.removesuffix("/hook")
        program.set("EVAL_DAGSTER_URL", base)
        program.set("OPENAI_BASE_URL", base)
        program.set("EVAL_JUDGE_MODEL", "m")
        program.set("EVAL_JUDGE_MAX_COST_PER_DAY_USD", "5")
        states = seen(program)
    address = base.removeprefix("http://")
    assert states[f"judge endpoint at {address} is responding"] == "ok"
    assert states[f"Dagster at {base} is responding"] == "ok"


WEEK = ("--date", "2026-06-01..2026-06-07")
HOSTILE = "<img src=x>@all"


def built(program: Program) -> None:
    failed = line(
        claude("user_prompt", DAY_S, session__id="b"),
        claude("tool_result", DAY_S + 1, session__id="b", tool_name=HOSTILE, success="false"),
    )
    program.land("logs.jsonl", session("a") + failed + session("c", -DAY_S))
    program("ingest")
    program("build")


def test_a_week_is_told_in_every_format(program: Program) -> None:
    built(program)
    text = program("digest", *WEEK)
    assert (text.code, text.err) == (0, "")
    assert text.out.startswith("Agent sessions from 2026-06-01 to 2026-06-07\n\nSummary\n")
    assert "- 2 sessions (1 in the 7 days before)\n" in text.out
    document = json.loads(program("digest", *WEEK, "--format", "json").out)
    assert (document["items"], document["last"]) == ([], "2026-06-07")
    assert program("digest", *WEEK, "--format", "csv").out.startswith("by,name,people,")
    page = program.folder / "week.html"
    assert program("digest", *WEEK, "--format", "html", "--output", str(page)).out == ""
    assert "<h2>Not included</h2>" in page.read_text()
    assert HOSTILE not in page.read_text()


def test_it_is_posted_once(program: Program) -> None:
    built(program)
    refused = program("digest", *WEEK, "--send")
    assert (refused.code, "EVAL_ALERT_WEBHOOK_URL" in refused.err) == (1, True)
    with open_receiver() as receiver:
        program.set("EVAL_ALERT_WEBHOOK_URL", receiver.url)
        assert program("digest", *WEEK, "--send").code == 0
        assert program("digest", *WEEK, "--send").code == 0
        (text,) = receiver.texts
    assert text.startswith("Agent sessions from 2026-06-01 to 2026-06-07\nSummary\n- 2 sessions")
    assert HOSTILE not in text
    assert "&lt;img src=x&gt;" in text
    seen = program("doctor", "--offline", "--format", "json").out
    assert "Agent sessions from" not in seen  # it asks for nothing


def test_what_the_webhook_refuses_is_an_error(program: Program) -> None:
    built(program)
    with open_receiver(500) as receiver:
        program.set("EVAL_ALERT_WEBHOOK_URL", receiver.url)
        ran = program("digest", *WEEK, "--send")
    assert (ran.code, "It is retried" in ran.err) == (1, True)
