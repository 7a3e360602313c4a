"""Cline by a file that was made after its sources: a task of the SDK, and one of before."""

import pytest

from evaluation_pipelines_tests.telemetry.captures import REPORTED, Row, stored
from evaluation_pipelines_tests.workplace import Workplace

SDK = {
    "source_cli": "cline",
    "service_version": "4.2.0",
    "organization_id": "org-7",
    "user_email": "ada@orchard.example",
    "account_id": "usr-7",
    "prompts": 1,
    "tools_ok": 3,  # read_files, docs__search, and search_codebase of the sub-agent
    "tools_failed": 1,  # run_commands
    "tools_denied": None,
    "tools_unknown": 0,
    "api_requests": 3,
    "api_errors": 1,
    "input_tokens": 350,  # 200 + 100 + 50
    "output_tokens": 170,  # 50 + 80 + 40
    "cache_read_tokens": 2500,  # 0 + 1200 + 1300
    "cache_creation_tokens": 1000,
    "total_tokens": 4020,  # 350 + 170 + 2500 + 1000
    "cost_usd": pytest.approx(0.012),  # 0.006 + 0.004 + 0.002
    "models": ["claude-sonnet-4-5"],
    "active_s": 16,  # from 1 s to 17 s; the thumb after 900 s is no work
    "duration_s": 17,
    "status": "completed",
    "content_level": "none",
    "autonomy": 8,  # 4 calls, 1 prompt: 4 / 1 * 2
}
OLD = {
    "account_id": "machine-9",
    "prompts": None,
    "tools_ok": 0,
    "tools_failed": 1,  # the MCP call, whose end is told
    "tools_denied": 1,  # execute_command
    "tools_unknown": 2,  # read_file and write_to_file, which were only allowed
    "api_requests": 2,
    "input_tokens": 600,  # 500 + 100
    "output_tokens": 80,  # 60 + 20
    "cache_read_tokens": 300,
    "cache_creation_tokens": 0,
    "cost_usd": None,  # 0.01, and one without a known price
    "tool_mix": [{"key": "mcp", "value": 1}],
    "autonomy": None,
}


@pytest.fixture
def rows(workplace: Workplace) -> dict[str, Row]:
    workplace.land("cline.jsonl", (REPORTED / "cline.jsonl").read_bytes())
    counts = workplace.ingest().counts
    # Two records without a task; two parts of a turn, and the start of an MCP call, told again.
    assert (counts.unattributed, counts.repeated_records) == (2, 3)
    assert (counts.unknown_records, counts.quarantined, counts.value_anomalies) == (0, 0, 0)
    workplace.build()
    return stored(workplace)


def test_tasks_are_sessions_with_their_right_numbers(
    rows: dict[str, Row], workplace: Workplace
) -> None:
    assert rows.keys() == {"sdk-task-1", "01JD0LEGACYTASK"}
    assert {name: rows["sdk-task-1"][name] for name in SDK} == SDK
    assert {name: rows["01JD0LEGACYTASK"][name] for name in OLD} == OLD
    calls = workplace.events().filter(event_name="tool_result").sort("event_time")
    assert calls.select("tool_name", "tool_class", "subagent").rows() == [
        ("read_files", "read", None),
        ("run_commands", "shell", None),
        ("mcp__docs__search", "mcp", None),
        ("search_codebase", "search", "agent_2"),
        ("read_file", "read", None),
        ("mcp__docs__search", "mcp", None),
        ("write_to_file", "write", None),
    ]
