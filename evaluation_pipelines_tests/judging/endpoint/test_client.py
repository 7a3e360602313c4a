"""Calls: requests, answers, retries, limits, price, and an endpoint that goes down."""

import asyncio
import json
import logging
import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from evaluation_pipelines.judging.domain.budget import PlannedCall, Usage
from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines.judging.endpoint.client import (
    CallLimits,
    Endpoint,
    JudgeAnswer,
    JudgeClient,
)
from evaluation_pipelines.judging.endpoint.configured import judge_client, judge_pricing
from evaluation_pipelines.judging.endpoint.limits import CircuitOpenError
from evaluation_pipelines.judging.endpoint.replies import BudgetReachedError, Fault, JudgeCallError
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    drips,
    garbage,
    half_a_body,
    hangs,
    html,
    http_error,
    rate_limited,
    reset,
    says,
)
from evaluation_pipelines_tests.judging.endpoint.judge_calls import (
    KEY,
    PRICE,
    QUESTION,
    Clock,
    ask,
    client,
    failed,
    run,
)

USED = {
    "prompt_tokens": 1000,
    "completion_tokens": 300,
    "prompt_tokens_details": {"cached_tokens": 800},
}


def test_an_answer_has_reply_tokens_cost_and_latency(judge: JudgeEndpoint) -> None:
    judge.script(says("85", usage=USED))

    # (200 * $2 + 800 * $1 + 300 * $8) / 1,000,000 = (400 + 800 + 2,400) / 1,000,000
    assert ask(judge) == JudgeAnswer(
        Reply("85", "stop"), Usage(200, 800, 300), 0.0036, 0.0, attempts=1
    )


def test_the_request_contains_the_conversation_and_nothing_unnecessary(
    judge: JudgeEndpoint,
) -> None:
    ask(judge, max_output_tokens=123)
    ask(judge, max_output_tokens=123)

    request, again = judge.requests
    assert request.raw == again.raw  # the prompt caches of an endpoint hit
    assert request.body == {
        "model": "judge-model",
        "messages": [
            {"role": "system", "content": "You judge."},
            {"role": "user", "content": "A secret transcript."},
        ],
        "max_completion_tokens": 123,
        "temperature": 0.0,
    }
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_lone_surrogates_in_telemetry_do_not_prevent_judging(
    judge: JudgeEndpoint,
) -> None:
    run(judge, lambda opened: opened.ask([Message("user", "a\ud800b 漢字 \N{GRINNING FACE}")]))

    sent = judge.requests[0].body["messages"][0]["content"]
    assert sent == "a\N{REPLACEMENT CHARACTER}b 漢字 \N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("failure", "fault", "maybe_charged"),
    [
        (http_error(429), Fault.RATE_LIMITED, False),
        (http_error(500), Fault.SERVER_ERROR, True),
        (garbage(), Fault.UNREADABLE, True),
        (half_a_body(), Fault.CONNECTION, True),
        (reset(), Fault.CONNECTION, True),
    ],
    ids=lambda value: "" if isinstance(value, Scripted) else str(value),
)
def test_a_transient_failure_is_tried_three_times_with_growing_waits(
    judge: JudgeEndpoint, failure: Scripted, fault: Fault, *, maybe_charged: bool
) -> None:
    clock = Clock()
    judge.script(failure, failure, says("85"))
    answer = ask(judge, clock)

    assert (answer.reply.text, answer.attempts) == ("85", 3)
    assert clock.slept == [1, 2]

    judge.always(failure)
    error = failed(judge, clock)
    assert (error.fault, error.retriable) == (fault, True)
    assert error.cost_usd == (None if maybe_charged else 0.0)
    assert len(judge.requests) == 6


