"""What people made of the work: kept under its own name, with what was sent."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.dialects.records import record, sent_by
from evaluation_pipelines_tests.telemetry.domain.reading import read_one

CLAUDE, COPILOT = "com.anthropic.claude_code.events", "copilot-chat"


@pytest.mark.parametrize(
    ("scope", "sent", "name", "values"),
    [
        (CLAUDE, "claude_code.feedback_survey", "feedback_survey", {"response": "good"}),
        (COPILOT, "copilot_chat.edit.feedback", "edit.feedback", {"outcome": "rejected"}),
        (COPILOT, "copilot_chat.edit.hunk.action", "edit.hunk.action", {"lines_added": 3}),
        (COPILOT, "copilot_chat.edit.survival", "edit.survival", {"time_delay_ms": 300000}),
        (COPILOT, "copilot_chat.inline.done", "inline.done", {"accepted": True}),
        (COPILOT, "copilot_chat.user.feedback", "user.feedback", {"rating": "negative"}),
        ("qwen-code", "qwen-code.user_feedback", "user_feedback", {"rating": 3}),
        ("com.opencode", "commit", "commit", {"sha": "0f1e2d"}),
    ],
)
def test_an_outcome_keeps_its_name_and_attributes(
    scope: str, sent: str, name: str, values: dict[str, Any]
) -> None:
    event = read_one(sent_by(scope, record(sent, **values)))
    assert (event["event_name"], event["source_event_name"]) == ("outcome", name)
    assert json.loads(event["attributes"]) == values
    assert event["content"] is None


@pytest.mark.parametrize("tool_input", [None, '{"command": "git commit -m x"}'])
def test_a_commit_keeps_its_id(tool_input: str | None) -> None:
    details = {"full_command": "git commit -m x", "git_commit_id": "0f1e2d"}
    sent = record(
        "tool_result",
        tool_name="Bash",
        success="true",
        tool_parameters=json.dumps(details),
        tool_input=tool_input,
    )
    event = read_one(sent_by(CLAUDE, sent))
    assert (event["event_name"], event["success"]) == ("tool_result", True)
    assert json.loads(event["attributes"]) == {"git_commit_id": "0f1e2d"}
