"""A budget: what is reserved and spent, what is let in and why not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.budget.run_budget import (
    Budget,
    BudgetLimits,
    Deferred,
    Limit,
    MeteredCall,
    Reservation,
)


def admitted(budget: Budget, most_usd: float | None) -> Reservation:
    """A session that must fit."""
    found = budget.admit(most_usd)
    assert isinstance(found, Reservation), found
    return found


def deferred(budget: Budget, most_usd: float | None) -> Deferred:
    """One that must not."""
    found = budget.admit(most_usd)
    assert isinstance(found, Deferred)
    return found


def test_sessions_are_admitted_while_the_most_they_can_cost_fits() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))

    for _ in range(3):
        admitted(budget, 0.3)

    assert budget.reserved_usd == 0.9
    assert deferred(budget, 0.3) == Deferred(
        Limit.RUN_COST,
        "up to $0.3000 more does not fit into $1.0000 (max_cost_of_run): $0.0000 spent and $0.9000 "
        "reserved",
    )
    admitted(budget, 0.1)  # 0.9 + 0.1 is the limit, and no more than it


def test_a_session_that_costs_less_than_reserved_makes_room_for_others() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    first = admitted(budget, 0.8)
    deferred(budget, 0.3)

    first.settle(0.5, 0.1)  # of the two calls planned, 0.5 and 0.3, one is made
    assert (budget.reserved_usd, budget.spent_usd) == (0.3, 0.1)
    first.close()

    assert (budget.reserved_usd, budget.spent_usd) == (0.0, 0.1)
    assert (first.reserved_usd, first.spent_usd) == (0.0, 0.1)
    admitted(budget, 0.9)


def test_a_session_that_alone_exceeds_the_limit_is_told_so_and_keeps_nobody_else_out() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))

    assert deferred(budget, 1.01).reason.endswith("; it alone is more than the limit")
    admitted(budget, 1.0)


def test_the_number_of_sessions_is_limited() -> None:
    budget = Budget(BudgetLimits(max_sessions=2))
    admitted(budget, 5.0)
    admitted(budget, None).settle(None, None)

    refused = deferred(budget, 0.0)

    assert refused.limit is Limit.MAX_SESSIONS
    assert refused.reason == "the run has its 2 sessions (max_sessions)"


def test_a_session_for_which_no_call_was_made_does_not_count() -> None:
    budget = Budget(BudgetLimits(max_sessions=1))
    reservation = admitted(budget, 0.1)
    reservation.close()
    reservation.close()
    assert budget.admitted_sessions == 0

    used = admitted(budget, 0.1)
    used.settle(0.1, 0.0)
    used.close()
    assert budget.admitted_sessions == 1
    deferred(budget, 0.1)


@pytest.mark.parametrize("limits", [BudgetLimits(max_run_usd=5.0), BudgetLimits(max_day_usd=5.0)])
def test_a_limit_on_money_refuses_a_model_without_a_price(limits: BudgetLimits) -> None:
    refused = deferred(Budget(limits), None)

    assert refused.limit is Limit.UNKNOWN_PRICE
    assert "set EVAL_JUDGE_INPUT_USD_PER_MTOK" in refused.reason
    assert admitted(Budget(limits), 0.1).extend(None) == refused


def test_without_a_limit_on_money_calls_without_a_price_are_counted_and_in_no_sum() -> None:
    budget = Budget(BudgetLimits(max_sessions=5))
    reservation = admitted(budget, None)

    assert reservation.extend(None) is None
    reservation.settle(None, None)
    reservation.settle(None, None)

    assert (budget.unpriced_calls, budget.spent_usd, reservation.spent_usd) == (2, 0.0, 0.0)
    assert budget.overrun_usd == 0


def test_a_call_of_unknown_cost_is_booked_as_the_most_it_can_have_cost() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))

    admitted(budget, 0.4).settle(0.4, None)

    assert (budget.spent_usd, budget.unpriced_calls) == (0.4, 0)


def test_a_call_that_costs_more_than_reserved_is_booked_as_it_is_and_stops_the_rest() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    dear, other = admitted(budget, 0.5), admitted(budget, 0.5)

    dear.settle(0.5, 0.7)

    # 0.7 spent and 0.5 still reserved, of 1.0
    assert budget.overrun_usd == 0.2
    assert isinstance(other.extend(0.0), Deferred)
    deferred(budget, 0.0)
    other.settle(0.5, 0.1)
    assert budget.overrun_usd == 0  # 0.7 + 0.1
    admitted(budget, 0.2)


def test_a_retry_of_a_call_that_may_have_been_charged_is_paid_for_twice() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    reservation = admitted(budget, 0.4)
    call = MeteredCall(reservation, 0.4)

    assert call.may_pay_again()
    assert (budget.spent_usd, budget.reserved_usd) == (0.4, 0.4)
    call.settle(0.25)

    assert (budget.spent_usd, budget.reserved_usd) == (0.65, 0.0)


def test_a_retry_that_does_not_fit_is_not_made_and_takes_nothing_from_other_calls() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    reservation = admitted(budget, 0.9)  # a call of 0.6, then one of 0.3
    call = MeteredCall(reservation, 0.6)

    assert not call.may_pay_again()
    call.settle(0.0)

    assert (budget.spent_usd, reservation.reserved_usd) == (0.6, 0.3)


def test_a_retry_that_another_limit_forbids_gives_back_what_was_reserved_for_it() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    reservation = admitted(budget, 0.4)
    call = MeteredCall(reservation, 0.25)
    assert call.may_pay_again()  # 0.25 feared, and of 0.4 + 0.25 the other 0.4 reserved

    call.give_up()
    call.settle(0.0)

    assert (budget.spent_usd, budget.reserved_usd) == (0.25, 0.15)  # 0.4 - 0.25 for other calls
    unpriced = MeteredCall(admitted(Budget(BudgetLimits()), None), None)
    assert unpriced.may_pay_again()
    unpriced.give_up()  # nothing was reserved, nothing is given back


@pytest.mark.parametrize("usd", [-0.1, math.nan, math.inf])
def test_money_is_a_number_that_is_not_negative(usd: float) -> None:
    with pytest.raises(ValueError, match="money is 0 or more"):
        Budget(BudgetLimits()).admit(usd)


def test_sums_of_small_amounts_do_not_drift() -> None:
    budget = Budget(BudgetLimits(max_run_usd=0.3))
    for _ in range(3):
        admitted(budget, 0.1).settle(0.1, 0.1)  # as floats, 0.1 + 0.1 + 0.1 > 0.3

    assert budget.spent_usd == 0.3
    deferred(budget, 0.000000001)


# An even number of billionths of a dollar: half of it is whole too.
_MONEY = st.integers(min_value=0, max_value=10**9).map(lambda number: number / (5 * 10**8))
_STEPS = st.tuples(
    st.sampled_from(["admit", "call", "unknown", "retry", "refused", "reminder", "close"]),
    st.integers(min_value=0, max_value=31),
    _MONEY,
    st.floats(min_value=0, max_value=1),
)


@given(run_usd=_MONEY, steps=st.lists(_STEPS, max_size=60))
def test_no_order_of_events_leads_above_a_limit_as_long_as_no_call_exceeds_its_estimate(
    run_usd: float, steps: list[tuple[str, int, float, float]]
) -> None:
    """Up to 32 sessions at once, in any order; each call costs a share of what was reserved."""
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
        assert budget.overrun_usd == 0
        assert budget.reserved_usd >= 0
        assert committed <= run_usd + 1e-9


def _step(
    what: str, reservation: Reservation, calls: list[float], usd: float, share: float
) -> None:
    """One event of a session whose ``calls`` are reserved and not yet made."""
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
        if what == "refused":  # by another budget
            call.give_up()
        call.settle(None if what == "unknown" else most * share)
