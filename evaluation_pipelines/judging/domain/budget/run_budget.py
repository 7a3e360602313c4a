"""Budget of a judge run: money is reserved before it is spent.

All runs together share the daily limit, which is enforced elsewhere (``day_budget``).

A session is admitted if the worst-case cost of its planned calls fits into every limit. That amount
stays reserved until each call is settled with its actual cost, so that the limits hold for any
number of concurrent calls. Calls that were not planned, such as a reminder or the retry of a call
that may have been charged, are reserved when they are needed, or not made.

The sum of reserved and settled money never exceeds a limit as long as no call costs more than was
reserved for it. If a call costs more, its actual cost is booked, because the money is spent. The
sum may then exceed the limit by the difference (``Budget.overrun_usd``), and nothing is admitted or
extended until it is below the limit again.

Costs are rounded up and limits down, to billionths of a dollar.
"""

from dataclasses import dataclass
from enum import StrEnum

from evaluation_pipelines.judging.domain.budget.money import (
    NANO,
    cost_nano,
    format_nano,
    limit_nano,
)


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
    def admitted_sessions(self) -> int:
        """Number of sessions that count against ``max_sessions``."""
        return self._totals.sessions

    @property
    def reserved_usd(self) -> float:
        """Amount reserved for calls that are planned or in flight."""
        return self._totals.reserved / NANO

    @property
    def spent_usd(self) -> float:
        """Amount settled by this run, without ``unpriced_calls``."""
        return self._totals.settled / NANO

    @property
    def unpriced_calls(self) -> int:
        """Number of calls with unknown cost, which are in no sum."""
        return self._totals.unpriced_calls

    @property
    def overrun_usd(self) -> float:
        """Amount by which reserved and settled money exceed the limit of the run, or 0."""
        return max(self._totals.excess(), 0) / NANO

    def admit(self, worst_case_usd: float | None) -> "Reservation | Deferred":
        """Reserve the worst-case cost of a session.

        Args:
            worst_case_usd: Worst-case cost (``pricing.worst_case_usd``). ``None`` is unknown, which
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
        if booked is None:
            self._totals.unpriced_calls += 1
            return
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
        self.unpriced_calls = 0
        self._limit = None if limits.max_run_usd is None else limit_nano(limits.max_run_usd)

    def excess(self) -> int:
        """Return by how much reserved and settled money exceed the limit; 0 or less if below."""
        return 0 if self._limit is None else self.reserved + self.settled - self._limit

    def reserve(self, nano: int) -> Deferred | None:
        """Reserve an amount; return the limit if it does not fit."""
        if self._limit is not None and self.excess() + nano > 0:
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
        reason += "; this alone exceeds the limit"
    return Deferred(limit, reason)


def _unknown_price() -> Deferred:
    return Deferred(
        Limit.UNKNOWN_PRICE,
        "the price of the model is unknown, so limits on money cannot be enforced: set "
        "EVAL_JUDGE_INPUT_USD_PER_MTOK and EVAL_JUDGE_OUTPUT_USD_PER_MTOK, or remove the limits",
    )
