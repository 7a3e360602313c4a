"""Results of tools that are told with the next call of the model."""

import json

from evaluation_pipelines.telemetry.domain.attributes import AnyValue, KeyValue, plain_attribute
from evaluation_pipelines.telemetry.domain.dialects.genai import MESSAGES, tool_results
from evaluation_pipelines.telemetry.domain.otlp import LogRecord


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

    assert {each.key: plain_attribute(each.value) for each in result.attributes or ()} == {
        "gen_ai.conversation.id": "c",
        "user.id": "u1",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.id": "t1",
        "gen_ai.tool.call.arguments": '{"city": "Oslo"}',
    }
