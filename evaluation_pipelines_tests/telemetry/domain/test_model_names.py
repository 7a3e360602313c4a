"""One name for one model, whoever serves it, and never one name for two models."""

import pytest

from evaluation_pipelines.telemetry.domain.model_columns import provider_name, read_model_name

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
        ("github_copilot", "github-copilot"),
    ],
)
def test_a_provider_has_one_name(reported: str, provider: str) -> None:
    assert provider_name(reported) == provider
