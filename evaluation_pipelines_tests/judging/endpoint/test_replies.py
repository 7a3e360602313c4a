"""Answers of endpoints: every shape that has been seen, and some that should not occur."""

import json
from typing import Any

import pytest

from evaluation_pipelines.judging.domain.budget import BatchPrice, Price, Usage
from evaluation_pipelines.judging.domain.prompt.messages import Reply
from evaluation_pipelines.judging.endpoint.batch_api import (
    BatchResult,
    read_result,
    request_line,
)
from evaluation_pipelines.judging.endpoint.replies import (
    Fault,
    JudgeCallError,
    ParsedCompletion,
    one_line_excerpt,
    read_completion,
    status_error,
)


def completion(usage: Any = None, **message: Any) -> bytes:
    """A body with one choice."""
    choice = {"message": message, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


KEY = "sk-" + "test-0123456789abcdef"


def read(body: bytes, max_characters: int = 1_000) -> ParsedCompletion:
    """Parse an answer to a request with ``KEY``."""
    return read_completion(body, max_characters, KEY)


def finished(reason: str, content: str = "") -> bytes:
    return b'{"choices":[{"message":{%s},"finish_reason":"%s"}]}' % (
        content.encode(),
        reason.encode(),
    )


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (completion(content="85"), Reply("85", "stop")),
        # A refusal has its own reason; an answer without text is an empty reply.
        (completion(content=None, refusal="I will not."), Reply("I will not.", "refusal")),
        (completion(content=[{"type": "refusal", "refusal": "No."}]), Reply("No.", "refusal")),
        (completion(content=None), Reply("", "stop")),
        (b'{"choices":[{"message":{}}]}', Reply("", "unknown")),
        # Parts are joined, without thoughts.
        (
            completion(content=[{"type": "text", "text": "Weak.\n"}, {"text": "57"}]),
            Reply("Weak.\n57", "stop"),
        ),
        (
            completion(content=[{"type": "output_text", "text": "57", "annotations": []}]),
            Reply("57", "stop"),
        ),
        (
            completion(content=[{"type": "thinking", "thinking": [], "text": "9"}, {"text": "57"}]),
            Reply("57", "stop"),
        ),
        (completion(content=["Weak.\n", "57"]), Reply("Weak.\n57", "stop")),
        (completion(content="<think>\n100\n</think>\nWeak.\n57"), Reply("Weak.\n57", "stop")),
        # What no database stores is replaced, and nothing repeats the key.
        (finished("\\u0000\\nstop"), Reply("", "stop")),
        (
            finished("stop", '"content":"a\\ud83d b\\u0000 \\ud83d\\ude00"'),
            Reply("a\ufffd b\ufffd \N{GRINNING FACE}", "stop"),
        ),
        (finished(f"no {KEY}", f'"content":"Bad {KEY}"'), Reply("Bad [key]", "no [key]")),
    ],
)
def test_text_and_finish_reason_are_the_reply(body: bytes, reply: Reply) -> None:
    assert read(body).reply == reply


def used(
    prompt: object, completion: object = 1, total: int | None = None, reasoning: int = 0, **of: int
) -> dict[str, Any]:
    """Return a usage as OpenAI reports it; ``of`` are details of the prompt."""
    told = {"prompt_tokens": prompt, "completion_tokens": completion}
    if reasoning:
        told["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return told | {"prompt_tokens_details": of or None, "total_tokens": total}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        # 900 of the 1,000 came from the cache
        (used(1000, 50, cached_tokens=900), Usage(100, 900, 50)),
        (used(1000, 50, cached_tokens=0, cache_write_tokens=800), Usage(1000, 0, 50, 800)),
        ({"prompt_tokens": 7, "completion_tokens": 0}, Usage(7, 0, 0)),
        (used(7), Usage(7, 0, 1)),
        # impossible: more from the cache than there was
        (used(10, cached_tokens=11, cache_write_tokens=5), Usage(0, 10, 1, 0)),
        # 700 for the reasoning, by the total on top of the 5
        (used(12, 5, 717, reasoning=700), Usage(12, 0, 705, 0, 700)),
        (used(12, 705, 717, reasoning=700), Usage(12, 0, 705, 0, 700)),
        *((told, None) for told in (None, used(None), used(-1), used(10**30), "many")),
    ],
)
def test_tokens_are_read_if_they_are_reported_and_unknown_otherwise(
    reported: object, expected: Usage | None
) -> None:
    found = read(completion(reported, content="85"))

    assert found.usage == expected
    assert found.reply.text == "85"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "is not JSON. It starts with ''"),
        (b"<html>Sign in", "is not JSON. It starts with '<html>Sign in'"),
        (b'{"choices":[{"message":{"con', "is not JSON. It starts with"),
        (b"\xff\xfe{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"null", "is not a chat completion: Expected `object`"),
        (b"{}", "is not a chat completion: Object missing required field `choices`"),
        (b'{"choices":null}', "Expected `array`, got `null` - at `$.choices`"),
        (b'{"choices":[]}', "Expected `array` of length >= 1"),
        (b'{"choices":[{"message":null}]}', "Expected `object`, got `null`"),
        (b'{"choices":[{"message":{"content":5}}]}', "Expected `str | array | null`, got `int`"),
        (b'{"error":{"message":"the model\\nis gone"}}', "contains an error: the model is gone"),
        (b'{"error":"gone"}', "contains an error: gone"),
    ],
)
def test_an_unreadable_answer_is_retriable_and_may_have_been_charged(
    body: bytes, reason: str
) -> None:
    with pytest.raises(JudgeCallError) as raised:
        read(body)

    error = raised.value
    assert reason in error.reason
    assert (error.fault, error.retriable) == (Fault.UNREADABLE, True)
    assert error.maybe_charged
    assert error.cost_usd is None


