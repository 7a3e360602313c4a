"""Columns about models: one name each, how they ran, who serves them, and what requests cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import BROKEN, MAX_COST_USD, text, tokens
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.model_names import provider_name, read_model_name
from evaluation_pipelines.telemetry.domain.prices import Prices, Rates, Served, Tokens

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
        _add_costs(columns, [each[-1] for each in found], long_kept, dialect, prices)


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
    return [None if each is BROKEN else each or 0 for each in counts]


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
        if not dialect.sends_cost or (costs[index] is None and rates and rates.is_own):
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
