"""Money: prices of calls, reservations of a run, and the budget of a day.

A run reserves the highest possible cost of every call before it is made. The day (UTC) is shared by
all runs on all machines: the ledger holds what they have spent and reserved. A reservation is
written there in the same transaction that checks the sum, and such transactions are serialized: the
limit holds for any number of calls that start at the same time. It counts in full until the call is
settled: one that was in flight when its process died may have been charged.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import Protocol

from evaluation_pipelines.times import to_us

NANO = 1_000_000_000


def cost_nano(usd: float) -> int:
    """Return a cost in billionths, rounded up.

    Raises:
        ValueError: ``usd`` is negative or not finite.
    """
    if not (math.isfinite(usd) and usd >= 0):
        raise ValueError(f"a cost must be 0 or more, not {usd}")
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_CEILING))


def limit_nano(usd: float) -> int:
    """Return a limit in billionths, rounded down."""
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_FLOOR))


def format_nano(nano: int) -> str:
    """Format billionths of a dollar as ``$0.1234``."""
    return f"${nano / NANO:.4f}"


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


_TEMPLATE_TOKENS = 2_000
"""What a chat template and a hidden system prompt may add to the messages."""

_LONGEST_REASONING_TOKENS = 200_000
"""More than any model writes in one reply; some servers apply no limit to the reasoning."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its reply, as far as they limit the number of tokens.

    Attributes:
        sent_bytes: Length of all messages; a token has at least one byte.
        sent_tokens: Estimated tokens of all messages.
        reply_bytes: Length of the reply.
        reply_tokens: Estimated tokens of the reply.
        max_output_tokens: Longest reply that was allowed.
    """

    sent_bytes: int
    sent_tokens: int
    reply_bytes: int
    reply_tokens: int
    max_output_tokens: int

    def is_possible(self, usage: Usage) -> bool:
        """Return whether reported counts can be those of this exchange."""
        read = usage.input_tokens + usage.cached_tokens
        written = usage.output_tokens
        longest = max(self.max_output_tokens, self.reply_bytes)
        return (
            0 < read <= self.sent_bytes + _TEMPLATE_TOKENS
            and (written > 0 or self.reply_bytes == 0)
            and written - usage.reasoning_tokens <= longest
            and usage.reasoning_tokens <= _LONGEST_REASONING_TOKENS
        )

    def estimate(self) -> Usage:
        """Return the estimated usage."""
        return Usage(self.sent_tokens, 0, self.reply_tokens)


class Limit(StrEnum):
    """Limit that a session exceeds."""

    MAX_SESSIONS = "max_sessions"
    RUN_COST = "max_cost_of_run"
    DAY_COST = "max_cost_of_day"
    UNKNOWN_PRICE = "unknown_price"


@dataclass(frozen=True, slots=True)
class Deferred:
    """Refusal of a reservation; ``reason`` is a sentence for users."""

    limit: Limit
    reason: str


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits of a run, with money in US dollars; ``None`` is no limit."""

    max_sessions: int | None = None
    max_run_usd: float | None = None
    max_day_usd: float | None = None

    @property
    def has_cost_limit(self) -> bool:
        """True if money is limited."""
        return self.max_run_usd is not None or self.max_day_usd is not None


class Budget:
    """Limits, reservations and costs of one run; not thread-safe."""

    def __init__(self, limits: BudgetLimits) -> None:
        """Create the budget of a run."""
        self._totals = _Totals(limits)

    @property
    def reserved_usd(self) -> float:
        """Amount reserved for calls that are planned or in flight."""
        return self._totals.reserved / NANO

    @property
    def spent_usd(self) -> float:
        """Amount settled by this run, without calls of unknown price."""
        return self._totals.settled / NANO

    def take_back(self, usd: float) -> None:
        """Take back what was settled for calls that were certainly not made."""
        self._totals.settled -= cost_nano(usd)

    def admit(self, worst_case_usd: float | None) -> "Reservation | Deferred":
        """Reserve the worst-case cost of a session.

        Args:
            worst_case_usd: Worst-case cost (``worst_case_usd``). ``None`` is unknown, which
                is refused if money is limited.

        Returns:
            The reservation, or the limit that the session exceeds.
        """
        max_sessions = self._totals.limits.max_sessions
        if max_sessions is not None and self._totals.sessions >= max_sessions:
            reason = f"the run has reached its {max_sessions} sessions ({Limit.MAX_SESSIONS})"
            return Deferred(Limit.MAX_SESSIONS, reason)
        reservation = Reservation(self._totals)
        refused = reservation.extend(worst_case_usd)
        if refused is not None:
            return refused
        self._totals.sessions += 1
        return reservation


