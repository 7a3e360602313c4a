"""The budget of a judge run: money is reserved before it is spent.

The limit of a day is not kept here: runs beside each other share it (``day_budget``).

A session is admitted when the most that its planned calls can cost still fits under every limit.
That much stays reserved until each call is settled with what it truly cost, so that the limits
hold however many calls are under way. Whatever is not planned, a retry of a call that may have
been charged or a reminder, is reserved when it comes to that, or not made.

The sum of what is reserved and settled never exceeds a limit as long as no call costs more than
was reserved for it. A call that does cost more is booked as it is: money that is gone is gone. The
sum may then exceed the limit by the difference (``Budget.overrun_usd``), and nothing more is
admitted or extended until it is back below.

Costs are rounded up and limits down, to billionths of a dollar.
"""

from dataclasses import dataclass
from enum import StrEnum

from evaluation_pipelines.judging.domain.budget.money import NANO, dollars, nano_down, nano_up


class Limit(StrEnum):
    """What keeps a session out."""

    MAX_SESSIONS = "max_sessions"
    RUN_COST = "max_cost_of_run"
    DAY_COST = "max_cost_of_day"
    UNKNOWN_PRICE = "unknown_price"


@dataclass(frozen=True, slots=True)
class Deferred:
    """Something does not fit; ``reason`` is a sentence for people."""

    limit: Limit
    reason: str


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits of a run; None is no limit. Money in US dollars."""

    max_sessions: int | None = None
    max_run_usd: float | None = None
    max_day_usd: float | None = None

    @property
    def cap_money(self) -> bool:
        """Whether any of them is about money."""
        return self.max_run_usd is not None or self.max_day_usd is not None


class Budget:
    """What a run may spend, has reserved and has spent. One thread at a time."""

    def __init__(self, limits: BudgetLimits) -> None:
        """Begin a run."""
        self._till = _Totals(limits)

    @property
    def admitted_sessions(self) -> int:
        """Sessions that count against ``max_sessions``."""
        return self._till.sessions

    @property
    def reserved_usd(self) -> float:
        """Reserved for calls that are planned or under way."""
        return self._till.held / NANO

    @property
    def spent_usd(self) -> float:
        """Settled by this run; without the calls of ``unpriced_calls``."""
        return self._till.settled / NANO

    @property
    def unpriced_calls(self) -> int:
        """Calls whose cost is unknown, and is in no sum."""
        return self._till.unpriced_calls

    @property
    def overrun_usd(self) -> float:
        """How far what is reserved and settled lies above the limit of the run; 0 when below."""
        return max(self._till.over(), 0) / NANO

    def admit(self, most_usd: float | None) -> "Reservation | Deferred":
        """Reserve the most that a session can cost, or say what keeps it out.

        Args:
            most_usd: See ``pricing.most_usd``; None is unknown, which a limit on money refuses.
        """
        most_sessions = self._till.limits.max_sessions
        if most_sessions is not None and self._till.sessions >= most_sessions:
            what = f"the run has its {most_sessions} sessions ({Limit.MAX_SESSIONS})"
            return Deferred(Limit.MAX_SESSIONS, what)
        reservation = Reservation(self._till)
        refused = reservation.extend(most_usd)
        if refused is not None:
            return refused
        self._till.sessions += 1
        return reservation


class Reservation:
    """Money reserved for one session."""

    def __init__(self, till: "_Totals") -> None:
        self._till = till
        self._held = 0
        self._settled = 0
        self._counts = True
        self._used = False

    @property
    def reserved_usd(self) -> float:
        """Still reserved."""
        return self._held / NANO

    @property
    def spent_usd(self) -> float:
        """Settled so far, charges that are only feared included; unpriced calls left out."""
        return self._settled / NANO

    def extend(self, most_usd: float | None) -> Deferred | None:
        """Reserve more for a call that was not planned; what keeps it out when it does not fit."""
        if most_usd is None:
            return _unknown_price() if self._till.limits.cap_money else None
        nano = nano_up(most_usd)
        refused = self._till.hold(nano)
        if refused is None:
            self._held += nano
        return refused

    def give_back(self, most_usd: float) -> None:
        """Take back what ``extend`` reserved for a call that is not made after all."""
        self._release(nano_up(most_usd))

    def settle(self, most_usd: float | None, actual_usd: float | None) -> None:
        """Book a call that was made.

        Args:
            most_usd: What was reserved for it; None when the price is unknown.
            actual_usd: What it cost, 0 when it was not charged. None is unknown: then the most
                that it can have cost is booked.
        """
        self._used = True
        self._release(0 if most_usd is None else min(nano_up(most_usd), self._held))
        booked = most_usd if actual_usd is None else actual_usd
        if booked is None:
            self._till.unpriced_calls += 1
            return
        self._settled += nano_up(booked)
        self._till.settled += nano_up(booked)

    def close(self) -> None:
        """Give back what is left; a session without a single call does not count as one.

        May be called again, which changes nothing.
        """
        self._release(self._held)
        if self._counts and not self._used:
            self._till.sessions -= 1
        self._counts = False

    def _release(self, nano: int) -> None:
        self._held -= nano
        self._till.held -= nano


class MeteredCall:
    """One call with its retries, booked on the reservation of its session."""

    def __init__(self, reservation: Reservation, most_usd: float | None) -> None:
        """Begin a call for which ``most_usd`` is already reserved."""
        self._reservation = reservation
        self._most_usd = most_usd

    @property
    def most_usd(self) -> float | None:
        """What is reserved for it; None when the price is unknown."""
        return self._most_usd

    def may_pay_again(self) -> bool:
        """Book an attempt that may have been charged, and reserve another one if it fits."""
        self._reservation.settle(self._most_usd, None)
        fits = self._reservation.extend(self._most_usd) is None
        if not fits:
            self._most_usd = 0.0  # nothing is reserved for it any more
        return fits

    def give_up(self) -> None:
        """The attempt that ``may_pay_again`` reserved is not made."""
        self._reservation.give_back(self._most_usd or 0.0)
        self._most_usd = 0.0

    def settle(self, actual_usd: float | None) -> None:
        """Book the last attempt, as ``Reservation.settle`` does."""
        self._reservation.settle(self._most_usd, actual_usd)


class _Totals:
    """What all reservations of a run hold and have settled together, in billionths."""

    def __init__(self, limits: BudgetLimits) -> None:
        self.limits = limits
        self.sessions = 0
        self.held = 0
        self.settled = 0
        self.unpriced_calls = 0
        self._cap = None if limits.max_run_usd is None else nano_down(limits.max_run_usd)

    def over(self) -> int:
        """How far reserved and settled lie above the limit; 0 or less when below."""
        return 0 if self._cap is None else self.held + self.settled - self._cap

    def hold(self, nano: int) -> Deferred | None:
        """Reserve that much, or say why it does not fit."""
        if self._cap is not None and self.over() + nano > 0:
            used = f"{dollars(self.settled)} spent and {dollars(self.held)} reserved"
            return too_dear(Limit.RUN_COST, nano, self._cap, used)
        self.held += nano
        return None


def too_dear(limit: Limit, nano: int, cap: int, used: str) -> Deferred:
    """That an amount does not fit into a limit (billionths), beside what is ``used`` of it."""
    what = f"up to {dollars(nano)} more does not fit into {dollars(cap)} ({limit}): {used}"
    if nano > cap:
        what += "; it alone is more than the limit"
    return Deferred(limit, what)


def _unknown_price() -> Deferred:
    return Deferred(
        Limit.UNKNOWN_PRICE,
        "the price of the model is unknown, so that no limit on money can be kept: set "
        "EVAL_JUDGE_INPUT_USD_PER_MTOK and EVAL_JUDGE_OUTPUT_USD_PER_MTOK, or lift the limit",
    )
