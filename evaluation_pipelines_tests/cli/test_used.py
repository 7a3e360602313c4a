"""Use and cost by sub-agent, skill and slash command: ``tools --fleet`` and ``sessions --by``."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import attributes, claude, line, request


def model(second: int, session: str, cost: float | None, prompt: str, **names: str) -> Any:
    """A request of 1 + 2 tokens for each cent."""
    cents = 1 if cost is None else round(cost * 100)
    sent = {"input_tokens": cents, "output_tokens": 2 * cents, "cost_usd": cost}
    return claude("api_request", second, session__id=session, prompt__id=prompt, **sent, **names)


def read(second: int, session: str, prompt: str) -> Any:
    return claude(
        "tool_result",
        second,
        session__id=session,
        prompt__id=prompt,
        tool_name="Read",
        success="true",
    )


def of_child(session: str, start: int) -> Any:
    own = f"{session}-child"
    plan = {"agent__name": "plan"}
    return [
        {
            **record,
            "attributes": [*record["attributes"], *attributes({"parent_session_id": session})],
        }
        for record in (
            claude("user_prompt", start + 1, session__id=own, prompt__id="q1", **plan),
            model(start + 2, own, 0.03, "q1", **plan),
            model(start + 8, own, 0.04, "q1", **plan),
        )
    ]


def of_family(second: int, program: str, scope: str, name: str, status: str | None = None) -> bytes:
    """A record of Gemini CLI or Qwen Code about a sub-agent."""
    record = claude("x", second, session__id=scope)
    sent = {"session.id": scope, "event.name": f"{program}.{name}", "status": status}
    who = "agent_name" if program == "gemini_cli" else "subagent_name"
    kept = {key: value for key, value in sent.items() if value is not None}
    record["attributes"] = attributes({**kept, who: "explore"})
    record["body"] = {"stringValue": "x"}
    return json.dumps(request([record], scope=scope)).encode() + b"\n"


def of_claude(session: str, start: int) -> bytes:
    """A session: /review with a skill and a sub-agent, a plain prompt, and a built-in command."""
    review, compact = {"command_name": "/review"}, {"command_name": "compact"}
    asked = {"session__id": session}
    explorer = {"agent__name": "explore"}
    return line(
        claude("user_prompt", start, **asked, prompt__id="p1", **review),
        # A sub-agent with a session and prompts of its own, which goes on after the next prompt.
        *of_child(session, start),
        claude("skill_activated", start + 1, **asked, prompt__id="p1", skill__name="pdf"),
        model(start + 2, session, 0.02, "p1", skill__name="pdf"),
        read(start + 3, session, "p1"),
        model(start + 4, session, 0.05, "p1", **explorer),
        claude("subagent_completed", start + 5, **asked, prompt__id="p1", agent_type="explore"),
        claude("user_prompt", start + 6, **asked, prompt__id="p2"),
        model(start + 7, session, 0.40, "p2"),
        read(start + 8, session, "p2"),
        claude("user_prompt", start + 9, **asked, command_source="builtin", **compact),
    )


CODEX = {
    "event.name": "codex.skill_invocation",
    "conversation.id": "codex-1",
    "skill.name": "pdf",
    "event.timestamp": "2026-06-01T12:00:00Z",
}


@pytest.fixture
def lake(program: Program) -> Program:
    unknown = line(
        claude("user_prompt", 200, session__id="s3", prompt__id="p1", command_name="review"),
        model(201, "s3", None, "p1"),
    )
    codex = claude("x", 0)
    codex["attributes"] = [{"key": k, "value": {"stringValue": v}} for k, v in CODEX.items()]
    codex["body"] = {}
    program.land("claude.jsonl", of_claude("s1", 0) + of_claude("s2", 100) + unknown)
    sent = json.dumps(request([codex], scope="codex_otel.log_only"))
    program.land("codex.jsonl", sent.encode() + b"\n")
    # Each is one use, of which the end is told, too.
    gemini = [
        of_family(second, "gemini_cli", "gemini-cli", f"agent.{name}")
        for second, name in enumerate(("start", "finish"))
    ]
    qwen = [
        of_family(second, "qwen-code", "qwen-code", "subagent_execution", status)
        for second, status in enumerate(("started", "completed", "started", "failed"))
    ]
    program.land("gemini.jsonl", b"".join(gemini))
    program.land("qwen.jsonl", b"".join(qwen))
    program("ingest")
    program("build")
    return program


EXPECTED: dict[str, dict[str, tuple[object, ...]]] = {
    # name: sessions, uses, calls, api_requests, total_tokens, cost_usd
    # The calls of a sub-agent or a skill are not told. 2 * (5 + 10) tokens, 2 * 0.05
    # Gemini CLI tells one use and Qwen Code two, and no requests.
    "subagent": {
        "explore": (4, 5, None, 2, 30, 0.10),
        # By their sessions: 2 * 3 * (3 + 4) tokens, 2 * 0.07
        "plan": (2, 2, None, 4, 42, 0.14),
    },
    # One more session, of Codex, which does not tell its requests. 2 * (2 + 4), 2 * 0.02
    "skill": {"pdf": (3, 3, None, 2, 12, 0.04)},
    # /review: all that answers p1, and the sub-agent: 2 * (6 + 15 + 21) + (1 + 2) tokens; the cost
    # of s3 is unknown.
    # /compact is no prompt: what belongs to it is not told.
    "command": {
        "review": (3, 3, 2, 9, 87, 0.28),
        "compact": (2, 2, None, None, None, None),
    },
}
COLUMNS = ("sessions", "uses", "calls", "api_requests", "total_tokens", "cost_usd")


def test_use_tokens_and_cost_are_by_sub_agent_skill_and_slash_command(lake: Program) -> None:
    rows = lake("tools", "--fleet", "--format", "json").items()
    for kind, names in EXPECTED.items():
        of_kind = {row["name"]: row for row in rows if row["by"] == kind}
        grouped = lake("sessions", "--by", kind, "--format", "json").items()
        assert of_kind.keys() == {row["name"] for row in grouped} == names.keys()
        for row in (*of_kind.values(), *grouped):
            found = [row[name] for name in COLUMNS]
            assert found == pytest.approx(list(names[row["name"]]))
    assert {row["by"] for row in rows} == {"tool", "model", *EXPECTED}
    assert "By slash command" in lake("tools", "--fleet").out
    shown = lake("sessions", "--by", "command").out
    assert "0.28 (2 of 3)" in shown
    assert "review" in lake("sessions", "--by", "command", "--format", "csv").out