@pytest.mark.parametrize("failure", [hangs(), drips()], ids=["hangs", "drips"])
def test_the_time_limit_covers_the_whole_request(judge: JudgeEndpoint, failure: Scripted) -> None:
    judge.script(failure)  # a byte every 50 ms, for half a minute

    answer = ask(judge, timeout_s=1)
    assert answer.attempts == 2

    judge.always(failure)
    error = failed(judge, timeout_s=0.2, attempts=1)
    assert "no complete answer within 0.2 s" in error.reason
    assert (error.fault, error.retriable, error.cost_usd) == (Fault.TIMEOUT, True, None)


def test_waits_are_randomized_so_that_calls_do_not_return_together(judge: JudgeEndpoint) -> None:
    judge.always(http_error(500))
    clock, limits = Clock(), CallLimits(attempts=8, breaker_failures=99)
    endpoint = Endpoint(judge.base_url, "judge-model")

    async def work() -> None:
        async with JudgeClient(endpoint, limits, PRICE, clock.timing(jitter=0.0)) as opened:
            await opened.ask(QUESTION)

    with pytest.raises(JudgeCallError):
        asyncio.run(work())

    # 1, 2, 4 ... at most 30 seconds; at least half of each is waited
    assert clock.slept == [0.5, 1, 2, 4, 8, 15, 15]


def test_a_permanent_failure_is_tried_once(judge: JudgeEndpoint) -> None:
    judge.always(http_error(400, "unknown parameter"))

    error = failed(judge)

    assert (error.fault, error.retriable, error.cost_usd) == (Fault.REJECTED, False, 0)
    assert len(judge.requests) == 1


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "2500", "Retry-After": "9"}, 2.5),
        ({"Retry-After": "Fri, 20 Nov 2026 12:00:40 GMT"}, 40),  # the clock begins at 12:00:00
        ({"Retry-After": "Fri, 20 Nov 2026 12:00:40 -0000"}, 40),  # an unspecified zone
        ({"Retry-After": "Fri, 20 Nov 2026 11:00:00 GMT"}, 0),
        ({"Retry-After": "120"}, 120),
    ],
)
def test_retry_after_replaces_the_wait(
    judge: JudgeEndpoint, headers: dict[str, str], wait_s: float
) -> None:
    clock = Clock()
    judge.script(Scripted(status=429, headers=headers))

    assert ask(judge, clock).attempts == 2

    # up to a tenth is added, so that calls do not return together
    assert clock.slept == [pytest.approx(wait_s * 1.1)]


@pytest.mark.parametrize("text", ["soon", "-5", "nan", "Fri, 99 Nov 2026"])
def test_an_unreadable_retry_after_is_ignored(judge: JudgeEndpoint, text: str) -> None:
    clock = Clock()
    judge.script(Scripted(status=503, headers={"Retry-After": text}))

    ask(judge, clock)

    assert clock.slept == [1]


def test_an_endpoint_that_asks_to_wait_too_long_is_not_asked_again(judge: JudgeEndpoint) -> None:
    judge.always(rate_limited("121"))
    clock = Clock()

    error = failed(judge, clock)

    assert (error.retriable, error.retry_after_s) == (True, 121)
    assert (len(judge.requests), clock.slept) == (1, [])


@pytest.mark.parametrize(
    "failure",
    [
        http_error(401, f"Incorrect API key provided: {KEY}"),
        http_error(429, "you exceeded your current quota", "insufficient_quota"),
        Scripted(status=307, headers={"Location": "http://127.0.0.1:1/elsewhere"}, body=b""),
    ],
    ids=["401", "quota", "redirect"],
)
def test_a_failure_of_every_session_stops_the_run_and_fails_none(
    judge: JudgeEndpoint, failure: Scripted
) -> None:
    judge.script(failure)

    async def work(opened: JudgeClient) -> None:
        with pytest.raises(CircuitOpenError, match="check OPENAI_BASE_URL") as raised:
            await opened.ask(QUESTION)
        assert KEY not in str(raised.value)
        assert raised.value.cost_usd == 0
        with pytest.raises(CircuitOpenError, match="check OPENAI_BASE_URL"):
            await opened.ask(QUESTION)

    run(judge, work)
    assert len(judge.requests) == 1


