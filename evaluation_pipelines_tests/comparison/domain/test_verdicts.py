"""Corrected p-values: the headline and the pairs share five percent."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.verdicts import (
    ALPHA,
    Corrected,
    Pair,
    corrected,
    holm,
    weighted_holm,
)


def p_of(tests: Sequence[Corrected | None]) -> list[float | None]:
    return [None if each is None else each.p for each in tests]


def levels(tests: Sequence[Corrected]) -> list[float]:
    return [each.level for each in tests]


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04 -> 4 * 0.01, 3 * 0.02, max(0.06, 2 * 0.03), max(0.06, 0.04).
    assert p_of(holm([0.04, 0.01, 0.03, 0.02])) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    # An unknown one is no test: 2 * 0.02 and 0.5; never above 1.
    assert p_of(holm([0.02, None, 0.5])) == [pytest.approx(0.04), None, 0.5]
    assert p_of(holm([0.9, 0.8])) == [1.0, 1.0]
    assert holm([]) == []


def test_intervals_have_the_level_at_which_holm_decides() -> None:
    # 0.01 < 0.05 / 4 is shown; 0.02 > 0.05 / 3 is not, and stops all that follow at this level.
    found = weighted_holm([0.04, 0.01, 0.03, 0.02], [1.0] * 4)
    assert levels(found) == pytest.approx([0.05 / 3, 0.05 / 4, 0.05 / 3, 0.05 / 3])
    # All are shown: 0.05 / 2, then 0.05.
    assert levels(weighted_holm([0.04, 0.01], [1.0, 1.0])) == pytest.approx([0.05, 0.025])


@pytest.mark.parametrize("seed", range(20))
def test_an_interval_excludes_0_exactly_where_a_pair_is_decided(seed: int) -> None:
    random = np.random.default_rng(seed)
    pairs = [
        Pair(f"label {label}", first, second, float(random.normal()), float(random.beta(0.3, 3)))
        for label in range(int(random.integers(1, 4)))
        for first, second in combinations("abcd"[: int(random.integers(2, 5))], 2)
    ]
    for pair, found in zip(pairs, corrected(pairs), strict=True):
        # Never narrower than the interval of the pair alone.
        assert 0 < found.level <= ALPHA
        assert (pair.p < found.level) is (found.p < ALPHA)


def test_more_weight_is_corrected_less() -> None:
    # p/w: 0.01/0.75 = 0.0133, 0.004/0.25 = 0.016: the first goes first, times all the weight,
    # the second times the weight that is left: 0.016 * 0.25 = 0.004, not below 0.0133.
    found = weighted_holm([0.01, 0.004], [0.75, 0.25])
    assert p_of(found) == pytest.approx([0.01333333, 0.01333333])
    # Both are shown: 0.05 * 0.75, then 0.05 of the weight that is left.
    assert levels(found) == pytest.approx([0.0375, 0.05])


def test_a_single_pair_is_not_corrected() -> None:
    assert corrected([Pair("code", "a", "b", 4.0, 0.04)]) == [Corrected(0.04, 0.05)]
    assert corrected([]) == []


def test_pairs_of_two_labels_with_two_models_share_the_error_equally() -> None:
    # Each has a quarter of each family, half of all: 2 * 0.02 = 0.04, then 1 * 0.03 -> 0.04.
    pairs = [Pair("code", "a", "b", 4.0, 0.03), Pair("general", "a", "b", 4.0, 0.02)]
    assert p_of(corrected(pairs)) == pytest.approx([0.04, 0.04])


def test_a_model_that_beats_every_other_needs_half_of_the_error() -> None:
    # Three models: weights 1/2 for the headline, 1/6 for each pair. a is ahead of both with 0.02
    # and 0.01, so the headline has 0.02: 0.02 / (1/2) = 0.04 goes first and is decided, although
    # 0.01 / (1/6) = 0.06 alone is not.
    pairs = [
        Pair("code", "a", "b", 9.0, 0.02),
        Pair("code", "a", "c", 9.0, 0.01),
        Pair("code", "b", "c", 1.0, 0.8),
    ]
    found = corrected(pairs)
    assert p_of(found) == pytest.approx([0.04, 0.04, 0.8])
    # The headline is shown at 0.05 / 2, and its pairs with it; alone, the pair of 0.01 would be at
    # 0.05 * (1/6) / (1/2). The last pair has all the weight that is left.
    assert levels(found) == pytest.approx([0.025, 0.025, 0.05])


def test_without_a_model_ahead_of_all_there_are_only_pairs() -> None:
    # a beats b, b beats c, c beats a: 0.005 / (1/6) = 0.03 of all the weight, ...
    pairs = [
        Pair("code", "a", "b", 9.0, 0.005),
        Pair("code", "a", "c", -9.0, 0.5),
        Pair("code", "b", "c", 9.0, 0.5),
    ]
    alone, *others = corrected(pairs)
    assert alone.p == pytest.approx(0.03)
    assert others[0].p > 0.5
