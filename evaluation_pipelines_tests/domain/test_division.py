"""A score does not depend on how many others it is worked out with."""

from collections.abc import Callable

import polars as pl
import pytest

from evaluation_pipelines.domain.division import divided

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

    assert make(frame)["share"].to_list() == [SCORE * (1 / TEN)] * rows
    assert pytest.approx(SCORE / TEN, rel=1e-15) == SCORE * (1 / TEN)
