"""Money: prices, possible token counts, reservations of a run, and the budget of a day."""

import math
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.budget import (
    Budget,
    BudgetLimits,
    DayReservation,
    Deferred,
    Exchange,
    Limit,
    MeteredCall,
    PlannedCall,
    Price,
    Reservation,
    Usage,
    day_begin_us,
    worst_case_usd,
)


class Unpriced:
    """Pricing of an unknown model."""

    def cost_usd(self, usage: Usage) -> float | None:
        """Return ``None``: the price is unknown."""
        return None


ALL, NO_CACHE = Price(2.0, 8.0, 0.5), Price(2.0, 8.0)


@pytest.mark.parametrize(
    ("price", "usage", "usd"),
    [
        # (1,000 * 2 + 4,000 * 0.5 + 300 * 8) / 1,000,000 = (2,000 + 2,000 + 2,400) / 1,000,000
        (ALL, Usage(1_000, 4_000, 300), 0.0064),
        (NO_CACHE, Usage(1_000_000, 0, 0), 2.0),
        (NO_CACHE, Usage(0, 0, 1_000_000), 8.0),
        # Cached tokens without a price cost as much as input: 5,000 tokens at $2 per million.
        (NO_CACHE, Usage(1_000, 4_000, 0), 0.01),
        (Price(2.0, 8.0, 0.0), Usage(1_000, 4_000, 0), 0.002),
        # Tokens written to the cache are input and not charged twice.
        (NO_CACHE, Usage(1_000, 0, 0, 700), 0.002),
    ],
)
def test_a_cost_is_the_sum_of_tokens_times_their_prices(
    price: Price, usage: Usage, usd: float
) -> None:
    assert price.cost_usd(usage) == pytest.approx(usd)


def test_usage_of_several_calls_adds_up() -> None:
    assert Usage(10, 20, 3) + Usage(1, 2, 30) == Usage(11, 22, 33, 0)
    both = Usage(10, 20, 3, 4) + Usage(1, 2, 30, 40)

    assert both == Usage(11, 22, 33, 44)
    assert both.all_tokens == 66  # 11 + 22 + 33; cache writes are included in the 11


def test_worst_case_costs_of_several_calls_add_up() -> None:
    calls = (PlannedCall(10_000, 4_000), PlannedCall(10_000, 4_000), PlannedCall(14_500, 4_000))
    # (10,000 + 10,000 + 14,500) * 2 + 3 * 4,000 * 8 = 69,000 + 96,000
    assert worst_case_usd(calls, Price(2.0, 8.0, 0.1)) == pytest.approx(0.165)
    assert worst_case_usd([PlannedCall(10, 10)], Unpriced()) is None
    assert worst_case_usd([], Unpriced()) == 0


EXCHANGE = Exchange(
    sent_bytes=8_000, sent_tokens=2_100, reply_bytes=1_000, reply_tokens=260, max_output_tokens=500
)


@pytest.mark.parametrize(
    ("usage", "is_possible"),
    [
        (Usage(2_000, 0, 250), True),
        (Usage(100, 1_900, 250), True),
        (Usage(10_000, 0, 1), True),  # a byte for each token, and a long template of the server
        (Usage(2_000, 0, 1_000), True),  # the server ignored the limit
        (Usage(2_000, 0, 900, reasoning_tokens=500), True),
        (Usage(2_000, 0, 30_000, reasoning_tokens=29_750), True),
        (Usage(2_000, 0, 200_250, reasoning_tokens=200_000), True),
        # Nothing for text, and more than was sent or allowed.
        (Usage(0, 0, 0), False),
        (Usage(2_000, 0, 0), False),
        (Usage(0, 0, 250), False),
        (Usage(10_001, 0, 250), False),
        (Usage(0, 10**9, 250), False),
        (Usage(2_000, 0, 1_001), False),
        (Usage(2_000, 0, 10**9), False),
        (Usage(2_000, 0, 10**9, reasoning_tokens=10**9), False),
        (Usage(2_000, 0, 200_251, reasoning_tokens=200_001), False),
    ],
)
def test_counts_of_such_an_exchange_are_possible_or_not(usage: Usage, is_possible: bool) -> None:
    assert EXCHANGE.is_possible(usage) is is_possible


def test_an_empty_reply_may_have_no_tokens_and_the_estimate_has_none_from_the_cache() -> None:
    assert Exchange(8_000, 2_100, 0, 0, 500).is_possible(Usage(2_000, 0, 0))
    assert EXCHANGE.estimate() == Usage(2_100, 0, 260)


def admitted(budget: Budget, worst_case_usd: float | None) -> Reservation:
    """Admit a session and return its reservation."""
    found = budget.admit(worst_case_usd)
    assert isinstance(found, Reservation), found
    return found


