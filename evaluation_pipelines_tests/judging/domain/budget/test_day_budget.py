"""The budget that all runs of a day share."""

from datetime import datetime, timedelta, timezone

import pytest

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation, day_begin_us
from evaluation_pipelines.judging.domain.budget.run_budget import Deferred, Limit


def test_a_stake_fits_up_to_the_limit_and_not_a_billionth_above() -> None:
    stake = DayReservation(asked_usd=0.25, later_usd=0.05, most_of_day_usd=1.0)

    assert stake.refusal(0.1 + 0.2 + 0.4) is None  # as floats 0.7000000000000001
    assert stake.refusal(0.700000001) == Deferred(
        Limit.DAY_COST,
        "up to $0.3000 more does not fit into $1.0000 (max_cost_of_day): $0.7000 spent or set "
        "aside today by all runs together",
    )


@pytest.mark.parametrize(
    ("stake", "others_usd"),
    [
        (DayReservation(5.0), 1e9),  # no limit
        (DayReservation(0.0, 0.0, 1.0), 2.0),  # nothing more is to be paid
    ],
)
def test_what_costs_no_more_fits_in_any_case(stake: DayReservation, others_usd: float) -> None:
    assert stake.refusal(others_usd) is None


def test_a_stake_above_the_whole_limit_is_told_so() -> None:
    refused = DayReservation(0.6, 0.5, 1.0).refusal(0.0)

    assert refused is not None
    assert refused.reason.endswith("; it alone is more than the limit")


def test_the_day_begins_at_midnight_utc_wherever_one_is() -> None:
    # 01:30 on 2 June at +02:00 is 23:30 on 1 June in UTC: 1 June 2026 began 1 780 272 000 s after
    # 1970 (20 605 days of 86 400 s).
    there = timezone(timedelta(hours=2))
    assert day_begin_us(datetime(2026, 6, 2, 1, 30, tzinfo=there)) == 1_780_272_000_000_000