def test_an_unreachable_endpoint_costs_nothing() -> None:
    with open_judge_endpoint() as gone:
        pass

    error = failed(gone)

    assert "cannot be reached" in error.reason
    assert (error.fault, error.retriable, error.cost_usd) == (Fault.UNREACHABLE, True, 0)


def test_an_endpoint_that_accepts_no_connections_costs_nothing() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for connection in waiting:  # the queue of a server that never accepts
            connection.settimeout(0)
            connection.connect_ex(address)

        endpoint = JudgeEndpoint(base_url=f"http://127.0.0.1:{address[1]}/v1")
        error = failed(endpoint, timeout_s=1, attempts=1)
        for connection in waiting:
            connection.close()

    assert "cannot be reached: ConnectTimeout" in error.reason
    assert (error.fault, error.cost_usd) == (Fault.UNREACHABLE, 0)


def test_a_retry_after_a_possible_charge_is_sent_only_if_allowed(
    judge: JudgeEndpoint,
) -> None:
    judge.script(http_error(429), http_error(500), http_error(500))
    asked = []

    async def may_pay_again() -> bool:
        asked.append(len(judge.requests))
        return len(asked) < 2

    with pytest.raises(
        BudgetReachedError, match="the budget does not allow a retry: the endpoint answered 500"
    ):
        run(judge, lambda opened: opened.ask(QUESTION, may_pay_again), attempts=5)

    assert asked == [2, 3]  # not after the first one: 429 is never charged
    assert len(judge.requests) == 3


