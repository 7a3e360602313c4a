"""Both turns of a judgment by a real model: protocol and bookkeeping, not quality."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

import pytest

from evaluation_pipelines.judging.domain.budget import Price
from evaluation_pipelines.judging.domain.conversation import (
    Conversation,
    FailedConversation,
    Judgment,
)
from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.rubric import Prompts, Rubric, render_prompts
from evaluation_pipelines.judging.domain.prompt.transcript import build_transcript
from evaluation_pipelines.judging.endpoint.client import (
    CallLimits,
    Endpoint,
    JudgeAnswer,
    JudgeClient,
)
from evaluation_pipelines.judging.endpoint.limits import CircuitOpenError
from evaluation_pipelines.judging.endpoint.replies import Fault, JudgeCallError
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines_tests.judging.domain.genuine import sessions_of
from evaluation_pipelines_tests.judging.domain.judging_builders import BOUNDARY
from evaluation_pipelines_tests.judging.local_model import (
    CONTEXT_TOKENS,
    LocalModel,
    NoLocalModelError,
    open_local_model,
)

pytestmark = pytest.mark.slow

Result = TypeVar("Result")

PRICE = Price(2.0, 8.0, 1.0)
MOST_OUTPUT = 60
MOST_TOKENS = 800


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalModel]:
    """A real model; the tests are skipped without one."""
    try:
        with open_local_model(tmp_path_factory.mktemp("model")) as opened:
            yield opened
    except NoLocalModelError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def our_model(model: LocalModel) -> LocalModel:
    """A model whose server reports cached tokens and rejects what it cannot do."""
    if not model.is_ours:
        pytest.skip(f"{model.base_url} may behave differently")
    return model


def run(model: LocalModel, work: Callable[[JudgeClient], Awaitable[Result]]) -> Result:
    """Run ``work`` with an open client."""
    limits = CallLimits(max_output_tokens=MOST_OUTPUT, timeout_s=120, concurrency=2)

    async def opened() -> Result:
        endpoint = Endpoint(model.base_url, model.name)
        async with JudgeClient(endpoint, limits, PRICE) as client:
            return await work(client)

    return asyncio.run(opened())


@cache
def rubric_and_prompts() -> tuple[Rubric, Prompts]:
    """Return a shipped rubric and its prompts about the longest captured Codex session."""
    events = max(sessions_of("codex"), key=len)
    transcript = build_transcript(events, "full", MOST_TOKENS, partial(redact, personal=("email",)))
    rubric = load_rubrics(None)["agent-methodology"]
    return rubric, render_prompts(rubric, rubric.criteria, transcript, BOUNDARY)


async def both_turns(client: JudgeClient) -> tuple[JudgeAnswer, JudgeAnswer]:
    """Ask the score turn, then the missing-tools turn of the same conversation."""
    _, prompts = rubric_and_prompts()
    question = Message("user", prompts.score)
    score = await client.ask([question])
    reply = Message("assistant", score.reply.text)
    return score, await client.ask([question, reply, Message("user", prompts.missing_tools)])


@pytest.fixture(scope="module")
def answers(model: LocalModel) -> tuple[JudgeAnswer, JudgeAnswer]:
    """Answers to the score turn and to the missing-tools turn."""
    return run(model, both_turns)


def test_both_turns_are_answered_and_every_token_and_cent_is_booked(
    answers: tuple[JudgeAnswer, JudgeAnswer],
) -> None:
    for answer in answers:
        assert answer.reply.text.strip()
        assert answer.reply.finish_reason in {"stop", "length"}
        assert answer.attempts == 1
        assert (answer.latency_ms or 0) > 0
        used = answer.usage
        assert used is not None
        assert 0 < used.output_tokens <= MOST_OUTPUT
        # $2 per million input tokens, $1 from the cache, $8 for output
        cost = used.input_tokens * 2 + used.cached_tokens + used.output_tokens * 8
        assert answer.cost_usd == pytest.approx(cost / 1_000_000)


async def judged(client: JudgeClient, started: Conversation) -> tuple[Conversation, int]:
    """Complete a conversation; return it with the number of requests."""
    requests = 0
    while open_requests := started.open_requests():
        for request in open_requests:
            answer = await client.ask(request.messages)
            started = started.with_reply(request.turn, answer.reply)
            requests += 1
    return started, requests


def test_a_conversation_ends_with_any_reply_and_resumes_from_its_log(
    model: LocalModel,
) -> None:
    rubric, prompts = rubric_and_prompts()
    started = Conversation(prompts, rubric.criteria, samples=2)

    ended, requests = run(model, lambda client: judged(client, started))

    assert isinstance(ended.outcome(), Judgment | FailedConversation)
    assert requests == len(ended.replies) >= 2
    restarted = started
    for turn, reply in ended.replies:
        restarted = restarted.with_reply(turn, reply)
    assert restarted.outcome() == ended.outcome()


@pytest.mark.usefixtures("our_model")
def test_the_second_turn_begins_with_the_first_byte_for_byte(
    answers: tuple[JudgeAnswer, JudgeAnswer],
) -> None:
    first, second = (answer.usage for answer in answers)

    assert first is not None
    assert second is not None
    read_first = first.input_tokens + first.cached_tokens
    read_second = second.input_tokens + second.cached_tokens
    assert read_second > read_first + first.output_tokens / 2  # the reply is in it
    assert second.cached_tokens > read_first * 0.9  # the server had cached it all


def test_a_model_that_the_server_does_not_have_stops_the_run(our_model: LocalModel) -> None:
    unknown = replace(our_model, name="no-such-model")

    with pytest.raises(CircuitOpenError, match="404"):
        run(unknown, lambda client: client.ask([Message("user", "Hello")]))


def test_a_conversation_that_is_too_long_is_detected(our_model: LocalModel) -> None:
    too_long = Message("user", "word " * (CONTEXT_TOKENS * 2))

    with pytest.raises(JudgeCallError) as raised:
        run(our_model, lambda client: client.ask([too_long]))

    assert (raised.value.fault, raised.value.retriable) == (Fault.TOO_LONG, False)
