"""What the reader asks of a price table."""

from typing import Any, Protocol


class Prices(Protocol):
    """Providers and list prices of models."""

    def provider_of(self, model: str) -> str | None:
        """Provider id of a model name; None when the table lacks it."""

    def cost_usd(
        self,
        model: str,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int,
        cache_creation_tokens: int,
        at_us: int,
    ) -> float | None:
        """List price of one API request, ``input_tokens`` without cached ones; None if unknown."""


_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")


def priced(row: dict[str, Any], prices: Prices, *, reasoning_is_output: bool) -> None:
    """Fill cost and ``cost_source`` of an API request whose program sends no cost.

    Reasoning tokens are billed as output, also where ``output_tokens`` does not count them in.
    """
    tokens: list[Any] = [row.get(name) for name in _TOKENS]
    apart = 0 if reasoning_is_output else row.get("reasoning_tokens", 0)
    cost = None
    if row.get("model") is not None and None not in (*tokens, apart):
        uncached, output, read, created = tokens
        at_us = row["event_time"]
        cost = prices.cost_usd(row["model"], uncached, output + apart, read, created, at_us)
    row["cost_usd"] = cost
    row["cost_source"] = "unknown" if cost is None else "priced"
