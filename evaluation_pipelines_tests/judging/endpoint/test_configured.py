"""Client, price and budget from the settings."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from evaluation_pipelines.judging.domain.budget import PlannedCall, Usage
from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.endpoint.client import (
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


def test_without_an_endpoint_there_is_no_client() -> None:
    assert judge_client(settings(judge_model="a-model"), NOW, "a-model") is None


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
    cost = judge_pricing(settings(**chosen), model, NOW).cost_usd(usage)
    assert cost == (None if usd is None else pytest.approx(usd))


def test_a_planned_call_includes_the_cost_of_cache_writes() -> None:
    pricing = judge_pricing(settings(), "claude-sonnet-4-5", NOW)
    assert PlannedCall(1_000, 100).worst_case_usd(pricing) == pytest.approx(0.00525)