def deferred(budget: Budget, worst_case_usd: float | None) -> Deferred:
    """Return the reason why a session is refused."""
    found = budget.admit(worst_case_usd)
    assert isinstance(found, Deferred)
    return found


def test_sessions_are_admitted_while_their_maximum_cost_fits() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))

    for _ in range(3):
        admitted(budget, 0.3)

    assert budget.reserved_usd == 0.9
    assert deferred(budget, 0.3) == Deferred(
        Limit.RUN_COST,
        "up to $0.3000 more does not fit into $1.0000 (max_cost_of_run): $0.0000 spent and $0.9000 "
        "reserved",
    )
    admitted(budget, 0.1)  # 0.9 + 0.1 is exactly the limit


def test_a_session_that_costs_less_than_reserved_makes_room_for_others() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    first = admitted(budget, 0.8)
    deferred(budget, 0.3)

    first.settle(0.5, 0.1)  # one of the two planned calls, 0.5 and 0.3, is made
    assert (budget.reserved_usd, budget.spent_usd) == (0.3, 0.1)
    first.close()

    assert (budget.reserved_usd, budget.spent_usd) == (0.0, 0.1)
    assert (first.reserved_usd, first.spent_usd) == (0.0, 0.1)
    admitted(budget, 0.9).settle(0.9, None)
    assert budget.spent_usd == 1.0  # a call of unknown cost is booked at its maximum cost


def test_a_session_that_alone_exceeds_the_limit_does_not_block_others() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))

    assert deferred(budget, 1.01).reason.endswith(", this alone exceeds the limit")
    admitted(budget, 1.0)
    # As much as the limit would have fit into it alone.
    assert deferred(budget, 1.0).reason.endswith("$0.0000 spent and $1.0000 reserved")


def test_the_number_of_sessions_with_a_call_is_limited() -> None:
    budget = Budget(BudgetLimits(max_sessions=2))
    unused = admitted(budget, 0.1)
    unused.close()
    unused.close()
    used = admitted(budget, 5.0)
    used.settle(0.1, 0.0)
    used.close()
    admitted(budget, None).settle(None, None)

    refused = deferred(budget, 0.0)

    assert refused.limit is Limit.MAX_SESSIONS
    assert refused.reason == "the run has reached its 2 sessions (max_sessions)"


@pytest.mark.parametrize("limits", [BudgetLimits(max_run_usd=5.0), BudgetLimits(max_day_usd=5.0)])
def test_a_limit_on_money_refuses_a_model_without_a_price(limits: BudgetLimits) -> None:
    refused = deferred(Budget(limits), None)

    assert refused.limit is Limit.UNKNOWN_PRICE
    assert "set EVAL_JUDGE_INPUT_USD_PER_MTOK" in refused.reason
    assert admitted(Budget(limits), 0.1).extend(None) == refused


def test_without_a_limit_on_money_unpriced_calls_are_in_no_sum() -> None:
    budget = Budget(BudgetLimits(max_sessions=5))
    reservation = admitted(budget, None)

    assert reservation.extend(None) is None
    reservation.settle(None, None)
    reservation.settle(None, None)

    assert (budget.spent_usd, reservation.spent_usd) == (0.0, 0.0)
    assert (budget.reserved_usd, reservation.reserved_usd) == (0.0, 0.0)


def test_a_call_above_its_reservation_is_booked_in_full_and_stops_the_rest() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    dear, other = admitted(budget, 0.5), admitted(budget, 0.5)

    dear.settle(0.5, 0.7)

    # Of 1.0.
    assert (budget.spent_usd, budget.reserved_usd) == (0.7, 0.5)
    assert isinstance(other.extend(0.0), Deferred)
    deferred(budget, 0.0)
    other.settle(0.5, 0.1)  # 0.7 + 0.1
    admitted(budget, 0.2)


def test_a_retry_of_a_possibly_charged_call_is_reserved_again() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    reservation = admitted(budget, 0.4)
    call = MeteredCall(reservation, 0.4)

    assert call.may_pay_again()
    assert (budget.spent_usd, budget.reserved_usd) == (0.4, 0.4)
    call.settle(0.25)

    assert (budget.spent_usd, budget.reserved_usd) == (0.65, 0.0)


