"""Requests in the form that an endpoint accepts."""

import pytest

from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines.judging.endpoint.client import JudgeAnswer, JudgeClient
from evaluation_pipelines.judging.endpoint.limits import CircuitOpenError
from evaluation_pipelines.judging.endpoint.replies import Fault, JudgeCallError
from evaluation_pipelines.judging.endpoint.transport import RequestForm, names_field
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error, says
from evaluation_pipelines_tests.judging.endpoint.judge_calls import (
    QUESTION,
    Clock,
    ask,
    failed,
    run,
)

NO_TEMPERATURE = "Unsupported value: 'temperature' does not support 0.0 with this model."
NO_LIMIT = "Unrecognized request argument supplied: max_completion_tokens"


async def ask_twice(client: JudgeClient) -> tuple[JudgeAnswer, JudgeAnswer, int]:
    """Ask the same question twice; return the answers and the number of requests."""
    return await client.ask(QUESTION), await client.ask(QUESTION), client.requests_sent


@pytest.mark.parametrize(
    ("rejection", "without", "changed"),
    [
        (NO_TEMPERATURE, "temperature", {}),
        (NO_LIMIT, "max_completion_tokens", {"max_tokens": 4000}),
        ('[{"loc": ["body", "max_completion_tokens"]}]', "max_completion_tokens", {}),
        ("This server supports streaming only", "", {"stream": True}),
    ],
)
def test_a_rejected_field_is_tried_the_other_way_once_and_remembered(
    judge: JudgeEndpoint, rejection: str, without: str, changed: dict[str, object]
) -> None:
    judge.script(http_error(400, rejection))

    one, two, sent = run(judge, ask_twice)

    assert (one.attempts, two.attempts, sent) == (1, 1, 3)
    first, *others = [request.body for request in judge.requests]
    assert {"temperature", "max_completion_tokens"} <= first.keys()
    for body in others:
        assert without not in body
        assert body.items() >= changed.items()


def test_several_fields_are_rejected_one_after_another(judge: JudgeEndpoint) -> None:
    judge.script(http_error(400, NO_LIMIT), http_error(400, NO_TEMPERATURE))

    answer = ask(judge)

    assert answer.reply.text
    assert judge.requests[-1].body.keys() == {"model", "messages", "max_tokens"}


@pytest.mark.parametrize(
    "rejection",
    [
        NO_TEMPERATURE,
        "max_tokens is too large: 4000",
        "Invalid model name",
        "The model `judge-1` does not exist",
        "stream must be true",
    ],
)
def test_a_rejection_that_names_a_field_in_every_form_is_a_matter_of_configuration(
    judge: JudgeEndpoint, rejection: str
) -> None:
    judge.always(http_error(400, rejection))

    with pytest.raises(CircuitOpenError, match="400"):
        ask(judge)

    assert len(judge.requests) <= 2


@pytest.mark.parametrize("rejection", ["9 over max_tokens", NO_LIMIT, NO_TEMPERATURE])
def test_a_rejection_after_a_reply_is_about_one_call_whatever_it_names(
    judge: JudgeEndpoint, rejection: str
) -> None:
    judge.script(says("fine"), http_error(400, rejection), says("fine again"))

    async def three(client: JudgeClient) -> str:
        await client.ask(QUESTION)
        with pytest.raises(JudgeCallError) as caught:
            await client.ask(QUESTION)
        assert caught.value.fault is Fault.REJECTED
        return (await client.ask(QUESTION)).reply.text

    assert run(judge, three) == "fine again"
    first, *others = [request.body for request in judge.requests]
    assert others == [first, first]


@pytest.mark.parametrize("status", [400, 500])
def test_instructions_join_the_first_message_where_no_system_message_is_accepted(
    judge: JudgeEndpoint, status: int
) -> None:
    judge.script(http_error(status, "System role not supported"))

    ask(judge)

    roles = [
        [message["role"] for message in request.body["messages"]] for request in judge.requests
    ]
    assert roles == [["system", "user"], ["user"]]
    assert judge.requests[1].body["messages"][0]["content"] == "You judge.\n\nA secret transcript."


@pytest.mark.parametrize(
    ("error", "is_changed"),
    [
        ("System role not supported", True),
        ("upstream closed the stream", False),
        ("temperature of the rack is too high", False),
        ("max_tokens worker crashed", False),
    ],
)
def test_a_server_error_is_repeated_only_as_a_retry_whatever_its_words(
    judge: JudgeEndpoint, error: str, is_changed: bool
) -> None:
    judge.script(http_error(500, error))
    clock, asked = Clock(), []

    async def may_pay_again() -> bool:
        asked.append(len(judge.requests))
        return True

    answer = run(judge, lambda opened: opened.ask(QUESTION, may_pay_again), clock)

    assert (asked, clock.slept) == ([1], [1])
    assert answer.attempts == 2
    first, second = [request.body for request in judge.requests]
    assert (len(second["messages"]) == 1) is is_changed
    assert first.keys() == second.keys()


def test_messages_without_instructions_stay_as_they_are_and_a_temperature_may_be_left_out() -> None:
    body = RequestForm(has_system=False).body("m", (Message("user", "a"),), 10, None)

    messages = [{"role": "user", "content": "a"}]
    assert body == {"model": "m", "messages": messages, "max_completion_tokens": 10}


@pytest.mark.parametrize(
    "rejection", ["too many images", "content of message 3 is invalid", "not a supported language"]
)
def test_other_words_name_no_field(rejection: str) -> None:
    assert not names_field(rejection)
    assert RequestForm().alternative(rejection) is None


def test_a_server_that_always_streams_is_read(judge: JudgeEndpoint) -> None:
    events = (
        b'data: {"choices":[{"delta":{"role":"assistant","content":"We"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"ak.\\n57"},"finish_reason":null}]}\n\n'
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
        b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":5}}\n\n'
        b"data: [DONE]\n\n"
    )
    judge.script(Scripted(body=events, headers={"Content-Type": "text/event-stream"}))

    answer = ask(judge)

    assert answer.reply == Reply("Weak.\n57", "stop")
    assert answer.usage is not None
    assert answer.usage.output_tokens == 5


def test_a_stream_that_breaks_off_is_not_a_whole_reply(judge: JudgeEndpoint) -> None:
    judge.script(Scripted(body=b'data: {"choices":[{"delta":{"content":"57"}}]}\n\n'))

    assert ask(judge).reply == Reply("57", "error")


@pytest.mark.parametrize("usage", [{"prompt_tokens": 0, "completion_tokens": 0}, None])
def test_zeros_are_replaced_by_the_estimate_and_no_usage_stays_unknown(
    judge: JudgeEndpoint, usage: dict[str, int] | None
) -> None:
    judge.script(says("Weak.\n57", usage=usage))

    answer = ask(judge)

    assert answer.is_usage_estimated is (usage is not None)
    assert (answer.cost_usd is None) is (usage is None)
    assert usage is None or (answer.cost_usd or 0) > 0


def test_a_reply_beyond_any_limit_is_cut_and_no_verdict(judge: JudgeEndpoint) -> None:
    judge.script(says("x" * 3_000_000 + "\n57"))

    reply = ask(judge, max_output_tokens=100).reply

    assert len(reply.text) == 1_600
    assert reply.is_truncated


def test_a_body_of_many_megabytes_is_not_read(judge: JudgeEndpoint) -> None:
    judge.script(says("x" * 5_000_000))

    error = failed(judge)

    assert "more than 4 MB" in error.reason
    assert (error.retriable, error.maybe_charged) == (False, True)
