"""Agreement of automatic and human scores, worked out by hand."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.schemas import OVERRIDES
from evaluation_pipelines.scorecards.domain.calibration import agreements, kappa, spearman
from evaluation_pipelines_tests.builders import at


def overrides(*pairs: tuple[float | None, float], **columns: Any) -> pl.DataFrame:
    """Return OVERRIDES of (automatic, human) scores, in the order they were made."""
    defaults: dict[str, Any] = {
        "profile_id": "p",
        "profile_version": 1,
        "source": "audit",
        "state": "live",
    }
    rows = [
        dict.fromkeys(OVERRIDES.schema, None)
        | defaults
        | {
            "override_id": str(number),
            "session_key": f"s{number}#baseline-1",
            "automatic_100": automatic,
            "override_100": human,
            "made_at": at(number),
        }
        | columns
        for number, (automatic, human) in enumerate(pairs, start=1)
    ]
    return pl.DataFrame(rows, schema=OVERRIDES.schema, orient="row")


def test_bias_and_mean_error_with_students_intervals() -> None:
    (found,) = agreements(overrides((60, 50), (70, 70), (80, 90), (40, 20), (55, 50)))

    # Errors 10, 0, -10, 20, 5: mean 5, deviations 5, -5, -15, 15, 0, variance 500 / 4 = 125.
    # Half width: 2.776 * sqrt(125 / 5) = 13.88.
    assert found.n == 5
    assert found.bias.value == pytest.approx(5)
    assert found.bias.interval == pytest.approx((-8.88, 18.88), abs=0.05)
    # Absolute errors 10, 0, 10, 20, 5: mean 9, variance (1 + 81 + 1 + 121 + 16) / 4 = 55.
    # Half width: 2.776 * sqrt(55 / 5) = 9.21.
    assert found.mae.value == pytest.approx(9)
    assert found.mae.interval == pytest.approx((-0.21, 18.21), abs=0.04)


def test_spearman_is_the_correlation_of_ranks() -> None:
    # Ranks 1 2 3 4 5 and 2 1 4 3 5: d² sums to 4; 1 - 6 * 4 / (5 * 24) = 0.8.
    found = spearman([10, 20, 30, 40, 50], [22, 11, 44, 33, 99])

    assert found.value == pytest.approx(0.8)
    # atanh(0.8) = 1.0986; half width 1.96 * sqrt((1 + 0.32) / 2) = 1.5923.
    assert found.interval == pytest.approx((-0.4569, 0.9909), abs=1e-3)


def test_ties_share_their_mean_rank() -> None:
    # Ranks 1.5 1.5 3 4 5 and 1 2 3 4 5. Deviations from 3: -1.5 -1.5 0 1 2 and -2 -1 0 1 2.
    # Products 3 + 1.5 + 0 + 1 + 4 = 9.5; squares 9.5 and 10.
    assert spearman([1, 1, 2, 3, 4], [1, 2, 3, 4, 5]).value == pytest.approx(
        9.5 / (9.5 * 10) ** 0.5
    )


def test_perfect_order_needs_no_interval_and_no_spread_has_no_order() -> None:
    assert spearman([1, 2, 3, 4, 5], [2, 4, 6, 8, 9]).interval == (1, 1)
    assert spearman([5, 5, 5, 5, 5], [1, 2, 3, 4, 5]).value is None
    assert spearman([1, 2, 3, 4, 5], [7, 7, 7, 7, 7]).value is None


def test_kappa_weights_distances_by_their_square() -> None:
    # Bands 0 0 9 9 9 and 0 9 9 9 0. Observed: 2 of 5 are 81 apart: 32.4.
    # Expected: 0s are 2 and 2, 9s are 3 and 3: 81 * (2*3 + 3*2) / 25 = 38.88.
    found = kappa([0, 5, 99, 100, 95], [3, 95, 91, 100, 9])

    value = 1 - 32.4 / 38.88
    assert found.value == pytest.approx(value)
    assert found.interval is not None
    low, high = found.interval
    assert -1 <= low < value < high <= 1


def test_the_interval_of_kappa_is_the_jackknifes() -> None:
    # Bands 1 2 3 4 5 and 1 2 3 4 4. Expected: both variances, and the square of both means'
    # difference: 2 + 1.36 + 0.2^2 = 3.4. Observed: 1 / 5. Kappa is 1 - 0.2 / 3.4 = 16 / 17.
    # Without the first pair: 1 - (1 / 4) / (1.25 + 0.6875 + 0.0625) = 0.875, then in the same way
    # 1 - 0.25 / 3.75 = 0.93333, 1 - 0.25 / 4.25 = 0.94118, 1 - 0.25 / 3.5 = 0.92857, and 1.
    # Mean 0.93562, squares of the deviations 0.0036743 + 0.0000052 + 0.0000309 + 0.0000496 +
    # 0.0041453 = 0.0079053; error sqrt(4 / 5 * 0.0079053) = 0.079525; half 2.776 * error = 0.2208.
    found = kappa([15, 25, 35, 45, 55], [15, 25, 35, 45, 45])

    assert found.value == pytest.approx(16 / 17)
    assert found.interval == pytest.approx((16 / 17 - 0.2208, 1), abs=1e-3)


def test_kappa_of_full_agreement_is_1_and_of_one_band_unknown() -> None:
    assert kappa([5, 25, 45, 65, 85], [9, 21, 49, 60, 80]).value == 1
    assert kappa([51, 52, 53, 54, 55], [55, 54, 53, 52, 51]).value is None
    # 100 belongs to the last band, from 90 on.
    assert kappa([85, 100, 95, 85, 95], [89, 95, 100, 80, 90]).value == 1


def test_kappa_has_no_interval_when_one_pair_makes_it() -> None:
    # Without the last pair all are in one band, for which kappa is undefined.
    found = kappa([51, 52, 53, 54, 95], [55, 54, 53, 52, 91])

    assert (found.value, found.interval) == (1, None)


def test_few_pairs_give_no_interval_and_no_correlation() -> None:
    (found,) = agreements(overrides((60, 50), (70, 70), (80, 90), (40, 20)))

    assert (found.n, found.bias.value, found.bias.interval) == (4, 5, None)
    assert found.spearman.value is None
    assert found.kappa.value is None


def test_audit_sample_and_versions_are_kept_apart() -> None:
    audit = overrides((50, 50))
    chosen = overrides((50, 10), (50, 20), source="person")
    imported = overrides((50, 30), source="import", session_key="s9#baseline-1")
    second = overrides((50, 50), profile_version=2)
    found = agreements(pl.concat([second, chosen, imported, audit]))

    assert [(each.profile_version, each.sample, each.n) for each in found] == [
        (1, "audit", 1),
        (1, "chosen", 3),
        (2, "audit", 1),
    ]


def test_the_newest_override_of_each_content_and_sample_counts() -> None:
    same = {"session_key": "s#baseline-1", "content_hash": "0"}
    first, second = overrides((60, 50), (60, 40), **same).partition_by("override_id")
    later = overrides(*[(60, 55)] * 3, source="person", **same)[2:]
    # The reviewer changed the answer to 40; the later override by choice is another sample.
    found = agreements(pl.concat([second, first, later]))

    assert [(each.sample, each.n, each.bias.value) for each in found] == [
        ("audit", 1, 20),
        ("chosen", 1, 5),
    ]


def test_overrides_without_an_automatic_score_are_left_out_and_stale_ones_are_not() -> None:
    assert agreements(overrides((None, 50))) == []
    (stale,) = agreements(overrides((50, 50), state="stale"))  # still valid for its content
    assert stale.n == 1


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=5, max_size=30),
)
def test_estimates_stay_in_their_range(pairs: list[tuple[float, float]]) -> None:
    (found,) = agreements(overrides(*pairs))

    for figure, low, high in (
        (found.bias, -100, 100),
        (found.mae, 0, 100),
        (found.spearman, -1, 1),
        (found.kappa, -1, 1),
    ):
        if figure.value is not None:
            assert low - 1e-9 <= figure.value <= high + 1e-9
        if figure.interval is not None:
            assert figure.interval[0] <= figure.interval[1]
    assert found.mae.value is not None
    assert found.bias.value is not None
    assert abs(found.bias.value) <= found.mae.value + 1e-9