@pytest.mark.parametrize(
    ("code", "fault", "retriable"),
    [
        (429, Fault.RATE_LIMITED, True),
        (502, Fault.SERVER_ERROR, True),
        (400, Fault.REJECTED, False),
    ],
)
def test_an_error_of_the_model_behind_a_gateway_is_classified_by_its_own_code(
    code: int, fault: Fault, *, retriable: bool
) -> None:
    body = json.dumps({"error": {"code": code, "message": "upstream"}}).encode()

    with pytest.raises(JudgeCallError, match=f"answered {code}: upstream") as raised:
        read(body)

    assert (raised.value.fault, raised.value.retriable) == (fault, retriable)


@pytest.mark.parametrize(
    ("status", "body", "fault", "retriable", "maybe_charged"),
    [
        (408, None, Fault.SERVER_ERROR, True, True),
        (409, None, Fault.SERVER_ERROR, True, False),
        (429, None, Fault.RATE_LIMITED, True, False),
        (429, {"code": "insufficient_quota"}, Fault.MISCONFIGURED, False, False),
        (500, None, Fault.SERVER_ERROR, True, True),
        (503, "down for maintenance", Fault.SERVER_ERROR, True, True),
        (529, {"type": "overloaded_error"}, Fault.SERVER_ERROR, True, True),
        (307, None, Fault.MISCONFIGURED, False, False),
        (401, None, Fault.MISCONFIGURED, False, False),
        (402, None, Fault.MISCONFIGURED, False, False),
        (404, None, Fault.MISCONFIGURED, False, False),
        (405, None, Fault.MISCONFIGURED, False, False),
        (400, None, Fault.REJECTED, False, False),
        (403, None, Fault.MISCONFIGURED, False, False),
        (422, {"detail": [{"msg": "bad"}]}, Fault.REJECTED, False, False),
        (413, None, Fault.TOO_LONG, False, False),
        (400, {"code": "context_length_exceeded"}, Fault.TOO_LONG, False, False),
        (400, {"message": "prompt is too long: 9 > 8"}, Fault.TOO_LONG, False, False),
        (400, {"message": "9 tokens; the model context is 8"}, Fault.TOO_LONG, False, False),
        (400, {"code": "content_filter", "message": "no"}, Fault.CONTENT_FILTER, False, False),
        (403, {"message": "blocked by moderation"}, Fault.CONTENT_FILTER, False, False),
    ],
)
def test_each_status_has_its_fault(
    status: int, body: object, fault: Fault, *, retriable: bool, maybe_charged: bool
) -> None:
    error = status_error(status, body, None, None)

    assert (error.fault, error.retriable, error.maybe_charged) == (fault, retriable, maybe_charged)
    assert error.reason.startswith(f"the endpoint answered {status}")