def test_a_refused_retry_takes_nothing_from_other_calls() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    reservation = admitted(budget, 0.9)  # a call of 0.6, then one of 0.3
    call = MeteredCall(reservation, 0.6)
    assert not call.may_pay_again()
    call.settle(0.0)
    assert (budget.spent_usd, reservation.reserved_usd) == (0.6, 0.3)
    # One that another limit refuses returns its reservation.
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    call = MeteredCall(admitted(budget, 0.4), 0.25)
    assert call.may_pay_again()  # 0.25 possibly charged; 0.4 remain reserved
    call.cancel_retry()
    call.settle(0.0)
    assert (budget.spent_usd, budget.reserved_usd) == (0.25, 0.15)  # 0.4 - 0.25 for other calls
    # One of unknown price releases nothing.
    budget = Budget(BudgetLimits())
    admitted(budget, 0.3)  # of another session
    unpriced = MeteredCall(admitted(budget, None), None)
    assert unpriced.may_pay_again()
    unpriced.cancel_retry()
    assert budget.reserved_usd == 0.3


def test_money_is_exact_and_not_negative() -> None:
    for usd in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="a cost must be 0 or more"):
            Budget(BudgetLimits()).admit(usd)
    budget = Budget(BudgetLimits(max_run_usd=0.3))
    for _ in range(3):
        admitted(budget, 0.1).settle(0.1, 0.1)  # as floats, 0.1 + 0.1 + 0.1 > 0.3
    assert budget.spent_usd == 0.3
    deferred(budget, 0.000000001)


# An even number of billionths of a dollar, so that half of it is an integer.
_MONEY = st.integers(min_value=0, max_value=10**9).map(lambda number: number / (5 * 10**8))
_STEPS = st.tuples(
    st.sampled_from(["admit", "call", "unknown", "retry", "refused", "reminder", "close"]),
    st.integers(min_value=0, max_value=31),
    _MONEY,
    st.floats(min_value=0, max_value=1),
)


@given(run_usd=_MONEY, steps=st.lists(_STEPS, max_size=60))
def test_no_order_of_events_exceeds_a_limit_if_no_call_exceeds_its_estimate(
    run_usd: float, steps: list[tuple[str, int, float, float]]
) -> None:
    """Run up to 32 sessions in any order; each call costs a share of its reservation."""
    budget = Budget(BudgetLimits(max_run_usd=run_usd))
    under_way: list[tuple[Reservation, list[float]]] = []
    for what, which, usd, share in steps:
        if what == "admit":
            found = budget.admit(usd)
            if isinstance(found, Reservation):
                under_way.append((found, [usd / 2, usd / 2]))
        elif under_way:
            reservation, calls = under_way[which % len(under_way)]
            _step(what, reservation, calls, usd, share)

        committed = budget.reserved_usd + budget.spent_usd
        assert budget.reserved_usd >= 0
        assert committed <= run_usd + 1e-9


def _step(
    what: str, reservation: Reservation, calls: list[float], usd: float, share: float
) -> None:
    """Apply one event to a session whose ``calls`` are reserved and not yet made."""
    if what == "close":
        reservation.close()
        calls.clear()
    elif what == "reminder":
        if reservation.extend(usd) is None:
            calls.append(usd)
    elif calls:
        most = calls.pop()
        call = MeteredCall(reservation, most)
        if what in {"retry", "refused"} and not call.may_pay_again():
            return
        if what == "refused":  # by another limit
            call.cancel_retry()
        call.settle(None if what == "unknown" else most * share)


@pytest.mark.parametrize(
    ("reservation", "others_usd", "reason"),
    [
        (DayReservation(0.25, 0.05, 1.0), 0.1 + 0.2 + 0.4, None),  # as floats 0.7000000000000001
        (
            DayReservation(0.25, 0.05, 1.0),
            0.700000001,
            "$1.0000 (max_cost_of_day): $0.7000 spent or reserved today by all runs together",
        ),
        (DayReservation(0.25, max_day_usd=1.0), 0.75, None),  # without following calls
        (DayReservation(5.0), 1e9, None),  # no limit
        (DayReservation(0.0, 0.0, 1.0), 2.0, None),  # the cost is zero
        (DayReservation(0.6, 0.5, 1.0), 0.0, ", this alone exceeds the limit"),
    ],
)
def test_a_reservation_fits_up_to_the_limit_and_not_a_billionth_above(
    reservation: DayReservation, others_usd: float, reason: str | None
) -> None:
    refused = reservation.refusal(others_usd)

    assert (refused is None) is (reason is None)
    if refused is not None:
        assert refused.limit is Limit.DAY_COST
        assert refused.reason.endswith(reason or "")
    assert DayReservation(0.25, max_day_usd=1.0).total_usd == 0.25


def test_the_day_begins_at_midnight_utc_in_any_time_zone() -> None:
    # 01:30 on 2 June at +02:00 is 23:30 on 1 June in UTC: 1 June 2026 began 1 780 272 000 s after
    # 1970 (20 605 days of 86 400 s).
    there = timezone(timedelta(hours=2))
    assert day_begin_us(datetime(2026, 6, 2, 1, 30, tzinfo=there)) == 1_780_272_000_000_000
