"""Interface of a price table."""

from typing import Any, Protocol

from evaluation_pipelines.telemetry.domain.attributes import MAX_COST_USD


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


def add_price(row: dict[str, Any], prices: Prices) -> None:
    """Set cost and ``cost_source`` of an API request whose program sends no cost.

    A price that no request can have is unknown.
    """
    tokens: list[Any] = [row.get(name) for name in _TOKENS]
    cost = None
    if row.get("model") is not None and None not in tokens:
        uncached, output, read, created = tokens
        at_us = row["event_time"]
        cost = prices.cost_usd(row["model"], uncached, output, read, created, at_us)
    row["cost_usd"] = None if cost is None or cost > MAX_COST_USD else cost
    row["cost_source"] = "unknown" if row["cost_usd"] is None else "priced"
