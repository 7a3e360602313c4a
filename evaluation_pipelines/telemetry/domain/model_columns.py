"""Columns about models: one name each, how they ran, who serves them, and what requests cost.

What a cloud, a gateway or a program puts around the name of a model is taken off: ``[1m]``, the
region and version of a Bedrock id, an ARN, the ``@`` of Vertex, ``models/``, ``openrouter/``. The
date of a release stays: two releases of one name are two models.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import BROKEN, MAX_COST_USD, text, tokens
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.prices import Prices, Rates, Served, Tokens

_PROVIDERS = {
    **dict.fromkeys(
        ("aws", "bedrock", "aws.bedrock", "aws_bedrock", "amazon", "amazon-bedrock"), "aws"
    ),
    **dict.fromkeys(("google", "gemini", "vertex_ai", "vertex_ai_beta", "gcp.vertex_ai"), "google"),
    **dict.fromkeys(
        ("gcp.gemini", "gcp.gen_ai", "google-vertex", "google-vertex-anthropic"), "google"
    ),
    "google-gla": "google",
    **dict.fromkeys(("azure", "azure_ai", "azure.ai.openai", "azure.ai.inference"), "azure"),
    **dict.fromkeys(("az.ai.openai", "az.ai.inference"), "azure"),
    **dict.fromkeys(("x-ai", "xai", "x_ai"), "x-ai"),
    **dict.fromkeys(("mistral", "mistralai", "mistral_ai"), "mistral"),
    **dict.fromkeys(("moonshotai", "moonshot"), "moonshotai"),
    **dict.fromkeys(("together", "together_ai"), "together"),
    **dict.fromkeys(("fireworks", "fireworks_ai"), "fireworks"),
    **dict.fromkeys(("github-copilot", "github_copilot", "github.copilot"), "github-copilot"),
    **dict.fromkeys(("zai", "z-ai"), "zai"),
    **dict.fromkeys(("ollama", "ollama_chat"), "ollama"),
    **dict.fromkeys(("vercel", "vercel_ai_gateway"), "vercel"),
    **dict.fromkeys(("vllm", "hosted_vllm"), "vllm"),
    **{
        name: name
        for name in (
            *("anthropic", "openai", "openrouter", "deepseek", "groq", "cohere", "perplexity"),
            *("cerebras", "databricks", "minimax", "lm_studio", "huggingface"),
        )
    },
}
"""Names of providers as programs and gateways write them -> as the price table does."""

_NO_PROVIDERS = ("litellm", "litellm_proxy", "models", "meta-llama", "qwen", "converse", "invoke")
"""What stands before a model and does not tell who serves it."""

_REGION = re.compile(r"[a-z]{2}(?:-gov|-iso[a-z]?)?-[a-z]+-?\d+\Z")
_BEFORE_COLON = re.compile(
    r"(anthropic|openai|azure|bedrock|google|google-gla|google-vertex|groq|openrouter):(?=\S)"
)
"""Before a colon, other names of providers can be models: ``mistral:7b``."""

_VARIANT = re.compile(r":(beta|free|thinking|extended|online|nitro|floor|exacto)\Z")
"""How a gateway runs a model."""

_LOWER_CASE = re.compile(r"(?:claude|gpt|gemini)-", re.IGNORECASE)
"""Models whose makers write no capitals."""

_CONTEXT = re.compile(r"\[(\d+[km])\]\Z", re.IGNORECASE)
_ARN = re.compile(r"arn:aws[a-z-]*:bedrock:[^:/]*:[^:/]*:([a-z-]+)/(\S+)\Z")
_NAMED_ARNS = ("inference-profile", "foundation-model")
"""Kinds of ARN that end with the id of a model; others end with one of the account's own."""

_PUBLISHER = re.compile(r"(?:projects/[^/]+/locations/[^/]+/)?publishers/[^/]+/models/")
_BEDROCK_ID = re.compile(
    r"(?:(?:[a-z]{2}|apac|global|us-gov)\.)?"
    r"(anthropic|amazon|meta|mistral|cohere|ai21|openai|qwen|deepseek|writer|moonshot|minimax"
    r"|google|nvidia|zai|moonshotai)\.(\S+)\Z"
)
_BEDROCK_VERSION = re.compile(r"(?:-v1|(?<=\d{8})-v\d+|(?<=b)-1(?=:))(?::\d+)?(?::(\d+k))?\Z")
_VERTEX_VERSION = re.compile(r"(?:-v\d+)?@(?:(\d{8})|default|latest)\Z")


