"""What calls of a judge cost: tokens used, prices, and the most that calls can cost beforehand."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or of several added up.

    Attributes:
        input_tokens: Read by the model, those from the cache left out.
        cached_tokens: Read from the provider's cache.
        output_tokens: Written by the model, its reasoning included.
        cache_write_tokens: Those of ``input_tokens`` that went into the cache, which some
            providers charge more for.
    """

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cache_write_tokens: int = 0

    @property
    def all_tokens(self) -> int:
        """Read and written."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


class Pricing(Protocol):
    """What tokens of one model cost."""

    def cost_usd(self, usage: Usage) -> float | None:
        """US dollars for the tokens of one call; None when the price is unknown."""


@dataclass(frozen=True, slots=True)
class Price:
    """A price that somebody gave, in US dollars for a million tokens.

    ``cached_usd_per_mtok`` is the price of input tokens where it is None.
    """

    input_usd_per_mtok: float
    output_usd_per_mtok: float
    cached_usd_per_mtok: float | None = None

    def cost_usd(self, usage: Usage) -> float:
        """Sum of tokens times price; tokens written to the cache cost what input costs."""
        cached = self.cached_usd_per_mtok
        whole = (
            usage.input_tokens * self.input_usd_per_mtok
            + usage.cached_tokens * (self.input_usd_per_mtok if cached is None else cached)
            + usage.output_tokens * self.output_usd_per_mtok
        )
        return whole / _MILLION


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that has not been made: tokens it sends, and the most it may get back."""

    input_tokens: int
    max_output_tokens: int

    def most_usd(self, pricing: Pricing) -> float | None:
        """The most it can cost: nothing comes from the cache, everything is written to it.

        It holds as long as ``input_tokens`` is not too low; None when the price is unknown.
        """
        usage = Usage(self.input_tokens, 0, self.max_output_tokens, self.input_tokens)
        return pricing.cost_usd(usage)


def planned_session(
    score_tokens: int, question_tokens: int, samples: int, max_output_tokens: int
) -> tuple[PlannedCall, ...]:
    """The calls of one session when all goes well: score turns, then the missing tools turn.

    Args:
        score_tokens: Prompt of a score turn, transcript included.
        question_tokens: What the missing tools turn adds, besides the reply that it follows.
        samples: Number of score turns.
        max_output_tokens: Longest reply.

    Reminders and retries are not planned: each is reserved when it comes to that.
    """
    score = PlannedCall(score_tokens, max_output_tokens)
    last = PlannedCall(score_tokens + max_output_tokens + question_tokens, max_output_tokens)
    return (*[score] * samples, last)


def most_usd(calls: Iterable[PlannedCall], pricing: Pricing) -> float | None:
    """The most that several calls can cost together; None when the price is unknown."""
    total = 0.0
    for call in calls:
        cost = call.most_usd(pricing)
        if cost is None:
            return None
        total += cost
    return total