class Reservation:
    """Money reserved for one session."""

    def __init__(self, totals: "_Totals") -> None:
        self._totals = totals
        self._reserved = 0
        self._settled = 0
        self._is_counted = True
        self._is_used = False

    @property
    def reserved_usd(self) -> float:
        """Amount still reserved."""
        return self._reserved / NANO

    @property
    def spent_usd(self) -> float:
        """Amount settled so far, including possible charges, without unpriced calls."""
        return self._settled / NANO

    def extend(self, worst_case_usd: float | None) -> Deferred | None:
        """Reserve more for a call that was not planned.

        Returns:
            The limit that it exceeds; ``None`` if the amount is reserved.
        """
        if worst_case_usd is None:
            return _unknown_price() if self._totals.limits.has_cost_limit else None
        nano = cost_nano(worst_case_usd)
        refused = self._totals.reserve(nano)
        if refused is None:
            self._reserved += nano
        return refused

    def release(self, worst_case_usd: float) -> None:
        """Release what ``extend`` reserved for a call that is not made."""
        self._release(cost_nano(worst_case_usd))

    def settle(self, worst_case_usd: float | None, actual_usd: float | None) -> None:
        """Book a call that was made.

        Args:
            worst_case_usd: Amount reserved for it; ``None`` if the price is unknown.
            actual_usd: Actual cost, 0 if it was not charged. ``None`` is unknown: the reserved
                amount is booked.
        """
        self._is_used = True
        self._release(
            0 if worst_case_usd is None else min(cost_nano(worst_case_usd), self._reserved)
        )
        booked = worst_case_usd if actual_usd is None else actual_usd
        if booked is not None:
            self._settled += cost_nano(booked)
            self._totals.settled += cost_nano(booked)

    def close(self) -> None:
        """Release the rest; a session without any call no longer counts as a session.

        Further calls have no effect.
        """
        self._release(self._reserved)
        if self._is_counted and not self._is_used:
            self._totals.sessions -= 1
        self._is_counted = False

    def _release(self, nano: int) -> None:
        self._reserved -= nano
        self._totals.reserved -= nano


class MeteredCall:
    """One call with its retries, booked on the reservation of its session."""

    def __init__(self, reservation: Reservation, worst_case_usd: float | None) -> None:
        """Create a call for which ``worst_case_usd`` is already reserved."""
        self._reservation = reservation
        self._worst_case_usd = worst_case_usd
        self.unspent_usd = 0.0

    @property
    def worst_case_usd(self) -> float | None:
        """Amount reserved for the call; ``None`` if the price is unknown."""
        return self._worst_case_usd

    def may_pay_again(self) -> bool:
        """Book an attempt that may have been charged, and reserve another one if it fits."""
        self._reservation.settle(self._worst_case_usd, None)
        fits = self._reservation.extend(self._worst_case_usd) is None
        if not fits:
            self._worst_case_usd = 0.0  # nothing is reserved for it anymore
        return fits

    def cancel_retry(self) -> None:
        """Release what ``may_pay_again`` reserved for an attempt that is not made."""
        self._reservation.release(self._worst_case_usd or 0.0)
        self._worst_case_usd = 0.0

    def settle(self, actual_usd: float | None) -> None:
        """Book the last attempt; see ``Reservation.settle``.

        ``unspent_usd`` is what it cost less than was reserved for it.
        """
        self._reservation.settle(self._worst_case_usd, actual_usd)
        if actual_usd is not None:
            self.unspent_usd = (self._worst_case_usd or 0.0) - actual_usd


class _Totals:
    """Sums of all reservations of a run, in billionths of a dollar."""

    def __init__(self, limits: BudgetLimits) -> None:
        self.limits = limits
        self.sessions = 0
        self.reserved = 0
        self.settled = 0
        self._limit = None if limits.max_run_usd is None else limit_nano(limits.max_run_usd)

    def reserve(self, nano: int) -> Deferred | None:
        """Reserve an amount; return the limit if it does not fit."""
        if self._limit is not None and self.reserved + self.settled + nano > self._limit:
            usage = f"{format_nano(self.settled)} spent and {format_nano(self.reserved)} reserved"
            return over_limit(Limit.RUN_COST, nano, self._limit, usage)
        self.reserved += nano
        return None


def over_limit(limit: Limit, nano: int, max_nano: int, usage: str) -> Deferred:
    """Return the refusal of an amount (billionths) that does not fit into a limit.

    Args:
        limit: The limit.
        nano: The amount.
        max_nano: The limit in billionths.
        usage: Description of the money already used.
    """
    reason = (
        f"up to {format_nano(nano)} more does not fit into {format_nano(max_nano)} ({limit}): "
        f"{usage}"
    )
    if nano > max_nano:
        reason += ", this alone exceeds the limit"
    return Deferred(limit, reason)


def _unknown_price() -> Deferred:
    return Deferred(
        Limit.UNKNOWN_PRICE,
        "the price of the model is unknown, so limits on money cannot be enforced: set "
        "EVAL_JUDGE_INPUT_USD_PER_MTOK and EVAL_JUDGE_OUTPUT_USD_PER_MTOK, or remove the limits",
    )


@dataclass(frozen=True, slots=True)
class DayReservation:
    """Money to reserve for a judgment, in US dollars.

    Attributes:
        now_usd: Worst-case cost of the calls made now; they may be charged if the process dies.
        later_usd: Worst-case cost of calls that may never be made: those of a batch not yet sent.
        max_day_usd: Limit on the money that all runs of the day spend and reserve, including this
            reservation; ``None`` is no limit.
    """

    now_usd: float
    later_usd: float = 0.0
    max_day_usd: float | None = None

    @property
    def total_usd(self) -> float:
        """Sum of both amounts."""
        return self.now_usd + self.later_usd

    def refusal(self, others_usd: float) -> Deferred | None:
        """Return why the reservation does not fit; ``None`` if it does.

        Args:
            others_usd: Money spent and reserved today without this reservation. Amounts in the
                ledger are billionths divided by 10**9; the error of their sum is far below one
                billionth.
        """
        if self.max_day_usd is None:
            return None
        more, limit = cost_nano(self.total_usd), limit_nano(self.max_day_usd)
        used = round(others_usd * NANO)
        if more == 0 or used + more <= limit:
            return None
        usage = f"{format_nano(used)} spent or reserved today by all runs together"
        return over_limit(Limit.DAY_COST, more, limit, usage)


def day_begin_us(now: datetime) -> int:
    """Return midnight (UTC) before a time in microseconds since 1970."""
    return to_us(now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
