"""Means with Student's interval, by hand; ends cut at possible values."""

import numpy as np
import pytest

from evaluation_pipelines.numerics.estimates import UNKNOWN, Estimate, mean
from evaluation_pipelines.numerics.student import t_quantile, two_sided_p


def test_a_mean_has_students_interval() -> None:
    # 70, 80, 90: mean 80, s = 10, s/sqrt(3) = 5.7735; t(2) = 4.30265, half = 24.841.
    found = mean(np.array([70.0, 80, 90]))
    assert found.value == 80
    assert (found.low, found.high) == pytest.approx((80 - 24.841, 80 + 24.841), abs=1e-3)


def test_a_mean_of_one_has_no_interval_and_of_none_no_value() -> None:
    assert mean(np.array([70.0])) == Estimate(70)
    assert mean(np.array([])) == UNKNOWN


def test_p_values_and_quantiles_are_students() -> None:
    assert t_quantile(11) == pytest.approx(2.200985)
    assert t_quantile(11, 0.1) == pytest.approx(1.795885)
    assert two_sided_p(2.200985, 1, 11) == pytest.approx(0.05, abs=1e-6)
    assert two_sided_p(-2.200985, 1, 11) == pytest.approx(0.05, abs=1e-6)


def test_ends_are_cut_where_nothing_can_lie_beyond() -> None:
    assert Estimate(1, -2, 4).within(0) == Estimate(1, 0, 4)
    assert Estimate(99, 90, 108).within(0, 100) == Estimate(99, 90, 100)
    assert Estimate(1).within(0) == Estimate(1)
