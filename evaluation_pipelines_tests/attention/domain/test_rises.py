"""Failed calls and costs of agents against the days before."""

from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.attention.domain.item import COLUMNS
from evaluation_pipelines.attention.domain.session_facts import rises
from evaluation_pipelines.schemas import AGENT_SESSIONS

TODAY = date(2026, 6, 30)


def sessions(*rows: dict[str, Any]) -> pl.DataFrame:
    usual = {"organization_id": "acme", "agent_id": "scout", "person_id": "ada", "total_tools": 10}
    schema = {name: AGENT_SESSIONS.schema[name] for name in COLUMNS}
    return pl.DataFrame([{**usual, **row} for row in rows], schema)


def people(ago: int, values: list[Any], name: str = "tools_failed") -> list[dict[str, Any]]:
    """One session of each person on a day."""
    day = TODAY - timedelta(days=ago)
    return [
        {"person_id": f"p{n}", "session_date": day, name: value} for n, value in enumerate(values)
    ]


def test_a_rise_of_failed_calls_is_told_by_the_days_of_people() -> None:
    recent, before = people(3, [3, 5] * 5), people(20, [1, 3] * 5)
    (found,) = rises(sessions(*recent, *before), TODAY)
    assert (found["measure"], found["agent_id"], found["since"]) == (
        *("failed calls", "scout"),
        date(2026, 6, 23),
    )
    assert (found["rate_before"], found["rate"]) == (0.2, 0.4)
    # Each of ten clusters of 10 calls is 1 call off: variance 10 * 10/9 / 100^2 = 0.00111 in both
    # times, error 0.0471; t with 18 degrees at 1 - 0.05/13/2 is 3.316, half 0.1563.
    assert (found["low"], found["high"]) == pytest.approx((0.0437, 0.3563), abs=1e-4)


def test_sessions_of_one_person_on_one_day_are_one_observation() -> None:
    """Ten sessions of a bad day prove nothing."""
    bad = [{**person, "person_id": "ada"} for person in people(3, [9] * 10)]
    assert rises(sessions(*bad, *people(20, [1, 3] * 5)), TODAY) == []


def test_a_small_or_an_uncertain_rise_is_none() -> None:
    before = people(20, [1, 3] * 5)
    assert rises(sessions(*people(3, [2] * 8 + [3, 1]), *before), TODAY) == []
    assert rises(sessions(*people(3, [0, 8] * 5), *before), TODAY) == []
    # Today is not over, and what is older than 35 days is not compared.
    assert rises(sessions(*people(0, [9, 8] * 5), *before), TODAY) == []
    assert rises(sessions(*people(3, [9, 8] * 5), *people(36, [1, 3] * 5)), TODAY) == []


def test_a_rise_of_the_cost_counts_from_a_quarter_on_and_unknown_costs_not() -> None:
    before = people(20, [1.0, 1.2] * 5, "cost_usd")
    unknown = people(4, [None] * 5, "cost_usd")
    (found,) = rises(sessions(*people(3, [1.5, 1.7] * 5, "cost_usd"), *before, *unknown), TODAY)
    assert found["measure"] == "cost per session"
    assert (found["rate_before"], found["rate"]) == pytest.approx((1.1, 1.6))
    assert rises(sessions(*people(3, [1.3, 1.3] * 5, "cost_usd"), *before), TODAY) == []


def test_more_sessions_of_a_day_at_the_same_cost_are_no_rise() -> None:
    """A session costs 1.1 on average in both times, a day of a person 1.1 and then 2.2."""
    usual, twice = people(20, [1.0, 1.2] * 5, "cost_usd"), people(3, [1.0, 1.2] * 5, "cost_usd") * 2
    assert rises(sessions(*usual, *twice), TODAY) == []


@pytest.mark.slow
def test_without_a_change_at_most_one_quarter_in_twenty_has_a_false_alarm() -> None:
    """Failing depends on the day of a person, and costs are skewed: 600 weeks without a change."""
    random = np.random.default_rng(7)
    alarms = 0
    for _ in range(600):
        rows = []
        for ago in range(1, 36):
            share = random.beta(2, 6, 6)
            rows += people(ago, random.binomial(10, share).tolist())
            for row, cost in zip(rows[-6:], random.lognormal(0, 1, 6), strict=True):
                row["cost_usd"] = float(cost)
        alarms += bool(rises(sessions(*rows), TODAY))
    # 0.05 / 13 of 600 weeks are 2.3; six or more would happen in 3% of such draws.
    assert alarms <= 5
