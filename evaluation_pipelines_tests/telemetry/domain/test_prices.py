"""What a request costs by a price table, and where that is unknown."""

import json
from decimal import Decimal
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.model_columns import provider_name, read_model_name
from evaluation_pipelines.telemetry.domain.prices import (
    Rates,
    Served,
    Tokens,
    UsdPerMillion,
    usd_per_million,
)
from evaluation_pipelines_tests.telemetry.domain.reading import NOW_US, read_one

REQUEST = {
    "gen_ai.conversation.id": "s",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 7,
    "gen_ai.usage.output_tokens": 3,
    "gen_ai.usage.cache_read.input_tokens": 2,
    "gen_ai.usage.cache_creation.input_tokens": 1,
}
DOLLARS = usd_per_million(*(Decimal(usd) * 1_000_000 for usd in (1000, 100, 10, 1)))
"""Prices of one input, output, read and written token."""


class PowersOfTen:
    """Price table in which every kind of token has a price of its own."""

    def provider_of(self, model: str) -> str | None:
        """Return a provider."""
        return "p"

    def rates(self, served: Served, at_us: int) -> Rates | None:
        """Return $1000, $100, $10 and $1 per token; None for another model or time."""
        return Rates(DOLLARS) if (served, at_us) == (Served(("m",), "p"), NOW_US) else None


def priced(**attributes: object) -> tuple[Any, Any]:
    record = {
        "timeUnixNano": f"{NOW_US * 1000}",
        "eventName": "gen_ai.client.inference.operation.details",
        "attributes": [
            {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
            for key, value in {**REQUEST, **attributes}.items()
            if value is not None
        ],
    }
    line = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    event = read_one(json.dumps(line).encode(), prices=PowersOfTen())
    assert event["list_price_usd"] == event["cost_usd"]
    return event["cost_usd"], event["cost_source"]


def test_every_kind_of_token_has_its_price() -> None:
    # 4 of 7 were neither read from the cache nor written: 4 * 1000 + 3 * 100 + 2 * 10 + 1 * 1.
    assert priced() == (4321.0, "priced")
    free = dict.fromkeys([name for name in REQUEST if "usage" in name], 0)
    assert priced(**free) == (0.0, "priced")


@pytest.mark.parametrize(
    "name", ["gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"]
)
def test_without_its_model_or_one_of_its_token_counts_the_cost_is_unknown(name: str) -> None:
    assert priced(**{name: None}) == (None, "unknown")


def test_the_standard_tier_is_the_usual_one() -> None:
    assert priced(**{"gen_ai.request.service_tier": "standard"}) == (4321.0, "priced")
    assert priced(**{"gen_ai.request.service_tier": "flex"}) == (None, "unknown")


def test_a_model_without_a_price_is_unknown() -> None:
    assert priced(**{"gen_ai.request.model": "n"}) == (None, "unknown")


def test_a_price_that_no_request_can_have_is_unknown() -> None:
    # 9 * 1000 + 9 * 100 + 9 * 10 + 10 * 1 = 10,000; one token more is $1 more.
    most = {
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 9,
    }
    written = "gen_ai.usage.cache_creation.input_tokens"
    assert priced(**most, **{written: 10, "gen_ai.usage.input_tokens": 28}) == (10_000.0, "priced")
    assert priced(**most, **{written: 11, "gen_ai.usage.input_tokens": 29}) == (None, "unknown")


def test_a_step_is_the_price_of_all_tokens_of_a_larger_request() -> None:
    one, two, three = (usd_per_million(*map(Decimal, [usd, usd, "0.5"])) for usd in (1, 2, 3))
    rates = Rates(one, ((100, two), (1000, three)))
    # 60 + 40 cached are not above 100: 60 * 1 + 10 * 1 + 40 * 0.5 = 90 millionths.
    assert rates.cost_usd(Tokens(60, 10, 40, 0)) == 90e-6
    # One more: 61 * 2 + 10 * 2 + 40 * 0.5 = 162 millionths.
    assert rates.cost_usd(Tokens(61, 10, 40, 0)) == 162e-6
    # 1001: 961 * 3 + 10 * 3 + 40 * 0.5 = 2933 millionths; output is no part of the size.
    assert rates.cost_usd(Tokens(961, 10, 40, 0)) == 2933e-6
    # What is written to the cache is input: 1 + 40 + 30 + 30 = 101: (1 + 30 + 30) * 2 + 40 * 0.5.
    assert rates.cost_usd(Tokens(1, 0, 40, 30, 30)) == 142e-6


def test_what_has_no_price_of_its_own_costs_as_the_kind_above() -> None:
    one, two, three = map(Decimal, (1, 2, 3))
    assert usd_per_million(one, two) == UsdPerMillion(one, two, one, one, one)
    written = usd_per_million(one, two, cache_write=three)
    assert written == UsdPerMillion(one, two, one, three, three)


_ARN = "arn:aws:bedrock:us-east-1:123456789012"
_SONNET = "claude-sonnet-4-5-20250929"


@pytest.mark.parametrize(
    ("sent", "model", "provider", "context"),
    [
        ("claude-opus-4-7", "claude-opus-4-7", None, None),
        ("claude-opus-4-7[1m]", "claude-opus-4-7", None, "1m"),
        (_SONNET, _SONNET, None, None),
        # Bedrock
        ("global.anthropic.claude-sonnet-5", "claude-sonnet-5", "aws", None),
        (f"us.anthropic.{_SONNET}-v1:0", _SONNET, "aws", None),
        (f"us.anthropic.{_SONNET}-v1:0[1m]", _SONNET, "aws", "1m"),
        (f"apac.anthropic.{_SONNET}-v1:0", _SONNET, "aws", None),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6", "aws", None),
        (
            "anthropic.claude-3-sonnet-20240229-v1:0:200k",
            "claude-3-sonnet-20240229",
            "aws",
            "200k",
        ),
        ("amazon.nova-pro-v1:0", "nova-pro", "aws", None),
        ("openai.gpt-oss-120b-1:0", "gpt-oss-120b", "aws", None),
        ("us.deepseek.r1-v1:0", "deepseek-r1", "aws", None),
        (f"{_ARN}:inference-profile/us.anthropic.{_SONNET}-v1:0", _SONNET, "aws", None),
        (
            f"arn:aws:bedrock:us-east-1::foundation-model/anthropic.{_SONNET}-v1:0",
            _SONNET,
            "aws",
            None,
        ),
        (
            f"{_ARN}:application-inference-profile/a1b2c3[1m]",
            "application-inference-profile/a1b2c3",
            "aws",
            "1m",
        ),
        # Vertex
        ("claude-sonnet-4-5@20250929", _SONNET, "google", None),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet-20241022", "google", None),
        ("claude-sonnet-5@default", "claude-sonnet-5", "google", None),
        ("models/gemini-2.5-pro", "gemini-2.5-pro", None, None),
        ("publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro", "google", None),
        (
            "projects/p/locations/global/publishers/anthropic/models/claude-sonnet-5",
            "claude-sonnet-5",
            "google",
            None,
        ),
        # Gateways
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5", "anthropic", None),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5", "openrouter", None),
        ("openai/gpt-5.5", "gpt-5.5", "openai", None),
        ("azure/gpt-5.5", "gpt-5.5", "azure", None),
        ("vertex_ai/claude-sonnet-4-5@20250929", _SONNET, "google", None),
        (f"bedrock/converse/us.anthropic.{_SONNET}-v1:0", _SONNET, "aws", None),
        ("litellm_proxy/gpt-5.5", "gpt-5.5", None, None),
        ("ollama/qwen3-coder:30b", "qwen3-coder:30b", "ollama", None),
        ("bedrock/us-east-1/anthropic.claude-sonnet-4-6", "claude-sonnet-4-6", "aws", None),
        ("vercel/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5", "vercel", None),
        ("~anthropic/claude-opus-latest", "claude-opus-latest", "anthropic", None),
        ("openai:gpt-5.5", "gpt-5.5", "openai", None),
        ("google-gla:gemini-2.5-pro", "gemini-2.5-pro", "google", None),
        # Capitals
        ("CLAUDE-OPUS-4-7", "claude-opus-4-7", None, None),
        ("openai/GPT-4o", "gpt-4o", "openai", None),
    ],
)
def test_what_stands_around_the_name_of_a_model_is_taken_off(
    sent: str, model: str, provider: str | None, context: str | None
) -> None:
    found = read_model_name(sent)
    assert (found.model, found.provider, found.context) == (model, provider, context)
    assert (found.forms[0], found.forms[-1]) == (sent, model)


