"""The five dimensions, the composite, the recommendation and the rank, with the arithmetic."""

from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.schemas import SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.performance import (
    WEIGHTS,
    printed,
    recommendation,
    score_sessions,
)
from evaluation_pipelines_tests.world.rows import Row, session, sessions_frame

DIMENSIONS = list(WEIGHTS)


def scored(**columns: object) -> dict[str, Any]:
    """Return the performance of one session."""
    return score_sessions(sessions_frame([session(**columns)])).row(0, named=True)


def test_a_good_session_is_kept() -> None:
    row = scored(
        total_tools=10,
        tools_ok=9,
        prompts=3,
        active_s=300.0,
        cache_read_tokens=600,
        total_tokens=1000,
        cost_usd=0.09,
    )

    assert row["quality"] == pytest.approx(9.0)  # 9 / 10 * 10
    assert row["autonomy"] == pytest.approx(20 / 3)  # 10 / 3 * 2
    assert row["productivity"] == 10.0  # 9 / 5 min * 10 = 18, capped
    assert row["token_efficiency"] == pytest.approx(6.0)  # 600 / 1000 * 10
    assert row["cost_efficiency"] == pytest.approx(9.0)  # 10 - 0.09 / 9 * 100
    # 0.30 * 9 + 0.25 * 6.6667 + 0.20 * 10 + 0.15 * 6 + 0.10 * 9
    assert row["composite"] == pytest.approx(2.7 + 5 / 3 + 2.0 + 0.9 + 0.9)
    assert row["recommendation"] == "keep"
    assert (row["scorable"], row["partial"], row["reason"]) == (True, False, None)


def test_a_poor_session_is_to_be_taken_off() -> None:
    row = scored(
        total_tools=3,
        tools_ok=0,
        prompts=6,
        active_s=3600.0,
        cache_read_tokens=0,
        total_tokens=5000,
        cost_usd=2.0,
    )

    # 0 of 3; 3 / 6 * 2 = 1; 0 an hour; 0 of 5000; 10 - 2.0 / 1 * 100 = -190, floored
    assert [row[name] for name in DIMENSIONS] == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert row["composite"] == pytest.approx(0.25)
    assert row["recommendation"] == "doff"


def test_no_prompt_counts_as_one() -> None:
    assert scored(prompts=0, total_tools=4)["autonomy"] == 8.0


def test_the_first_minute_is_whole() -> None:
    # 0.5 successful calls a minute would be 5; one in a second is one a minute.
    assert scored(active_s=1.0, tools_ok=1)["productivity"] == 10.0
    assert scored(active_s=120.0, tools_ok=1)["productivity"] == 5.0


def test_productivity_by_the_window_counts_its_pauses() -> None:
    # A window of 50 minutes with 5 active ones: 9 / 5 * 10 is capped at 10, 9 / 50 * 10 = 1.8
    frame = sessions_frame([session(tools_ok=9, active_s=300.0, duration_s=3000.0)])

    assert score_sessions(frame)["productivity"].item() == 10.0
    assert score_sessions(frame, "window")["productivity"].item() == pytest.approx(1.8)


def test_one_call_and_one_token_are_enough() -> None:
    row = scored(total_tools=1, tools_ok=1, tools_failed=0, total_tokens=1, cache_read_tokens=1)
    assert (row["scorable"], row["quality"], row["token_efficiency"]) == (True, 10.0, 10.0)


@pytest.mark.parametrize(
    ("cost_of_one_call", "expected"), [(0.0, 10.0), (0.01, 9.0), (0.05, 5.0), (0.1, 0.0)]
)
def test_the_price_of_a_call_sets_the_cost_efficiency(
    cost_of_one_call: float, expected: float
) -> None:
    row = scored(tools_ok=2, cost_usd=2 * cost_of_one_call)

    assert row["cost_efficiency"] == pytest.approx(expected)


def test_a_session_without_tool_calls_is_unscorable_and_never_doff() -> None:
    row = scored(total_tools=0, tools_ok=0, tools_failed=0)

    assert {row[name] for name in (*DIMENSIONS, "composite", "recommendation")} == {None}
    assert (row["scorable"], row["partial"]) == (False, False)
    assert row["reason"] == "no tool call with a known outcome"


