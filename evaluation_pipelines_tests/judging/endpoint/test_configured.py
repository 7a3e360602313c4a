"""Client, price and budget from the settings."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from evaluation_pipelines.judging.domain.budget import BudgetLimits, PlannedCall, Price, Usage
from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.endpoint.client import (
    judge_budget_limits,
    judge_client,
    judge_pricing,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def settings(**chosen: Any) -> Settings:
    """Return settings with only ``chosen`` set."""
    return Settings(**chosen)


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "EVAL_JUDGE_MODEL"):
        monkeypatch.delenv(variable, raising=False)


def test_a_configured_judge_is_asked_with_the_settings() -> None:
    with open_judge_endpoint() as judge:
        chosen = settings(
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


def test_a_run_may_ask_another_model() -> None:
    with open_judge_endpoint() as judge:
        chosen = settings(OPENAI_BASE_URL=judge.base_url, judge_model="a-model")

        async def work() -> None:
            found = judge_client(chosen, NOW, "another")
            assert found is not None
            async with found as opened:
                await opened.ask([Message("user", "hello")])

        asyncio.run(work())

    assert judge.requests[0].body["model"] == "another"


def test_without_an_endpoint_there_is_no_client() -> None:
    assert judge_client(settings(judge_model="a-model"), NOW, "a-model") is None


def test_a_configured_price_precedes_the_list_price() -> None:
    chosen = settings(judge_model="gpt-4o", judge_input_usd_per_mtok=3, judge_output_usd_per_mtok=9)

    assert judge_pricing(chosen, "gpt-4o", NOW) == Price(3, 9)


def test_a_configured_price_applies_to_no_other_model() -> None:
    chosen = settings(judge_model="mine", judge_input_usd_per_mtok=0, judge_output_usd_per_mtok=0)

    # $2.50 per million tokens, as listed
    assert judge_pricing(chosen, "gpt-4o", NOW).cost_usd(Usage(1_000_000, 0, 0)) == 2.5
    assert judge_pricing(chosen, "mine", NOW).cost_usd(Usage(1_000_000, 0, 0)) == 0
    assert judge_pricing(chosen, "unheard-of", NOW).cost_usd(Usage(1, 0, 0)) is None


def test_the_list_price_covers_cached_tokens() -> None:
    pricing = judge_pricing(settings(), "gpt-4o", NOW)

    # gpt-4o: $2.50 per million input tokens, $1.25 from the cache, $10 for output:
    # (20,000 * 2.5 + 80,000 * 1.25 + 1,000 * 10) / 1,000,000 = 0.05 + 0.1 + 0.01
    assert pricing.cost_usd(Usage(20_000, 80_000, 1_000)) == pytest.approx(0.16)


def test_a_planned_call_includes_the_cost_of_cache_writes() -> None:
    pricing = judge_pricing(settings(), "claude-sonnet-4-5", NOW)

    # $3 per million input tokens, $3.75 for those written to the cache, $15 for output
    assert pricing.cost_usd(Usage(1_000, 0, 100)) == pytest.approx(0.0045)
    assert pricing.cost_usd(Usage(1_000, 0, 100, 1_000)) == pytest.approx(0.00525)
    assert PlannedCall(1_000, 100).worst_case_usd(pricing) == pytest.approx(0.00525)


def test_a_model_that_the_list_lacks_has_no_price() -> None:
    pricing = judge_pricing(settings(), "my-own-model", NOW)

    assert pricing.cost_usd(Usage(1, 0, 1)) is None
    assert PlannedCall(1, 1).worst_case_usd(pricing) is None


def test_the_limits_of_a_run_come_from_the_settings() -> None:
    chosen = settings(judge_max_sessions=5, judge_max_cost_usd=1.5, judge_max_cost_per_day_usd=4.0)

    assert judge_budget_limits(chosen) == BudgetLimits(5, 1.5, 4.0)
    assert judge_budget_limits(settings()) == BudgetLimits()