@pytest.mark.parametrize(
    "message",
    [
        # Anthropic
        (
            "input length and `max_tokens` exceed context limit: 198000 + 4000 > 200000, decrease "
            "input length or `max_tokens` and try again"
        ),
        # TGI, and what serves its models
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 5000",
        # vLLM
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum "
            "context length is 4096 tokens and your request has 99 input tokens (4000 > 4096 - 99)."
        ),
        (
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096. "
            "Make sure that `max_model_len` is no smaller than the number of text tokens."
        ),
        # llama.cpp, llama-cpp-python
        "request (5000 tokens) exceeds the available context size (4096 tokens)",
        "Requested tokens (5000) exceed context window of 2048",
        # Ollama
        "input exceeds maximum context length and cannot be truncated further",
        # OpenAI
        (
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
            "346520 tokens."
        ),
        # Gemini, Vertex
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        (
            "Unable to submit request because the input token count is 34232 but model only "
            "supports up to 32768."
        ),
        "Request payload size exceeds the limit: 20971520 bytes.",
        # Mistral
        (
            "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length"
        ),
        # Cohere, xAI, Moonshot, Qwen, watsonx, Bedrock
        "too many tokens: total number of tokens in the prompt cannot exceed 4081",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Your request exceeded model token limit: 65536",
        "Range of input length should be [1, 30720]",
        "the number of input tokens 4097 cannot exceed the total tokens limit 4096",
        "Malformed input request: expected maxLength: 51200, actual: 60000",
    ],
)
def test_each_server_has_its_own_words_for_a_session_that_is_too_long(message: str) -> None:
    assert status_error(400, {"message": message}, None, None).fault is Fault.TOO_LONG
    assert status_error(422, message, None, None).fault is Fault.TOO_LONG


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 4000. This model supports at most 1000 completion tokens",
        "Unrecognized request argument supplied: max_completion_tokens",
        "max_tokens: 4000 > 1000, which is the maximum allowed number of output tokens",
    ],
)
def test_a_limit_of_the_reply_is_not_about_the_session(message: str) -> None:
    assert status_error(400, {"message": message}, None, None).fault is Fault.REJECTED


def test_an_error_repeats_the_message_of_the_endpoint_without_the_key() -> None:
    error = status_error(401, {"message": "key sk-12345 is wrong"}, None, "sk-12345")

    assert error.reason == (
        "the endpoint answered 401: key [key] is wrong; check OPENAI_BASE_URL, OPENAI_API_KEY, "
        "EVAL_JUDGE_MODEL and the account"
    )


@pytest.mark.parametrize(
    "body",
    [
        f'{{"error":{{"code":401,"message":"Incorrect API key: {KEY}"}}}}',
        f'{{"error":{{"message":"Incorrect API key: {KEY}"}}}}',
        f'{{"error":"Incorrect API key: {KEY}"}}',
        f'data: {{"error":{{"code":401,"message":"Incorrect API key: {KEY}"}}}}',
        f"<html>Incorrect API key: {KEY}",
        " " * 1_590 + KEY,  # the excerpt ends within it
    ],
)
def test_no_error_with_status_200_repeats_the_key(body: str) -> None:
    with pytest.raises(JudgeCallError) as raised:
        read(body.encode())

    assert "[key]" in raised.value.reason
    assert KEY[:10] not in raised.value.reason


def test_an_excerpt_is_one_short_line_without_control_characters() -> None:
    assert one_line_excerpt("a\nb\t\x1b[31mc\u202ed") == "a b [31mc d"
    assert one_line_excerpt("x" * 201) == "x" * 200 + " ..."
    assert one_line_excerpt(b"\xff" * 10_000) == "\N{REPLACEMENT CHARACTER}" * 200 + " ..."


def test_a_request_is_one_line_known_by_scoring_and_turn() -> None:
    line = request_line("5f-1", "score-1-reminder", {"model": "m", "messages": ["a\nb"]})
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "custom_id": "5f-1:score-1-reminder",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": ["a\nb"]},
    }


@pytest.mark.parametrize(
    ("line", "result"),
    [
        (
            '{"custom_id": "5f:score-1", "response": {"status_code": 200, "body": {"a": 1}}}',
            BatchResult("5f", "score-1", 200, {"a": 1}),
        ),
        (
            '{"custom_id": "5f:score-1", "response": null, "error": {"message": "expired"}}',
            BatchResult("5f", "score-1", None, reason="expired"),
        ),
        (
            '{"custom_id": "5f:score-1", "response": {"status_code": "200"}, "error": "gone"}',
            BatchResult("5f", "score-1", None, reason="no answer in the batch"),
        ),
        ('{"custom_id": "5f", "response": null}', None),
        ('{"custom_id": 5}', None),
        ("[]", None),
        ("not json", None),
        ('{"response": {}}', None),
    ],
)
def test_a_line_that_is_no_result_is_recognized(line: str, result: BatchResult | None) -> None:
    assert read_result(line) == result
    assert result is None or result.custom_id == f"{result.score_id}:{result.turn}"


def test_a_request_in_a_batch_costs_a_share_of_the_direct_price() -> None:
    # A million tokens each at 1 and 10 US dollars: 11, half of it is 5.5.
    used = Usage(1_000_000, 0, 1_000_000)
    assert BatchPrice(Price(1.0, 10.0), 0.5).cost_usd(used) == 5.5
    assert BatchPrice(_Unknown(), 0.5).cost_usd(used) is None


class _Unknown:
    def cost_usd(self, usage: Usage) -> float | None:
        return None