@pytest.mark.parametrize(
    ("unknown", "reason", "composite"),
    [
        # Without tokens: (2.7 + 2.5 + 2.0 + 0.9) / 0.85
        ({"cache_read_tokens": None, "total_tokens": None}, "tokens unknown", 8.1 / 0.85),
        ({"total_tokens": None}, "tokens unknown", 8.1 / 0.85),
        ({"cache_read_tokens": 0, "total_tokens": 0}, "no tokens used", 8.1 / 0.85),
        # Without cost: (2.7 + 2.5 + 2.0 + 0.9) / 0.90
        ({"cost_usd": None}, "cost unknown", 8.1 / 0.90),
        # Without prompts: (2.7 + 2.0 + 0.9 + 0.9) / 0.75
        ({"prompts": None}, "prompts unknown", 6.5 / 0.75),
        # Without both: (2.7 + 2.5 + 2.0) / 0.75
        (
            {"total_tokens": None, "cost_usd": None},
            "tokens unknown, cost unknown",
            7.2 / 0.75,
        ),
    ],
    ids=str,
)
def test_the_weight_of_unknown_dimensions_goes_to_the_others(
    unknown: dict[str, object], reason: str, composite: float
) -> None:
    # quality 9, autonomy 10, productivity 10, token efficiency 6, cost efficiency 9
    row = scored(**unknown)

    assert row["composite"] == pytest.approx(composite)
    assert (row["scorable"], row["partial"], row["reason"]) == (True, True, reason)
    assert row["recommendation"] == "keep"


def test_the_result_is_the_table_in_its_order() -> None:
    rows = [session(session_key=key) for key in ("b#baseline-1", "a#baseline-1")]

    frame = score_sessions(sessions_frame(rows))

    assert frame.schema == SESSION_PERFORMANCE.schema
    assert frame["session_key"].to_list() == ["a#baseline-1", "b#baseline-1"]


def test_no_sessions_are_no_scores() -> None:
    assert score_sessions(sessions_frame([])).schema == SESSION_PERFORMANCE.schema


@pytest.mark.parametrize(
    ("composite", "expected"),
    [
        (10.0, "keep"),
        (7.0, "keep"),
        (6.95, "keep"),  # prints 7.0
        (6.9499999999999993, "keep"),  # 6.95 with noise
        (6.9499, "review"),  # prints 6.9
        (4.0, "review"),
        (3.95, "review"),  # prints 4.0
        (3.9499999999999997, "review"),  # 3.95 with noise
        (3.9499, "doff"),  # prints 3.9
        (0.0, "doff"),
        (None, None),
    ],
)
def test_the_recommendation_is_decided_on_the_composite_as_printed(
    composite: float | None, expected: str | None
) -> None:
    frame = pl.DataFrame({"composite": [composite]}, schema={"composite": pl.Float64})

    assert frame.select(recommendation()).item() == expected


@given(
    st.one_of(
        st.floats(0, 10),
        # Every boundary between two printed values, with a little noise.
        st.builds(
            lambda tenths, noise: tenths / 10 + 0.05 + noise * 1e-15,
            st.integers(0, 99),
            st.integers(-4, 4),
        ),
    )
)
def test_the_printed_value_is_rounded_half_up_to_one_decimal(score: float) -> None:
    expected = Decimal(repr(round(score, 9))).quantize(Decimal("0.1"), ROUND_HALF_UP)

    assert pl.select(printed(pl.lit(score))).item() == float(expected)


_COUNTS = st.integers(0, 2**40)
_SESSIONS = st.lists(
    st.fixed_dictionaries(
        {
            "tools_ok": _COUNTS,
            "tools_failed": _COUNTS,
            "prompts": _COUNTS,
            "active_s": st.floats(0, 1e9),
            "cache_read_tokens": st.none() | _COUNTS,
            "uncached_tokens": st.none() | _COUNTS,
            "cost_usd": st.none() | st.floats(0, 1e300),
        }
    ),
    min_size=1,
    max_size=8,
)


def built_sessions(drawn: list[dict[str, Any]]) -> list[Row]:
    def total(values: dict[str, Any], *names: str) -> int | None:
        known = [values[name] for name in names]
        return None if None in known else sum(known)

    return [
        session(
            session_key=f"s{n}#baseline-1",
            total_tools=total(values, "tools_ok", "tools_failed"),
            total_tokens=total(values, "cache_read_tokens", "uncached_tokens"),
            **{name: value for name, value in values.items() if name != "uncached_tokens"},
        )
        for n, values in enumerate(drawn)
    ]


@given(drawn=_SESSIONS, order=st.randoms(use_true_random=False))
def test_scores_stay_in_bounds_and_do_not_depend_on_the_order_of_rows(
    drawn: list[dict[str, Any]], order: Random
) -> None:
    rows = built_sessions(drawn)
    frame = score_sessions(sessions_frame(rows))

    assert score_sessions(sessions_frame(order.sample(rows, len(rows)))).equals(frame)
    for row in frame.iter_rows(named=True):
        known = [row[name] for name in DIMENSIONS if row[name] is not None]
        assert row["scorable"] == bool(known)
        assert all(0 <= score <= 10 for score in known)
        if known:
            assert 0 <= row["composite"] <= 10
            assert min(known) - 1e-9 <= row["composite"] <= max(known) + 1e-9
