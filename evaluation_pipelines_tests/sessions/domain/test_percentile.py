"""The rank of a session among the earlier sessions of its class."""

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.schemas import SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.performance import percentile_in_class, score_sessions
from evaluation_pipelines_tests.builders import session, sessions_frame


def performance(composites: Sequence[float | None], **columns: object) -> pl.DataFrame:
    """Return performance rows of one class with these composites."""
    row = score_sessions(sessions_frame([session(**columns)])).row(0, named=True)
    return pl.DataFrame(
        [row | {"composite": composite} for composite in composites],
        schema=SESSION_PERFORMANCE.schema,
        orient="row",
    )


def percentiles(
    composites: Sequence[float | None], history: pl.DataFrame, **columns: object
) -> list[float | None]:
    ranked = percentile_in_class(performance(composites, **columns), history)
    assert ranked.schema == SESSION_PERFORMANCE.schema
    return ranked["percentile_in_class"].to_list()


def test_the_percentile_is_the_mean_rank_among_the_sessions_before() -> None:
    history = performance([n / 2 for n in range(20)])  # 0.0, 0.5 ... 9.5

    # 5.0: ten lower, one equal: 100 * 10.5 / 20. 5.1: eleven lower. 10: all. 0.0: half of one.
    assert percentiles([5.0, 5.1, 10.0, 0.0], history) == [52.5, 55.0, 100.0, 2.5]


def test_equal_composites_share_their_ranks() -> None:
    history = performance([5.0] * 15 + [1.0] * 5 + [9.0] * 5)

    # Five lower, fifteen equal of 25: 100 * (5 + 7.5) / 25
    assert percentiles([5.0, 5.0], history) == [50.0, 50.0]


def test_the_percentile_is_unknown_under_twenty() -> None:
    assert percentiles([5.0], performance([1.0] * 19)) == [None]
    assert percentiles([5.0], performance([1.0] * 20)) == [100.0]
    assert percentiles([5.0], performance([])) == [None]


def test_unscorable_sessions_have_no_percentile_and_do_not_count() -> None:
    assert percentiles([None, 5.0], performance([1.0] * 20)) == [None, 100.0]
    assert percentiles([5.0], performance([1.0] * 19 + [None])) == [None]


def test_only_the_same_organization_and_class_count() -> None:
    history = pl.concat(
        [
            performance([1.0] * 20),
            performance([9.0] * 20, task_class="review"),
            performance([9.0] * 20, organization_id="other"),
        ]
    )

    assert percentiles([5.0], history) == [100.0]
    assert percentiles([5.0], history, task_class="review") == [0.0]
    assert percentiles([5.0], history, task_class="ops") == [None]


@given(
    new=st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0]), min_size=1, max_size=6),
    before=st.lists(st.sampled_from([1.0, 2.5, 3.0]), min_size=20, max_size=30),
)
def test_the_percentile_counts_lower_scores_and_half_of_equal_ones(
    new: list[float], before: list[float]
) -> None:
    expected = [
        100 * (sum(b < a for b in before) + sum(b == a for b in before) / 2) / len(before)
        for a in new
    ]

    assert percentiles(new, performance(before)) == pytest.approx(expected)
