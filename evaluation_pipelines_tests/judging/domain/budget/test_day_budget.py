"""Budget shared by all runs of a day."""

from datetime import datetime, timedelta, timezone

import pytest

from evaluation_pipelines.judging.domain.budget import DayReservation, Deferred, Limit, day_begin_us


def test_a_reservation_fits_up_to_the_limit_and_not_a_billionth_above() -> None:
    reservation = DayReservation(now_usd=0.25, later_usd=0.05, max_day_usd=1.0)

    assert reservation.refusal(0.1 + 0.2 + 0.4) is None  # as floats 0.7000000000000001
    assert reservation.refusal(0.700000001) == Deferred(
        Limit.DAY_COST,
        "up to $0.3000 more does not fit into $1.0000 (max_cost_of_day): $0.7000 spent or reserved "
        "today by all runs together",
    )


@pytest.mark.parametrize(
    ("reservation", "others_usd"),
    [
        (DayReservation(5.0), 1e9),  # no limit
        (DayReservation(0.0, 0.0, 1.0), 2.0),  # the cost is zero
    ],
)
def test_a_reservation_without_cost_or_limit_always_fits(
    reservation: DayReservation, others_usd: float
) -> None:
    assert reservation.refusal(others_usd) is None


def test_without_following_calls_only_the_calls_made_now_are_reserved() -> None:
    reservation = DayReservation(0.25, max_day_usd=1.0)

    assert reservation.total_usd == 0.25
    assert reservation.refusal(0.75) is None


def test_a_reservation_above_the_whole_limit_is_refused_with_that_reason() -> None:
    refused = DayReservation(0.6, 0.5, 1.0).refusal(0.0)

    assert refused is not None
    assert refused.reason.endswith("; this alone exceeds the limit")


def test_the_day_begins_at_midnight_utc_in_any_time_zone() -> None:
    # 01:30 on 2 June at +02:00 is 23:30 on 1 June in UTC: 1 June 2026 began 1 780 272 000 s after
    # 1970 (20 605 days of 86 400 s).
    there = timezone(timedelta(hours=2))
    assert day_begin_us(datetime(2026, 6, 2, 1, 30, tzinfo=there)) == 1_780_272_000_000_000
