"""A score does not depend on how many others it is worked out with."""

from collections.abc import Callable

import polars as pl
import pytest

from evaluation_pipelines.numerics.division import divided

SCORE, TEN = 5.5 / 0.75, 10.0
"""By way of the reciprocal it comes out one bit higher than by division."""

Make = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame.select(share=divided(pl.col("score"), TEN)),
        lambda frame: frame.select(share=divided(pl.col("score"), pl.lit(TEN))),
        lambda frame: frame.select(share=divided(pl.col("score"), pl.col("ten"))),
        lambda frame: (
            frame.lazy()
            .with_columns(ten=pl.lit(TEN))
            .select(share=divided(pl.col("score"), pl.col("ten")))
            .collect()
        ),
    ],
    ids=["a number", "a literal", "a column", "a column that is one number"],
)
def test_it_is_the_same_for_any_number_of_rows(make: Make, rows: int) -> None:
    frame = pl.DataFrame({"score": [SCORE] * rows, "ten": [TEN] * rows})

    assert make(frame)["share"].to_list() == [SCORE / TEN] * rows
    assert SCORE * (1 / TEN) > SCORE / TEN


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize(
    ("part", "whole", "percent"), [(49, 49, 100), (24.5, 49, 50), (0.9, 9, 10)]
)
def test_a_share_of_a_scale_is_what_it_is(
    rows: int, part: float, whole: float, percent: float
) -> None:
    frame = pl.DataFrame({"part": [part] * rows})

    share = frame.with_columns(whole=pl.lit(whole)).select(divided(pl.col("part"), pl.col("whole")))

    assert (share * 100).to_series().to_list() == [percent] * rows


def test_what_is_unknown_stays_unknown() -> None:
    frame = pl.DataFrame({"n": [None, 1.0, 2.0], "by": [2.0, None, 4.0]})

    found = frame.select(divided(pl.col("n"), pl.col("by"))).to_series()

    assert found.to_list() == [None, None, 0.5]
