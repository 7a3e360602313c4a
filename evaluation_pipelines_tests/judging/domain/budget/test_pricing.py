"""What calls cost, and the most that planned ones can cost."""

import pytest

from evaluation_pipelines.judging.domain.budget.pricing import (
    PlannedCall,
    Price,
    Usage,
    most_usd,
    planned_session,
)


class Unpriced:
    """A model that no table knows."""

    def cost_usd(self, usage: Usage) -> float | None:
        """Nobody knows."""
        return None


def test_a_cost_is_the_sum_of_tokens_times_their_prices() -> None:
    price = Price(input_usd_per_mtok=2.0, output_usd_per_mtok=8.0, cached_usd_per_mtok=0.5)

    # (1,000 * 2 + 4,000 * 0.5 + 300 * 8) / 1,000,000 = (2,000 + 2,000 + 2,400) / 1,000,000
    assert price.cost_usd(Usage(1_000, 4_000, 300)) == pytest.approx(0.0064)


def test_cached_tokens_cost_what_input_costs_where_no_price_is_given_for_them() -> None:
    # 5,000 tokens at $2 for a million
    assert Price(2.0, 8.0).cost_usd(Usage(1_000, 4_000, 0)) == pytest.approx(0.01)
    assert Price(2.0, 8.0, 0.0).cost_usd(Usage(1_000, 4_000, 0)) == pytest.approx(0.002)


def test_tokens_written_to_the_cache_are_input_and_not_charged_twice() -> None:
    assert Price(2.0, 8.0).cost_usd(Usage(1_000, 0, 0, 700)) == pytest.approx(0.002)


def test_usage_of_several_calls_adds_up() -> None:
    both = Usage(10, 20, 3, 4) + Usage(1, 2, 30, 40)

    assert both == Usage(11, 22, 33, 44)
    assert both.all_tokens == 66  # 11 + 22 + 33: what was written to the cache is among the 11


def test_a_session_is_planned_as_its_score_turns_and_one_turn_that_follows_a_reply() -> None:
    calls = planned_session(
        score_tokens=10_000, question_tokens=500, samples=2, max_output_tokens=4_000
    )

    # The last prompt holds the first one, the reply to it and the question: 10,000 + 4,000 + 500.
    assert calls == (
        PlannedCall(10_000, 4_000),
        PlannedCall(10_000, 4_000),
        PlannedCall(14_500, 4_000),
    )
    # (10,000 + 10,000 + 14,500) * 2 + 3 * 4,000 * 8 = 69,000 + 96,000
    assert most_usd(calls, Price(2.0, 8.0, 0.1)) == pytest.approx(0.165)


def test_the_most_is_unknown_where_the_price_is() -> None:
    assert most_usd([PlannedCall(10, 10)], Unpriced()) is None
    assert most_usd([], Unpriced()) == 0