@dataclass(frozen=True, slots=True)
class ModelName:
    """Name of a model without what was put around it.

    Attributes:
        model: The name.
        provider: Who serves it, as far as the text around the name tells.
        context: Size of the context that the name asks for, such as ``1m``.
        variant: How a gateway is asked to run it, such as ``thinking``.
        forms: The name as sent, and as it is after each thing that was taken off: price tables
            know models by one of these. What is free has no price but its own.
    """

    model: str
    provider: str | None
    context: str | None
    variant: str | None
    forms: tuple[str, ...]


def provider_name(reported: str) -> str | None:
    """Return the name of a provider as the price table writes it; an unknown one as it is.

    AI SDK adds the kind of endpoint: ``openai.chat``. A library that calls itself the provider is
    none.
    """
    name = reported.lower()
    if name in _LIBRARIES:
        return None
    return _PROVIDERS.get(name) or _PROVIDERS.get(name.partition(".")[0], reported)


_LIBRARIES = ("strands-agents", "langgraph", "langchain")


@lru_cache(maxsize=4096)
def read_model_name(sent: str) -> ModelName:
    """Return the name of a model from what a program sent as its name."""
    forms, provider, context, variant = [sent.strip()], None, None, None
    if found := _CONTEXT.search(forms[-1]):
        forms.append(forms[-1][: found.start()])
        context = found[1].lower()
    for before, served_by in _gateways(forms[-1]):
        forms.append(before)
        provider = provider or served_by
    if len(forms) > 1 and (found := _VARIANT.search(forms[-1])):
        variant = found[1]
        forms.append(forms[-1][: found.start()])
    if found := _ARN.match(forms[-1]):
        kind, name = found.groups()
        forms.append(name if kind in _NAMED_ARNS else f"{kind}/{name}")
        provider = "aws"
    if found := _BEDROCK_ID.match(forms[-1]):
        vendor, name = found.groups()
        provider = provider or "aws"
        if version := _BEDROCK_VERSION.search(name):
            name, context = name[: version.start()], context or version[1]
        forms.append(f"deepseek-{name}" if vendor == "deepseek" else name)
    if found := _VERTEX_VERSION.search(forms[-1]):
        forms.append(forms[-1][: found.start()] + (f"-{found[1]}" if found[1] else ""))
        provider = provider or "google"
    if _LOWER_CASE.match(forms[-1]):
        forms.append(forms[-1].lower())
    if forms[-1].startswith("claude-"):
        forms.append(re.sub(r"(?<=\d)\.(?=\d)", "-", forms[-1]))  # of OpenRouter and Copilot
    known = tuple(dict.fromkeys(filter(None, forms)))
    priced = tuple(form for form in known if form.endswith(":free")) if variant == "free" else known
    return ModelName(known[-1] if known else sent, provider, context, variant, priced)


def _gateways(name: str) -> Iterator[tuple[str, str | None]]:
    """Yield the name after each ``provider/`` or ``provider:`` before it, and that provider."""
    if found := _PUBLISHER.match(name):
        name = name[found.end() :]
        yield name, "google"
    while True:
        before, _, after = name.removeprefix("~").partition("/")
        served_by, is_region = _PROVIDERS.get(before.lower()), _REGION.match(before)
        if not after or not (served_by or is_region or before.lower() in _NO_PROVIDERS):
            break
        name = after
        yield name, served_by
    if found := _BEFORE_COLON.match(name):
        yield name[found.end() :], _PROVIDERS[found[1]]


_USUAL = frozenset({"normal", "default", "auto", "standard", "standard_only", "on_demand"})
"""Words for what a model does unless it is asked for something else."""

_MAX_CHARACTERS = 40

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")

Columns = dict[str, Sequence[Any]]
"""Values of ``agent_events`` by column name, of equal length; an absent column is null."""


