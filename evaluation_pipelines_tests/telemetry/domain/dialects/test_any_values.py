"""Values that no program should send, in every attribute of every dialect: records are kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.attributes import BROKEN
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines_tests.telemetry.domain.dialects.records import record, sent_by
from evaluation_pipelines_tests.telemetry.domain.reading import read

TEXTS = st.text() | st.sampled_from(
    (
        *("", "NaN", "-1", "9" * 30, "1e400", "true", "builtin", "[[[", "{", "v", "/root", "once"),
        *("Bash", "bash", "exec", "shell", "mcp_", "mcp__", "mcp_tool", "reject", "redacted"),
        *("chat", "response.completed", "Exit code 1", f"Exit code: {'9' * 30}\n"),
        r'{"mcp_server_name": "\ud83d", "mcp_tool_name": "x"}',
        *('{"full_command": 5}', '{"cmd": 5}', '{"command": [1]}'),
        *('{"metadata": {"exit_code": 1e400}}', f'{{"metadata": {{"exit_code": {"9" * 30}}}}}'),
        "The user rejected permission to use this specific tool call",
    )
)
PAIRS = st.dictionaries(st.sampled_from(("content", "id", "message", "exitCode")), TEXTS)
VALUES = st.one_of(
    TEXTS.map(lambda text: {"stringValue": text}),
    (st.integers() | TEXTS | st.floats()).map(lambda number: {"intValue": number}),
    (st.floats() | TEXTS).map(lambda number: {"doubleValue": number}),
    st.booleans().map(lambda value: {"boolValue": value}),
    st.lists(TEXTS).map(lambda texts: {"arrayValue": {"values": texts}}),
    PAIRS.map(
        lambda pairs: {
            "kvlistValue": {
                "values": [{"key": k, "value": {"stringValue": v}} for k, v in pairs.items()]
            }
        }
    ),
)
BESIDE_COLUMNS = (
    *("event.kind", "http.response.status_code", "endpoint", "decision", "arguments", "source"),
    *("agent_name", "tool_namespace", "mcp_server", "mcp_server_name", "tool_type", "metadata"),
    *("tool_parameters", "prompt_text", "command_source", "tool_token_count", "body"),
    *("agent.type", "agent.name", "gen_ai.operation.name"),
)
EACH = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda pattern: pattern.name_prefix)


@EACH
@given(data=st.data())
def test_a_record_is_kept_for_any_value_of_any_attribute_and_any_body(
    dialect: Dialect, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(dialect.event_names)))
    keys = st.sampled_from(sorted({*dialect.columns, *BESIDE_COLUMNS}))
    values: dict[str, Any] = data.draw(st.dictionaries(keys, VALUES))
    one = record(f"{dialect.name_prefix}{name}")
    one["attributes"] += [{"key": key, "value": value} for key, value in values.items()]
    one["body"] = data.draw(VALUES | st.just(one["body"]))
    batch = read(sent_by("", one))
    counts = batch.counts  # some records stand for several events
    assert counts.events + counts.repeated_records + counts.unattributed >= 1
    assert batch.quarantined == []


@EACH
def test_every_conversion_returns_null_for_an_empty_string(dialect: Dialect) -> None:
    """An empty attribute counts as missing."""
    for attribute, (_, convert) in dialect.columns.items():
        assert convert("") is None, attribute
        assert convert(None) is None, attribute
        assert convert("text") is not None or convert("text") is BROKEN, attribute
