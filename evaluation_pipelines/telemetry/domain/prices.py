"""Interface of a price table."""

from typing import Any, Protocol


class Prices(Protocol):
    """Providers and list prices of models."""

    def provider_of(self, model: str) -> str | None:
        """Return the provider id of a model name; None if the table lacks it."""

    def cost_usd(
        self,
        model: str,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int,
        cache_creation_tokens: int,
        at_us: int,
    ) -> float | None:
        """Return the list price of one API request; ``input_tokens`` excludes cached ones."""


_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")


def add_price(row: dict[str, Any], prices: Prices, *, reasoning_is_output: bool) -> None:
    """Set cost and ``cost_source`` of an API request whose program sends no cost.

    Reasoning tokens are billed as output, even if ``output_tokens`` excludes them.
    """
    tokens: list[Any] = [row.get(name) for name in _TOKENS]
    extra_reasoning = 0 if reasoning_is_output else row.get("reasoning_tokens", 0)
    cost = None
    if row.get("model") is not None and None not in (*tokens, extra_reasoning):
        uncached, output, read, created = tokens
        at_us = row["event_time"]
        cost = prices.cost_usd(
            row["model"], uncached, output + extra_reasoning, read, created, at_us
        )
    row["cost_usd"] = cost
    row["cost_source"] = "unknown" if cost is None else "priced"