def add_models(
    columns: Columns, attributes: Mapping[str, Sequence[Any]], dialect: Dialect, prices: Prices
) -> None:
    """Add names, variants, providers and costs to the events of one shape.

    Args:
        columns: Their columns; ``model`` is what the program sent.
        attributes: Their attributes as sent.
        dialect: The dialect of their program.
        prices: Providers and prices.
    """
    sent = columns.get("model")
    is_request = "api_request" in columns["event_name"]
    if sent is None and not is_request:
        return
    nothing = [None] * len(columns["event_name"])
    sent = sent or nothing
    reported = columns.get("provider") or nothing
    how = [_words(attributes, dialect.ran_by.get(name, ()), nothing) for name in _HOW]
    models: dict[tuple[Any, ...], _Model] = {}
    found = []
    for key in zip(sent, reported, *how, strict=True):
        if key not in models:
            models[key] = _model(key, prices)
        found.append(models[key])
    columns["model_as_sent"] = sent
    columns["model"] = [model for model, *_ in found]
    columns["provider"] = [provider for _, provider, *_ in found]
    columns["model_variant"] = [variant for *_, variant, _ in found]
    if is_request:
        long_kept = _counts(attributes, dialect.ran_by.get("cache_write_1h", ()), nothing)
        _add_costs(columns, [pair[-1] for pair in found], long_kept, dialect, prices)


_HOW = ("effort", "service_tier", "speed")

_Model = tuple[str | None, str | None, str | None, Served | None]
"""Name, provider, variant, and what its price depends on."""


def _model(key: tuple[Any, ...], prices: Prices) -> _Model:
    """Return what is known of a model by its name and provider as sent, and by ``_HOW`` it ran."""
    sent, reported, effort, service_tier, speed = key
    provider = None if reported is None else provider_name(reported)
    if sent is None:
        return None, provider, None, None
    name = read_model_name(sent)
    provider = provider or name.provider or prices.provider_of(name.model)
    how = {
        "context": name.context,
        "variant": name.variant,
        "effort": effort,
        "tier": service_tier,
        "speed": speed,
    }
    variant = ", ".join(f"{what} {word}" for what, word in how.items() if word is not None)
    return name.model, provider, variant or None, Served(name.forms, provider, service_tier, speed)


def _words(
    attributes: Mapping[str, Sequence[Any]], names: Sequence[str], nothing: Sequence[None]
) -> Sequence[str | None]:
    """Return the first of some attributes that each record has; None where it is the usual."""
    known = [attributes[name] for name in names if name in attributes]
    if not known:
        return nothing
    return [_word(next(filter(None, values), None)) for values in zip(*known, strict=True)]


def _word(value: Any) -> str | None:
    word = (text(value) or "").strip().lower()[:_MAX_CHARACTERS]
    return None if not word or word in _USUAL else word


def _counts(
    attributes: Mapping[str, Sequence[Any]], names: Sequence[str], nothing: Sequence[None]
) -> Sequence[Any]:
    """Return the tokens that an attribute counts: 0 without it, None if it is broken."""
    known = next((attributes[name] for name in names if name in attributes), nothing)
    counts = [0 if value is None else tokens(value) for value in known]
    return [None if count is BROKEN else count or 0 for count in counts]


def _add_costs(
    columns: Columns,
    served: Sequence[Served | None],
    long_kept: Sequence[int | None],
    dialect: Dialect,
    prices: Prices,
) -> None:
    """Set the list price of each request, and its cost if the program sends none."""
    nothing = [None] * len(served)
    costs, sources = (list(columns.get(name) or nothing) for name in ("cost_usd", "cost_source"))
    list_prices: list[float | None] = [None] * len(served)
    counts = zip(*(columns.get(name) or nothing for name in _TOKENS), long_kept, strict=True)
    rows = zip(columns["event_name"], columns["event_time"], served, counts, strict=True)
    for index, (event_name, at_us, model, numbers) in enumerate(rows):
        if event_name != "api_request":
            continue
        rates = None if model is None else prices.rates(model, at_us)
        price = list_prices[index] = _price(rates, numbers)
        # A program that sends costs leaves out those that only the installation knows.
        if costs[index] is None and (not dialect.sends_cost or (rates and rates.is_own)):
            costs[index] = price
            sources[index] = "unknown" if price is None else "priced"
    columns["list_price_usd"] = list_prices
    columns["cost_usd"], columns["cost_source"] = costs, sources


def _price(rates: Rates | None, counts: tuple[Any, ...]) -> float | None:
    """Return the price of a request; one that no request can have is unknown."""
    if rates is None or None in counts:
        return None
    uncached, output, read, created, created_1h = counts
    if created_1h > created:
        return None
    price = rates.cost_usd(Tokens(uncached, output, read, created - created_1h, created_1h))
    return None if price > MAX_COST_USD else price