def test_neither_key_nor_prompt_is_logged_or_part_of_an_error(
    judge: JudgeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()
    judge.script(Scripted(status=500, body=echo), html(), http_error(500, KEY))

    error = failed(judge)
    ask(judge)

    logged = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "HTTP Request" in logged  # something is logged, so that this proves something
    printed = f"{error!r} {Endpoint(judge.base_url, 'judge-model', KEY)!r}"
    for text in (logged, printed):
        assert KEY not in text
        assert "secret transcript" not in text


def test_a_client_that_is_not_open_says_so(judge: JudgeEndpoint) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(client(judge).ask(QUESTION))


async def failure(opened: JudgeClient) -> str:
    """Return the error type of a call that must fail."""
    with pytest.raises((JudgeCallError, CircuitOpenError)) as raised:
        await opened.ask(QUESTION)
    return type(raised.value).__name__


async def many(opened: JudgeClient, calls: int) -> list[JudgeAnswer]:
    """Make ``calls`` calls concurrently."""
    return await asyncio.gather(*(opened.ask(QUESTION) for _ in range(calls)))


def test_concurrency_is_limited(judge: JudgeEndpoint) -> None:
    judge.latency_s = 0.02

    answers = run(judge, lambda opened: many(opened, 100), concurrency=8)

    assert len(answers) == len(judge.requests) == 100
    assert judge.max_in_flight == 8


def test_tokens_per_minute_are_limited_by_their_actual_number(
    judge: JudgeEndpoint,
) -> None:
    # Two short messages and 73 reply tokens are estimated below 200; the actual usage is 400.
    judge.always(says("85", usage={"prompt_tokens": 300, "completion_tokens": 100}))
    clock = Clock()

    async def in_turn(opened: JudgeClient) -> None:
        for _ in range(4):
            await opened.ask(QUESTION)

    run(judge, in_turn, clock, tokens_per_minute=1_000, max_output_tokens=73)

    # 400, 800 and 1,200 after three: the fourth must wait.
    assert clock.slept == [60]


class FirstWaits(Clock):
    """A clock on which the first sleeper wakes only after another one has."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.woke = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Sleep; the first call advances no time."""
        if self.slept:
            await super().sleep(seconds)
            self.woke.set()
        else:
            self.slept.append(seconds)
            self.first.set()
            await self.woke.wait()


def test_retry_after_holds_back_every_request(judge: JudgeEndpoint) -> None:
    judge.script(rate_limited("10"))
    clock = FirstWaits()

    async def work(opened: JudgeClient) -> None:
        refused = asyncio.create_task(opened.ask(QUESTION))
        await clock.first.wait()
        await opened.ask(QUESTION)
        await refused

    run(judge, work, clock)

    assert clock.slept == [11, 10]  # the refused call adds a tenth
    assert len(judge.requests) == 3


def test_with_the_endpoint_down_no_call_waits_for_the_rate_limit(
    judge: JudgeEndpoint,
) -> None:
    judge.script(http_error(401))
    clock = Clock()

    async def work(opened: JudgeClient) -> list[str]:
        return [await failure(opened) for _ in range(9)]

    assert run(judge, work, clock, requests_per_minute=1) == ["CircuitOpenError"] * 9
    assert clock.slept == []


def test_calls_that_wait_for_a_retry_stop_when_the_breaker_opens(judge: JudgeEndpoint) -> None:
    judge.always(http_error(500))

    async def work(opened: JudgeClient) -> list[str]:
        return await asyncio.gather(*(failure(opened) for _ in range(200)))

    ended = run(judge, work, concurrency=4)

    assert ended.count("JudgeCallError") <= 5 + 4
    assert ended.count("CircuitOpenError") >= 191
    assert len(judge.requests) <= 600


def test_one_probe_detects_that_the_endpoint_is_up_again(judge: JudgeEndpoint) -> None:
    clock = Clock()
    judge.script(*[http_error(500)] * 15)

    async def work(opened: JudgeClient) -> None:
        for _ in range(5):
            await failure(opened)
        assert await failure(opened) == "CircuitOpenError"
        clock.at_s += 30
        judge.latency_s = 0.05
        ended = await asyncio.gather(
            *(opened.ask(QUESTION) for _ in range(6)), return_exceptions=True
        )
        assert [type(outcome) for outcome in ended].count(CircuitOpenError) == 5
        assert len(judge.requests) == 16
        await many(opened, 6)

    run(judge, work, clock)
    assert len(judge.requests) == 22


def test_a_failed_probe_is_tried_once_and_fails_no_session(judge: JudgeEndpoint) -> None:
    clock = Clock()
    judge.always(http_error(500))

    async def work(opened: JudgeClient) -> None:
        for _ in range(5):
            await failure(opened)
        clock.at_s += 30
        with pytest.raises(CircuitOpenError, match="answered 500") as raised:
            await opened.ask(QUESTION)
        assert raised.value.cost_usd is None  # it may have been charged
        assert await failure(opened) == "CircuitOpenError"

    run(judge, work, clock)
    assert len(judge.requests) == 16


def test_a_canceled_probe_is_followed_by_another_one(judge: JudgeEndpoint) -> None:
    clock = Clock()
    judge.script(*[http_error(500)] * 15, hangs())

    async def work(opened: JudgeClient) -> JudgeAnswer:
        for _ in range(5):
            await failure(opened)
        clock.at_s += 30
        probe = asyncio.create_task(opened.ask(QUESTION))
        await asyncio.to_thread(judge.wait_for, 16)
        probe.cancel()
        with suppress(asyncio.CancelledError):
            await probe
        return await opened.ask(QUESTION)

    assert run(judge, work, clock).attempts == 1


def test_rejections_in_a_row_stop_the_run_since_no_session_causes_them(
    judge: JudgeEndpoint,
) -> None:
    judge.always(http_error(400, "invalid content"))

    async def work(opened: JudgeClient) -> list[str]:
        return [await failure(opened) for _ in range(9)]

    assert run(judge, work) == ["JudgeCallError"] * 5 + ["CircuitOpenError"] * 4


def test_a_session_that_is_too_long_shows_that_the_endpoint_is_up(judge: JudgeEndpoint) -> None:
    four_failures = [http_error(503)] * 4
    judge.script(*four_failures, http_error(413), *four_failures, says("85"))

    async def work(opened: JudgeClient) -> str:
        assert [await failure(opened) for _ in range(9)] == ["JudgeCallError"] * 9
        return (await opened.ask(QUESTION)).reply.text

    assert run(judge, work, attempts=1) == "85"


NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "EVAL_JUDGE_MODEL"):
        monkeypatch.delenv(variable, raising=False)


