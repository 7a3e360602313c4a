"""Budget of a run: reservations, settled costs and refusals."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.budget import (
    Budget,
    BudgetLimits,
    Deferred,
    Limit,
    MeteredCall,
    Reservation,
)


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
    admitted(budget, 0.9)


def test_a_session_that_alone_exceeds_the_limit_does_not_block_others() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))

    assert deferred(budget, 1.01).reason.endswith("; this alone exceeds the limit")
    admitted(budget, 1.0)
    # As much as the limit would have fit into it alone.
    assert deferred(budget, 1.0).reason.endswith("$0.0000 spent and $1.0000 reserved")


def test_the_number_of_sessions_is_limited() -> None:
    budget = Budget(BudgetLimits(max_sessions=2))
    admitted(budget, 5.0)
    admitted(budget, None).settle(None, None)

    refused = deferred(budget, 0.0)

    assert refused.limit is Limit.MAX_SESSIONS
    assert refused.reason == "the run has reached its 2 sessions (max_sessions)"


def test_a_session_without_a_call_does_not_count() -> None:
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


def test_without_a_limit_on_money_unpriced_calls_are_only_counted() -> None:
    budget = Budget(BudgetLimits(max_sessions=5))
    reservation = admitted(budget, None)

    assert reservation.extend(None) is None
    reservation.settle(None, None)
    reservation.settle(None, None)

    assert (budget.unpriced_calls, budget.spent_usd, reservation.spent_usd) == (2, 0.0, 0.0)
    assert (budget.reserved_usd, reservation.reserved_usd) == (0.0, 0.0)
    assert budget.overrun_usd == 0


def test_a_call_of_unknown_cost_is_booked_at_its_maximum_cost() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))

    admitted(budget, 0.4).settle(0.4, None)

    assert (budget.spent_usd, budget.unpriced_calls) == (0.4, 0)


def test_a_call_above_its_reservation_is_booked_in_full_and_stops_the_rest() -> None:
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


def test_a_retry_of_a_possibly_charged_call_is_reserved_again() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    reservation = admitted(budget, 0.4)
    call = MeteredCall(reservation, 0.4)

    assert call.may_pay_again()
    assert (budget.spent_usd, budget.reserved_usd) == (0.4, 0.4)
    call.settle(0.25)

    assert (budget.spent_usd, budget.reserved_usd) == (0.65, 0.0)


def test_a_retry_that_does_not_fit_takes_nothing_from_other_calls() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    reservation = admitted(budget, 0.9)  # a call of 0.6, then one of 0.3
    call = MeteredCall(reservation, 0.6)

    assert not call.may_pay_again()
    call.settle(0.0)

    assert (budget.spent_usd, reservation.reserved_usd) == (0.6, 0.3)


def test_a_retry_refused_by_another_limit_returns_its_reservation() -> None:
    budget = Budget(BudgetLimits(max_run_usd=1.0))
    reservation = admitted(budget, 0.4)
    call = MeteredCall(reservation, 0.25)
    assert call.may_pay_again()  # 0.25 possibly charged; 0.4 remain reserved

    call.cancel_retry()
    call.settle(0.0)

    assert (budget.spent_usd, budget.reserved_usd) == (0.25, 0.15)  # 0.4 - 0.25 for other calls


def test_a_refused_retry_of_unknown_price_releases_nothing() -> None:
    budget = Budget(BudgetLimits())
    admitted(budget, 0.3)  # of another session
    unpriced = MeteredCall(admitted(budget, None), None)
    assert unpriced.may_pay_again()

    unpriced.cancel_retry()

    assert (budget.reserved_usd, budget.unpriced_calls) == (0.3, 1)


@pytest.mark.parametrize("usd", [-0.1, math.nan, math.inf])
def test_money_must_be_a_number_that_is_not_negative(usd: float) -> None:
    with pytest.raises(ValueError, match="a cost must be 0 or more"):
        Budget(BudgetLimits()).admit(usd)


def test_sums_of_small_amounts_do_not_drift() -> None:
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
        assert budget.overrun_usd == 0
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
