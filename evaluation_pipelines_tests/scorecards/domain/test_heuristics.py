"""Every heuristic criterion, worked out by hand: 0 is worst, 1 is best."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.profiles.domain.profile import HEURISTICS, Thresholds
from evaluation_pipelines.scorecards.domain.criteria import (
    falling,
    heuristic,
    unknown_criteria,
)
from evaluation_pipelines_tests.scorecard_builders import answered, criteria, evidence_of, profile


def score(name: str, limits: Thresholds | None = None, **columns: object) -> float | None:
    """Return a criterion of one session."""
    frame = evidence_of([answered(**columns)])
    value = frame.select(value=heuristic(name, limits or Thresholds()).cast(pl.Float64))
    found: float | None = value["value"].item()
    return found


@pytest.mark.parametrize(
    ("active_s", "prompts", "expected"),
    [
        (20.0, 2, 1.0),  # 10 s a prompt
        (0.0, 1, 1.0),
        (130.0, 2, 0.5),  # 65 s a prompt: (120 - 65) / (120 - 10)
        (42.0, 1, 78 / 110),  # (120 - 42) / 110
        (240.0, 2, 0.0),  # 120 s a prompt
        (1e6, 1, 0.0),
        (65.0, 0, 0.5),  # work after a change of masque: one run
    ],
)
def test_response_time_falls_from_10_to_120_seconds_a_prompt(
    active_s: float, prompts: int, expected: float
) -> None:
    assert score("response_time", active_s=active_s, prompts=prompts) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["response_time", "tool_count"])
def test_what_is_taken_for_each_prompt_is_unknown_without_their_number(name: str) -> None:
    assert score(name, active_s=20.0, total_tools=4, prompts=None) is None


@pytest.mark.parametrize(
    ("tokens_out", "total", "expected"),
    [
        (100, 300, 1.0),  # 100 out for 200 in: 0.5
        (275, 375, 0.5),  # 2.75 out for each in: (5 - 2.75) / (5 - 0.5)
        (500, 600, 0.0),  # 5 out for each in
        (900, 901, 0.0),
        (0, 0, 1.0),  # no input was needed
        (0, 50, 1.0),
        (100, None, None),
        (None, None, None),
    ],
)
def test_token_efficiency_falls_from_a_half_to_5_tokens_out_for_each_in(
    tokens_out: int | None, total: int | None, expected: float | None
) -> None:
    found = score("token_efficiency", output_tokens=tokens_out, total_tokens=total)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("known", "unknown", "prompts", "expected"),
    [
        (0, 0, 1, 1.0),
        (5, 0, 1, 0.5),  # 1 - 5 / 10
        (5, 2, 2, 0.65),  # 7 calls for 2 prompts: 1 - 3.5 / 10
        (20, 0, 2, 0.0),
        (99, 0, 1, 0.0),
        (3, 0, 0, 0.7),
    ],
)
def test_tool_count_falls_to_0_at_10_calls_a_prompt(
    known: int, unknown: int, prompts: int, expected: float
) -> None:
    found = score("tool_count", total_tools=known, tools_unknown=unknown, prompts=prompts)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["response_time", "token_efficiency", "tool_count"])
def test_a_session_without_any_answer_is_not_efficient(name: str) -> None:
    idle: dict[str, Any] = {
        "active_s": 1.0,
        "total_tools": 0,
        "output_tokens": 0,
        "total_tokens": 0,
        "api_requests": 0,
    }

    assert score(name, status="cancelled", **idle) is None
    assert score(name, status="failed", **idle) is None
    assert score(name, status="failed", **(idle | {"api_requests": 1})) == 1.0
    assert score(name, status="failed", **(idle | {"tools_unknown": 1})) is not None


def test_thresholds_of_the_profile_count() -> None:
    limits = Thresholds(
        response_time_best_s=0,
        response_time_worst_s=100,
        token_efficiency_best=1,
        token_efficiency_worst=2,
        tool_count_best=2,
        tool_count_worst=4,
    )

    # 25 s: (100 - 25) / 100
    assert score("response_time", limits, active_s=25.0, prompts=1) == pytest.approx(0.75)
    # 1.5 out for each in: (2 - 1.5) / 1
    found = score("token_efficiency", limits, output_tokens=150, total_tokens=250)
    assert found == pytest.approx(0.5)
    # 3 calls: (4 - 3) / 2
    assert score("tool_count", limits, total_tools=3, prompts=1) == pytest.approx(0.5)


def test_performance_is_a_tenth_and_effectiveness_a_hundredth() -> None:
    performance = {"session_key": "s1#baseline-1", "composite": 7.5, "cost_efficiency": None}
    frame = evidence_of([answered()], [performance], {"s1#baseline-1": 62.0})
    names = ("performance.composite", "performance.cost_efficiency", "tool_effectiveness")
    found = frame.select(heuristic(name, Thresholds()).alias(name) for name in names)

    assert found.row(0) == (0.75, None, 0.62)


def test_what_was_not_measured_is_unknown() -> None:
    assert score("performance.quality") is None
    assert score("tool_effectiveness") is None


def test_an_unknown_criterion_scores_the_midpoint() -> None:
    assert score("charm") == 0.5
    assert unknown_criteria(profile(criteria=criteria(charm=1, tool_count=1))) == ["charm"]


def test_every_heuristic_is_a_number_from_0_to_1() -> None:
    performance = {"session_key": "s1#baseline-1"} | dict.fromkeys(
        [each.removeprefix("performance.") for each in HEURISTICS if "." in each], 10.0
    )
    columns = {"output_tokens": 5, "prompts": 3}
    frame = evidence_of([answered(**columns)], [performance], {"s1#baseline-1": 100.0})

    for name in HEURISTICS:
        value = frame.select(heuristic(name, Thresholds()).alias("value"))["value"].item()
        assert 0 <= value <= 1


@given(
    st.floats(-1e9, 1e9),
    st.floats(0, 100),
    st.floats(0.001, 100),
)
def test_a_falling_score_stays_within_0_and_1_and_never_rises(
    value: float, best: float, width: float
) -> None:
    worst = best + width
    frame = pl.DataFrame({"v": [value, value + 1.0]})
    first, second = frame.select(falling(pl.col("v"), best, worst)).to_series()

    assert 0 <= second <= first <= 1
    assert first == pytest.approx(1) or value > best
    assert first == pytest.approx(0, abs=1e-9) or value < worst