def test_a_configured_judge_is_asked_with_the_settings() -> None:
    with open_judge_endpoint() as judge:
        chosen = Settings(
            OPENAI_BASE_URL=judge.base_url,
            OPENAI_API_KEY="sk-1",
            judge_model="a-model",
            judge_temperature=0.5,
            judge_max_output_tokens=77,
            judge_input_usd_per_mtok=2,
            judge_output_usd_per_mtok=8,
        )

        async def work() -> float | None:
            found = judge_client(chosen, NOW, "a-model")
            assert found is not None
            async with found as opened:
                return (await opened.ask([Message("user", "x" * 400)])).cost_usd

        cost = asyncio.run(work())

    (request,) = judge.requests
    assert request.headers["authorization"] == "Bearer sk-1"
    sent = {name: request.body[name] for name in ("model", "temperature", "max_completion_tokens")}
    assert sent == {"model": "a-model", "temperature": 0.5, "max_completion_tokens": 77}
    assert request.reply is not None
    # 400 letters are 100 tokens for this endpoint
    output = len(request.reply) // 4
    assert cost == pytest.approx((100 * 2 + output * 8) / 1_000_000)


def test_without_an_endpoint_there_is_no_client() -> None:
    assert judge_client(Settings(judge_model="a-model"), NOW, "a-model") is None


MILLION = Usage(1_000_000, 0, 0)
OWN = {"judge_model": "gpt-4o", "judge_input_usd_per_mtok": 3, "judge_output_usd_per_mtok": 9}
FREE = {"judge_model": "mine", "judge_input_usd_per_mtok": 0, "judge_output_usd_per_mtok": 0}


@pytest.mark.parametrize(
    ("chosen", "model", "usage", "usd"),
    [
        # A configured price precedes that of the list, for its own model.
        (OWN, "gpt-4o", Usage(1_000_000, 0, 1_000_000), 12),
        *(
            (FREE, "mine", MILLION, 0),
            (FREE, "gpt-4o", MILLION, 2.5),
            (FREE, "unheard-of", MILLION, None),
        ),
        # gpt-4o: $2.50 per million input tokens, $1.25 from the cache, $10 for output:
        # (20,000 * 2.5 + 80,000 * 1.25 + 1,000 * 10) / 1,000,000 = 0.05 + 0.1 + 0.01
        ({}, "gpt-4o", Usage(20_000, 80_000, 1_000), 0.16),
        # $3 per million input tokens, $3.75 for those written to the cache, $15 for output
        ({}, "claude-sonnet-4-5", Usage(1_000, 0, 100), 0.0045),
        ({}, "claude-sonnet-4-5", Usage(1_000, 0, 100, 1_000), 0.00525),
    ],
)
def test_a_configured_price_precedes_the_list_price(
    chosen: dict[str, Any], model: str, usage: Usage, usd: float | None
) -> None:
    cost = judge_pricing(Settings(**chosen), model, NOW).cost_usd(usage)
    assert cost == (None if usd is None else pytest.approx(usd))


def test_a_planned_call_includes_the_cost_of_cache_writes() -> None:
    pricing = judge_pricing(Settings(), "claude-sonnet-4-5", NOW)
    assert PlannedCall(1_000, 100).worst_case_usd(pricing) == pytest.approx(0.00525)
