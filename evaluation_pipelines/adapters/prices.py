"""Providers and prices of models, from the table that ``genai-prices`` ships (offline)."""

from datetime import UTC, datetime
from functools import cache

from evaluation_pipelines.domain.judging.pricing import Usage as JudgeUsage


class PriceTable:
    """The shipped table; the domain's ``Prices``."""

    def provider_of(self, model: str) -> str | None:
        """Provider id ("anthropic", "openai" ...) of a model name; None when the table lacks it."""
        return _provider_of(model)

    def cost_usd(
        self,
        model: str,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int,
        cache_creation_tokens: int,
        at_us: int,
    ) -> float | None:
        """List price of one API request at a time (microseconds since 1970); None if unknown.

        ``input_tokens`` leaves out cached tokens, as everywhere here; the library counts them in.
        """
        # Imported here: loading the table takes longer than loading all else of the terminal.
        from genai_prices import Usage, calc_price

        usage = Usage(
            input_tokens=input_tokens + cache_read_tokens + cache_creation_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_creation_tokens,
        )
        when = datetime.fromtimestamp(at_us / 1e6, UTC)
        try:
            priced = calc_price(usage, model, genai_request_timestamp=when)
        except (LookupError, ValueError):  # no such model, or no price for such tokens
            return None
        return float(priced.total_price)


class ListPrice:
    """List price of one model at a time; the domain's ``Pricing``."""

    def __init__(self, model: str, at_us: int) -> None:
        """Take the price that holds at ``at_us`` (microseconds since 1970)."""
        self._model = model
        self._at_us = at_us

    def cost_usd(self, usage: JudgeUsage) -> float | None:
        """US dollars for the tokens of one call; None when the table lacks the model."""
        return PriceTable().cost_usd(
            self._model,
            usage.input_tokens - usage.cache_write_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens,
            self._at_us,
        )


@cache
def _provider_of(model: str) -> str | None:
    from genai_prices.data_snapshot import get_snapshot

    try:
        provider, _ = get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return None
    return provider.id
