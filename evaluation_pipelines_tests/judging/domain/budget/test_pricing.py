"""Cost of calls and the maximum cost of planned calls."""

import pytest

from evaluation_pipelines.judging.domain.budget import (
    PlannedCall,
    Price,
    Usage,
    worst_case_usd,
)


class Unpriced:
    """Pricing of an unknown model."""

    def cost_usd(self, usage: Usage) -> float | None:
        """Return ``None``: the price is unknown."""
        return None


def test_a_cost_is_the_sum_of_tokens_times_their_prices() -> None:
    price = Price(input_usd_per_mtok=2.0, output_usd_per_mtok=8.0, cached_usd_per_mtok=0.5)

    # (1,000 * 2 + 4,000 * 0.5 + 300 * 8) / 1,000,000 = (2,000 + 2,000 + 2,400) / 1,000,000
    assert price.cost_usd(Usage(1_000, 4_000, 300)) == pytest.approx(0.0064)


def test_prices_are_per_million_tokens() -> None:
    assert Price(2.0, 8.0).cost_usd(Usage(1_000_000, 0, 0)) == 2.0
    assert Price(2.0, 8.0).cost_usd(Usage(0, 0, 1_000_000)) == 8.0


def test_cached_tokens_without_a_price_cost_as_much_as_input() -> None:
    # 5,000 tokens at $2 per million
    assert Price(2.0, 8.0).cost_usd(Usage(1_000, 4_000, 0)) == pytest.approx(0.01)
    assert Price(2.0, 8.0, 0.0).cost_usd(Usage(1_000, 4_000, 0)) == pytest.approx(0.002)


def test_tokens_written_to_the_cache_are_input_and_not_charged_twice() -> None:
    assert Price(2.0, 8.0).cost_usd(Usage(1_000, 0, 0, 700)) == pytest.approx(0.002)


def test_usage_of_several_calls_adds_up() -> None:
    assert Usage(10, 20, 3) + Usage(1, 2, 30) == Usage(11, 22, 33, 0)
    both = Usage(10, 20, 3, 4) + Usage(1, 2, 30, 40)

    assert both == Usage(11, 22, 33, 44)
    assert both.all_tokens == 66  # 11 + 22 + 33; cache writes are included in the 11


def test_worst_case_costs_of_several_calls_add_up() -> None:
    calls = (PlannedCall(10_000, 4_000), PlannedCall(10_000, 4_000), PlannedCall(14_500, 4_000))

    # (10,000 + 10,000 + 14,500) * 2 + 3 * 4,000 * 8 = 69,000 + 96,000
    assert worst_case_usd(calls, Price(2.0, 8.0, 0.1)) == pytest.approx(0.165)


def test_the_maximum_is_unknown_without_a_price() -> None:
    assert worst_case_usd([PlannedCall(10, 10)], Unpriced()) is None
    assert worst_case_usd([], Unpriced()) == 0
