"""Events of the GenAI conventions, and of VS Code Copilot Chat."""

import json
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.attributes import AnyValue, KeyValue, plain_attribute
from evaluation_pipelines.telemetry.domain.dialects.copilot.telemetry import COPILOT_CHAT
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.genai import GENAI, MESSAGES, tool_results
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.otlp import LogRecord
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one
from evaluation_pipelines_tests.world import NOON_NS, attributes, request

INFERENCE = "gen_ai.client.inference.operation.details"
SCOPE = "an.instrumentation"


def record(
    name: str,
    values: dict[str, object] | None = None,
    second: float = 0,
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a log record ``second`` seconds after noon; an attribute of None is omitted."""
    sent = {"event.name": name, "gen_ai.conversation.id": "c-1", **(values or {})}
    return {
        "timeUnixNano": str(NOON_NS + round(second * 1000) * 1_000_000),
        "body": body or {"stringValue": "a sentence about it"},
        "attributes": attributes({k: v for k, v in sent.items() if v is not None}),
    }


def sent(*records: dict[str, Any], scope: str = SCOPE, **resource: object) -> bytes:
    named = {key.replace("__", "."): value for key, value in resource.items()}
    return json.dumps(request(records, {"service.name": "app", **named}, scope)).encode()


def event(name: str, **values: object) -> dict[str, Any]:
    """Return the event of one record; ``__`` in a key is a dot."""
    named = {key.replace("__", "."): value for key, value in values.items()}
    return read_one(sent(record(name, named)))


def structured(values: dict[str, Any]) -> dict[str, Any]:
    """Return an OTLP body of named values; a value is a string or another such body."""
    pairs = [
        {
            "key": key,
            "value": structured(value) if isinstance(value, dict) else {"stringValue": value},
        }
        for key, value in values.items()
    ]
    return {"kvlistValue": {"values": pairs}}


# -- recognition and names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        (INFERENCE, "api_request"),
        ("gen_ai.user.message", "user_prompt"),
        ("gen_ai.choice", "assistant_response"),
        ("gen_ai.tool.message", "tool_result"),
        ("gen_ai.system.message", "other"),
        ("gen_ai.evaluation.result", "evaluation"),
        ("gen_ai.an_event_of_tomorrow", "other"),
        ("copilot_chat.session.start", "session_start"),
        ("copilot_chat.tool.call", "tool_result"),
        ("copilot_chat.summarization", "compaction"),
        ("copilot_chat.agent.turn", "other"),
    ],
)
def test_every_event_has_a_canonical_name_and_its_source_name(name: str, canonical: str) -> None:
    found = event(name)
    assert (found["source_cli"], found["event_name"]) == ("genai", canonical)
    assert found["source_event_name"] == name.removeprefix("gen_ai.").removeprefix("copilot_chat.")


def test_an_event_with_only_a_top_level_name_is_recognized() -> None:
    named, unnamed = record(INFERENCE), record(INFERENCE, {"event.name": None})
    as_well = record("gen_ai.choice") | {"eventName": INFERENCE}
    names = [
        read_one(sent(record))["source_event_name"]
        for record in (named, unnamed | {"eventName": INFERENCE}, as_well)
    ]
    assert names == ["client.inference.operation.details"] * 2 + ["choice"]


@pytest.mark.parametrize("name", ["event src/telemetry.rs:925", "genai.choice", 5, ["gen_ai."]])
def test_any_other_top_level_name_is_ignored(name: object) -> None:
    batch = read(sent(record(INFERENCE, {"event.name": None}) | {"eventName": name}))
    assert (batch.events.height, batch.counts.unknown_records) == (0, 1)


@pytest.mark.parametrize(
    "dialect",
    [dialect for dialect in DIALECTS if dialect not in (COPILOT_CHAT, GENAI)],
    ids=lambda dialect: dialect.source_cli,
)
def test_genai_events_of_a_program_with_a_dialect_belong_to_that_dialect(dialect: Dialect) -> None:
    batch = read(sent(record(INFERENCE), scope=dialect.scopes[0]))
    assert "genai" not in batch.events["source_cli"].to_list()
    assert DIALECTS[-1] is GENAI


def test_the_session_is_the_conversation_or_else_that_of_the_resource() -> None:
    window = {"session__id": "window-1"}
    assert read_one(sent(record(INFERENCE), **window))["session_id"] == "c-1"
    call = record("copilot_chat.tool.call", {"gen_ai.conversation.id": None})
    assert read_one(sent(call, **window))["session_id"] == "window-1"
    batch = read(sent(call))
    assert (batch.events.height, batch.counts.unattributed) == (0, 1)
    assert batch.names == {("genai", "copilot_chat.tool.call"): 1}


def test_the_agent_is_the_one_of_the_conventions() -> None:
    found = event(INFERENCE, gen_ai__agent__id="a-1", gen_ai__agent__name="Reviewer")
    assert (found["agent_id"], found["subagent"]) == ("a-1", None)


# -- calls to the model ----------------------------------------------------------------------------

USAGE: dict[str, object] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-5",
    "gen_ai.response.model": "gpt-5-2026-01-01",
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.usage.input_tokens": 1500,
    "gen_ai.usage.output_tokens": 250,
    "gen_ai.usage.cache_read.input_tokens": 1000,
    "gen_ai.usage.cache_creation.input_tokens": 200,
    "gen_ai.usage.reasoning.output_tokens": 50,
}
TOKENS = (
    "input_tokens output_tokens cache_read_tokens cache_creation_tokens reasoning_tokens".split()
)


def inference(**changes: object) -> dict[str, Any]:
    """Return the event of a call; a change of None omits the attribute."""
    return event(INFERENCE, **{**USAGE, **changes})


def test_the_details_of_an_inference_are_the_call() -> None:
    found = inference()
    # 1500 - 1000 - 200 of the input were not in the cache
    assert [found[name] for name in TOKENS] == [300, 250, 1000, 200, 50]
    assert (found["model"], found["request_id"]) == ("gpt-5-2026-01-01", "chatcmpl-1")
    # a millionth of a dollar for each of 300 + 250 + 1000 + 200 tokens
    assert (found["cost_usd"], found["cost_source"]) == (pytest.approx(0.00175), "priced")
    assert json.loads(found["attributes"])["gen_ai.operation.name"] == "chat"


@pytest.mark.parametrize(
    ("changes", "column", "value"),
    [
        ({"gen_ai.response.model": None}, "model", "gpt-5"),
        ({}, "provider", "anthropic"),  # by the price table
        ({"gen_ai.system": "openai"}, "provider", "openai"),
        ({"gen_ai.provider.name": "azure", "gen_ai.system": "openai"}, "provider", "azure"),
        ({"gen_ai.usage.cache_read.input_tokens": None}, "cache_read_tokens", 0),
        ({"gen_ai.usage.cache_read.input_tokens": None}, "input_tokens", 1300),
        ({"gen_ai.usage.cache_read.input_tokens": 5000}, "input_tokens", None),
        (
            {"gen_ai.usage.input_tokens": None, "gen_ai.usage.prompt_tokens": 1300},
            "input_tokens",
            100,
        ),
        (
            {"gen_ai.usage.output_tokens": None, "gen_ai.usage.completion_tokens": "7"},
            "output_tokens",
            7,
        ),
        (
            {"gen_ai.usage.reasoning.output_tokens": None, "gen_ai.usage.reasoning_tokens": 3},
            "reasoning_tokens",
            3,
        ),
        ({"gen_ai.output.messages": ["Done."]}, "content", '["Done."]'),
    ],
)
def test_every_spelling_is_read(changes: dict[str, object], column: str, value: object) -> None:
    assert inference(**changes)[column] == value


def test_a_call_that_ended_in_an_error_is_an_api_error() -> None:
    found = inference(**{"error.type": "TimeoutError", "error.message": "after 60 s"})
    assert (found["event_name"], found["cost_source"]) == ("api_error", None)
    assert (found["error_type"], found["error"]) == ("TimeoutError", "after 60 s")


@pytest.mark.parametrize("operation", ["invoke_agent", "execute_tool", "invoke_workflow"])
def test_an_operation_that_contains_calls_is_no_call(operation: str) -> None:
    found = inference(**{"gen_ai.operation.name": operation})
    assert (found["event_name"], found["cost_source"]) == ("other", None)


# -- messages, as conventions up to 1.36 sent them -------------------------------------------------


def test_a_message_has_its_text_in_the_body() -> None:
    message = record("gen_ai.user.message", body=structured({"role": "user", "content": "Fix it"}))
    found = read_one(sent(message))
    assert (found["event_name"], found["content"]) == ("user_prompt", "Fix it")
    assert found["attributes"] is None


def test_a_message_repeated_with_a_later_call_is_the_same_event() -> None:
    body = structured({"content": "Fix it"})
    again = [record("gen_ai.user.message", second=second, body=body) for second in (0, 9)]
    other = record("gen_ai.user.message", body=structured({"content": "And this"}))
    elsewhere = record("gen_ai.user.message", {"gen_ai.conversation.id": "c-2"}, body=body)
    ids = read(sent(*again, other, elsewhere)).events["event_id"].to_list()
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_a_tool_message_has_the_id_of_its_call_and_no_outcome() -> None:
    body = structured({"id": "call_1", "content": {"temperature": "57"}})
    found = read_one(sent(record("gen_ai.tool.message", body=body)))
    assert (found["tool_use_id"], found["content"]) == ("call_1", '{"temperature":"57"}')
    assert (found["success"], found["success_source"]) == (None, None)


def test_a_choice_is_the_reply_and_keeps_its_other_values() -> None:
    body = structured({"finish_reason": "stop", "message": {"content": "Done."}})
    found = read_one(sent(record("gen_ai.choice", body=body)))
    assert (found["event_name"], found["content"]) == ("assistant_response", "Done.")
    assert json.loads(found["attributes"])["body"]["finish_reason"] == "stop"


def test_a_reply_sent_back_to_the_model_repeats_a_choice() -> None:
    batch = read(sent(record("gen_ai.assistant.message", body=structured({"content": "Done."}))))
    assert (batch.events.height, batch.counts.repeated_records) == (0, 1)


# -- VS Code Copilot Chat --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "tool_type", "tool_class"),
    [
        ("read_file", "builtin", "read"),
        ("copilot_readFile", "builtin", "read"),
        ("copilot_findTextInFiles", "builtin", "search"),
        ("manage_todo_list", "builtin", "other"),
        ("replace_string_in_file", "builtin", "edit"),
        ("create_file", "builtin", "write"),
        ("run_in_terminal", "builtin", "shell"),
        ("fetch_webpage", "builtin", "web"),
        ("runSubagent", "builtin", "agent"),
        ("mcp_github_create_issue", "mcp", "mcp"),
        (None, "builtin", "other"),
    ],
)
@pytest.mark.parametrize("success", [True, False])
def test_a_tool_call_of_copilot_chat(
    tool: str | None, tool_type: str, tool_class: str, success: bool
) -> None:
    found = event(
        "copilot_chat.tool.call",
        gen_ai__tool__name=tool,
        duration_ms=35,
        success=success,
        error__type=None if success else "FileNotFoundError",
    )
    assert (found["tool_name"], found["tool_type"], found["tool_class"]) == (
        tool,
        tool_type,
        tool_class,
    )
    assert (found["success"], found["success_source"]) == (success, "reported")
    assert found["duration_ms"] == 35.0
    assert found["error_type"] == (None if success else "FileNotFoundError")


# -- any values -----------------------------------------------------------------------------------


def test_a_result_has_the_arguments_of_its_call_and_nothing_of_the_answer_of_the_model() -> None:
    asked = {"type": "tool_call", "id": "t1", "name": "get_weather", "arguments": {"city": "Oslo"}}
    told = {"type": "tool_call_response", "id": "t1", "response": "blizzard"}
    messages = [{"role": "assistant", "parts": [asked]}, {"role": "tool", "parts": [told]}]
    sent = {
        MESSAGES: json.dumps(messages),
        "gen_ai.conversation.id": "c",
        "gen_ai.response.id": "r2",
        "server.address": "models.example",
        "user.id": "u1",
    }

    (result,) = tool_results(
        LogRecord([KeyValue(name, AnyValue(value)) for name, value in sent.items()])
    )

    assert {
        attribute.key: plain_attribute(attribute.value) for attribute in result.attributes or ()
    } == {
        "gen_ai.conversation.id": "c",
        "user.id": "u1",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.id": "t1",
        "gen_ai.tool.call.arguments": '{"city": "Oslo"}',
    }