@pytest.mark.parametrize("variant", ["beta", "free", "thinking"])
def test_what_a_gateway_does_with_a_model_is_a_variant(variant: str) -> None:
    found = read_model_name(f"anthropic/claude-sonnet-4.5:{variant}")
    assert (found.model, found.variant) == ("claude-sonnet-4-5", variant)
    # What is free does not cost what the model costs.
    assert (found.model in found.forms) == (variant != "free")


@pytest.mark.parametrize(
    "name",
    [
        *("birch-4-mini", "aspen-4", "gpt-4o-2024-05-13", "claude-3-5-sonnet-20240620"),
        *("anthropic.claude-v2:1", "accounts/fireworks/models/llama-v3p1", "unsloth/Llama-3-8B"),
        *("qwen3-coder:free", "@cf/meta/llama-3", "models/", "a/b", "", "grok-4.20"),
        "mistral:7b",
    ],
)
def test_other_names_stay_as_they_are(name: str) -> None:
    # Two Claude 2 differ by their version on Bedrock alone; other prefixes may be other models.
    assert read_model_name(name).model == name.removeprefix("anthropic.")


@pytest.mark.parametrize(
    ("reported", "provider"),
    [
        *(("aws.bedrock", "aws"), ("gcp.vertex_ai", "google"), ("azure.ai.openai", "azure")),
        *(("OpenAI", "openai"), ("my-gateway", "my-gateway")),
        *(("github_copilot", "github-copilot"), ("openai.chat", "openai")),
        *(("google.generative-ai", "google"), ("my.gateway", "my.gateway")),
        ("strands-agents", None),  # a library
    ],
)
def test_a_provider_has_one_name(reported: str, provider: str | None) -> None:
    assert provider_name(reported) == provider
