"""Providers and prices of models from the table shipped with ``genai-prices`` (offline)."""

from datetime import UTC, datetime
from functools import cache


class PriceTable:
    """The shipped price table; implements ``domain.prices.Prices``."""

    def provider_of(self, model: str) -> str | None:
        """Return the provider id ("anthropic", "openai" ...) of a model name; None if unknown."""
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
        """Return the list price of one API request at a time (microseconds since 1970), or None.

        ``input_tokens`` excludes cached tokens, as everywhere here; the library includes them.
        """
        # Imported here: loading the table is slower than the rest of a command.
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


@cache
def _provider_of(model: str) -> str | None:
    from genai_prices.data_snapshot import get_snapshot

    try:
        provider, _ = get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return None
    return provider.id
