"""``tools``: tool reports of one session and of all sessions."""

import json
from typing import Any

import pytest

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines_tests.program import Program, Ran
from evaluation_pipelines_tests.world import claude, line

CODEX = "01a1fff1-058a-7a22-b650-3d3fbe10a8dd"
"""Four times "make check", six other failures, one success."""


def result(
    second: float, tool: str, success: str, parameters: dict[str, Any], **more: str
) -> dict[str, Any]:
    """Return a call of session ``s`` with a result of 400 bytes."""
    return claude(
        "tool_result",
        second,
        session__id="s",
        tool_name=tool,
        success=success,
        tool_input=json.dumps(parameters),
        tool_result_size_bytes="400",
        duration_ms="10",
        **more,
    )


@pytest.fixture
def lake(program: Program) -> Program:
    """Recorded sessions of Codex, and one of Claude Code with another model."""
    tokens = {"input_tokens": 900, "output_tokens": 100, "cache_read_tokens": 0}
    program.land("codex.jsonl", (SAMPLES / "codex" / "logs.jsonl").read_bytes())
    program.land(
        "claude.jsonl",
        line(
            claude("user_prompt", session__id="s"),
            claude("api_request", 1, session__id="s", model="model-a", cost_usd=0.09, **tokens),
            result(2, "Read", "true", {"file_path": "src/cart.py"}),
            result(3, "Read", "true", {"file_path": "src/cart.py"}),
            result(4, "Grep", "false", {"pattern": "\x1b[31m cart\ntotal"}, error="No\nsuch file"),
            result(5, "Bash", "true", {"command": "grep cart"}),
        ),
    )
    program("ingest")
    program("build")
    return program


def lines(ran: Ran) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in ran.out.splitlines()]


def test_a_report_has_the_score_the_losses_per_tool_and_the_calls(lake: Program) -> None:
    ran = lake("tools", "s")

    assert (ran.code, ran.err) == (0, "")
    # A repeat and a corrected failure: 0.5 + 0.5 of 4 calls; (400 * 0.5 + 400 * 0.5) / 4 tokens,
    # of 0.09 / 1000 USD each.
    assert ran.out.splitlines()[:4] == [
        "s#baseline-1 of default: baseline, model-a, review, 2026-06-01 12:00 UTC",
        "effectiveness 75.0 of 100: 1 of 4 calls lost",
        "counted: failed, corrected, repeated; unknown: wasted (no results logged)",
        "results of lost calls: at least 100 tokens, 0.0090 USD",
    ]
    assert "Read 2 0 0 1 0.5 10 10 800".split() in lines(ran)
    assert "Grep 1 1 1 0 0.5 10 10 400".split() in lines(ran)
    assert '2 12:00:03 1 100 Read {"file_path": "src/cart.py"}'.split() in lines(ran)
    (failed,) = (line for line in ran.out.splitlines() if line.endswith("No such file"))
    assert failed.split()[:3] == ["3", "12:00:04", "Grep"]
    (corrected,) = [line for line in ran.out.splitlines() if "Grep  " in line and "Bash (" in line]
    assert "Bash (call 4)" in corrected
    assert "\x1b" not in ran.out
    assert "Failing loops" not in ran.out
    assert "asted" not in ran.out.partition("By tool")[2]  # unknown in every line


def test_loops_and_unused_results_are_shown(lake: Program) -> None:
    ran = lake("tools", CODEX)

    assert "effectiveness 9.1 of 100, below 60: 10 of 11 calls lost" in ran.out
    assert '1-4 21:09:08 4 exec_command {"cmd": "make check"}'.split() in lines(ran)
    assert "Not used by a later call. Replies are not logged: one may have used them" in ran.out


def test_the_fleet_by_tool_and_by_model_worst_first(lake: Program) -> None:
    usual = lake("tools", "--fleet").out
    assert usual.startswith("9 sessions with tool calls from 2026-10-25 to 2026-11-21. ")
    ran = lake("tools", "--fleet", "--date", "2026-06-01..2026-11-21")
    assert ran.out.startswith("10 sessions with tool calls from 2026-06-01 to 2026-11-21. ")
    tools, models = ran.out.split("By model")
    first = tools.split("─\n")[1].splitlines()[0].split()
    # exec_command: see the golden reports; four sessions more, without a loss.
    assert first[0] == "exec_command"
    assert "Read 2 0.5 25.0 0 0 1 2 of 2 50 0.00 0.01 1 of 1".split() in lines(Ran(0, tools, ""))
    # 1 of 4 calls of 0.09 USD.
    assert "model-a 4 1 25.0 1 1 1 4 of 4 100 0.01 0.02 1 of 1".split() in lines(Ran(0, models, ""))


def test_a_session_without_known_outcomes_and_one_with_many_calls(program: Program) -> None:
    denied_call = [claude("tool_decision", 1, session__id="d", tool_name="Read", decision="reject")]
    many = [result(n, "Read", "true", {"file_path": "a"}) for n in range(22)]
    program.land("logs.jsonl", line(*denied_call) + line(*many))
    program("ingest")
    program("build")

    denied = program("tools", "d").out
    assert "effectiveness unknown: no call with a known outcome" in denied
    assert "calls not counted: 1 denied" in denied
    assert "1 more not shown: use --format json" in program("tools", "s").out


def test_conflicting_options_are_refused(program: Program) -> None:
    for arguments, message in (
        ((), "name one SESSION, or give --fleet"),
        (("s", "--fleet"), "name one SESSION, or give --fleet"),
        (("s", "--date", "2026-06-01"), "--date requires --fleet"),
    ):
        ran = program("tools", *arguments)
        assert ran.code == 2
        assert message in " ".join(ran.err.replace("│", " ").split())
