"""Cost of judge calls: tokens used, prices, and the worst-case cost of planned calls."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or the sum of several calls.

    Attributes:
        input_tokens: Tokens read by the model, without those from the cache.
        cached_tokens: Tokens read from the provider's cache.
        output_tokens: Tokens written by the model, including its reasoning.
        cache_write_tokens: The part of ``input_tokens`` that was written to the cache, for which
            some providers charge more.
        reasoning_tokens: The part of ``output_tokens`` that the endpoint reports as reasoning.
    """

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def all_tokens(self) -> int:
        """Sum of tokens read and written."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class Pricing(Protocol):
    """Prices of one model."""

    def cost_usd(self, usage: Usage) -> float | None:
        """Return the cost of one call in US dollars; ``None`` if the price is unknown."""


@dataclass(frozen=True, slots=True)
class Price:
    """A configured price in US dollars per million tokens.

    If ``cached_usd_per_mtok`` is ``None``, cached tokens have the price of input tokens.
    """

    input_usd_per_mtok: float
    output_usd_per_mtok: float
    cached_usd_per_mtok: float | None = None

    def cost_usd(self, usage: Usage) -> float:
        """Return the sum of tokens times price; tokens written to the cache are input tokens."""
        cached = self.cached_usd_per_mtok
        total = (
            usage.input_tokens * self.input_usd_per_mtok
            + usage.cached_tokens * (self.input_usd_per_mtok if cached is None else cached)
            + usage.output_tokens * self.output_usd_per_mtok
        )
        return total / _MILLION


@dataclass(frozen=True, slots=True)
class BatchPrice:
    """A price times the factor of the Batch API."""

    direct: Pricing
    factor: float

    def cost_usd(self, usage: Usage) -> float | None:
        """Return the cost of one request in US dollars; ``None`` if the price is unknown."""
        cost = self.direct.cost_usd(usage)
        return None if cost is None else cost * self.factor


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that has not been made: its input tokens and the limit of its output tokens."""

    input_tokens: int
    max_output_tokens: int

    def worst_case_usd(self, pricing: Pricing) -> float | None:
        """Return the worst-case cost; ``None`` if the price is unknown.

        It assumes that nothing is read from the cache and all input is written to it. It is an
        upper bound if ``input_tokens`` is not too low.
        """
        usage = Usage(self.input_tokens, 0, self.max_output_tokens, self.input_tokens)
        return pricing.cost_usd(usage)


def worst_case_usd(calls: Iterable[PlannedCall], pricing: Pricing) -> float | None:
    """Return the worst-case cost of several calls together; ``None`` if the price is unknown."""
    total = 0.0
    for call in calls:
        cost = call.worst_case_usd(pricing)
        if cost is None:
            return None
        total += cost
    return total
