"""The sequential sign test of corrections: by hand, and by simulation."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.schemas import OVERRIDES
from evaluation_pipelines.scorecards.domain.calibration import (
    FALSE_NOTICES,
    Lean,
    evidence,
    leans,
)
from evaluation_pipelines_tests.builders import at
from evaluation_pipelines_tests.docs.documents import named, table_rows

CRITERIA = {("p", 1): 3, ("p", 2): 3}


def corrections(*errors: float, **columns: Any) -> pl.DataFrame:
    """Return OVERRIDES of one session each: automatic minus human score, in order of time."""
    defaults: dict[str, Any] = {"profile_id": "p", "profile_version": 1, "annotator": "Ada"}
    rows = [
        dict.fromkeys(OVERRIDES.schema, None)
        | defaults
        | {
            "override_id": str(number),
            "session_key": f"s{number}#baseline-1",
            "content_hash": "0",
            "automatic_100": 50 + error,
            "override_100": 50.0,
            "made_at": at(number),
        }
        | columns
        for number, error in enumerate(errors, start=1)
    ]
    return pl.DataFrame(rows, schema=OVERRIDES.schema, orient="row")


def found(overrides: pl.DataFrame, criterion: str | None = None) -> Lean:
    (lean,) = [each for each in leans(overrides, CRITERIA) if each.criterion_id == criterion]
    return lean


@pytest.mark.parametrize(
    ("n", "k", "expected"),
    [
        (0, 0, 1),
        (1, 1, 1),  # 2 / 2
        (2, 1, 2 / 3),  # 4 / (3 * 2)
        (8, 8, 256 / 9),
        (9, 0, 512 / 10),
        (12, 6, 4096 / (13 * 924)),
        (13, 12, 8192 / (14 * 13)),
    ],
)
def test_the_evidence_is_that_of_the_mixture(n: int, k: int, expected: float) -> None:
    """2^n k! (n - k)! / (n + 1)!, which is 2^n / ((n + 1) * (n choose k))."""
    assert evidence(n, k) == pytest.approx(expected)


def test_the_evidence_is_a_martingale_of_fair_corrections() -> None:
    """The mean of both continuations is the present value."""
    for n in range(30):
        for k in range(n + 1):
            mean = (evidence(n + 1, k) + evidence(n + 1, k + 1)) / 2
            assert mean == pytest.approx(evidence(n, k))
    assert math.isfinite(evidence(100_000, 0))


@pytest.mark.parametrize(
    ("errors", "is_beyond"),
    [
        ([10] * 8, False),  # 256 / 9 = 28.4, required are 2 / 0.05 = 40
        ([10] * 9, True),  # 512 / 10 = 51.2
        ([-0.5] * 9, True),
        ([10] * 11 + [-10], False),  # 4096 / (13 * 12) = 26.3
        ([-10] + [10] * 12, True),  # 8192 / (14 * 13) = 45.0
        ([10, -10] * 30, False),
    ],
)
def test_corrections_in_one_direction_are_beyond_chance(
    errors: list[float], is_beyond: bool
) -> None:
    assert found(corrections(*errors)).is_beyond_chance is is_beyond


def test_a_notice_says_how_many_by_how_many_people() -> None:
    two = pl.concat(
        [corrections(*[9] * 12), corrections(-9, session_key="x#baseline-1", annotator="Bo")]
    )

    assert found(two).notice == (
        "recalibrate p version 1: 12 of 13 corrections (by 2 people) made the score lower, which "
        "is beyond chance"
    )
    one = found(corrections(*[-9] * 11, criterion_id="tool_count"), "tool_count")
    assert one.notice == (
        "recalibrate p version 1, criterion tool_count: 11 of 11 corrections (by 1 person) made "
        "the score higher, which is beyond chance"
    )


def test_a_criterion_needs_more_as_there_are_several() -> None:
    """3 criteria: 2 * 3 / 0.05 = 120. Ten are 1024 / 11 = 93.1, eleven 2048 / 12 = 170.7."""
    ten, eleven = (corrections(*[9] * n, criterion_id="tool_count") for n in (10, 11))

    assert found(ten, "tool_count").required == pytest.approx(120)
    assert not found(ten, "tool_count").is_beyond_chance
    assert found(eleven, "tool_count").is_beyond_chance


def test_a_criterion_can_lean_where_all_corrections_together_do_not() -> None:
    down = corrections(*[9] * 11, criterion_id="tool_count")
    up = corrections(*[-9] * 11, criterion_id="response_time").with_columns(
        session_key=pl.col("session_key") + "x"
    )
    both = pl.concat([down, up])

    assert not found(both).is_beyond_chance
    assert found(both, "tool_count").is_beyond_chance
    assert found(both, "response_time").is_beyond_chance


def test_of_a_session_the_first_correction_counts() -> None:
    same = corrections(*[9] * 9, session_key="s#baseline-1")
    assert found(same).corrections == 1
    changed = found(corrections(9, -9, -9, session_key="s#baseline-1"))
    assert (changed.corrections, changed.too_high) == (1, 1)
    assert found(corrections(0, -9, session_key="s#baseline-1")).too_high == 0


def test_confirmations_and_scores_without_an_automatic_one_are_no_corrections() -> None:
    assert leans(corrections(0, 0), CRITERIA) == []
    assert leans(corrections(9, automatic_100=None), CRITERIA) == []
    assert found(corrections(9, 0, 9)).corrections == 2


def test_versions_are_apart() -> None:
    both = pl.concat([corrections(9), corrections(-9, profile_version=2)])
    rows = [(each.profile_version, each.too_high) for each in leans(both, CRITERIA)]

    assert rows == [(1, 1), (2, 0)]


def test_fair_corrections_have_a_notice_in_at_most_5_percent_over_500_looks() -> None:
    """Every look after every correction; each names one of three criteria, or none."""
    histories, looks = 2000, 500
    rng = np.random.default_rng(7)
    lowered = rng.random((histories, looks)) < 0.5
    criterion = rng.integers(0, 4, (histories, looks))
    value = np.array(
        [[evidence(n, k) if k <= n else 0.0 for k in range(looks + 1)] for n in range(looks + 1)]
    )
    has_notice = np.zeros(histories, dtype=bool)
    for part, required in ((criterion >= 0, 40), *((criterion == each, 120) for each in range(3))):
        n, k = part.cumsum(axis=1), (part & lowered).cumsum(axis=1)
        has_notice |= (value[n, k] >= required).any(axis=1)

    error = math.sqrt(FALSE_NOTICES * (1 - FALSE_NOTICES) / histories)
    assert has_notice.mean() <= FALSE_NOTICES + 2 * error
    assert has_notice.mean() >= 0.01  # it is no test that never says anything


def probability_of_notice(share: float, looks: int) -> float:
    """Return the exact probability of a notice of all corrections within ``looks`` corrections."""
    open_counts, total = {0: 1.0}, 0.0
    for n in range(1, looks + 1):
        grown: dict[int, float] = {}
        for k, weight in open_counts.items():
            grown[k + 1] = grown.get(k + 1, 0.0) + weight * share
            grown[k] = grown.get(k, 0.0) + weight * (1 - share)
        total += sum(weight for k, weight in grown.items() if evidence(n, k) >= 40)
        open_counts = {k: weight for k, weight in grown.items() if evidence(n, k) < 40}
    return total


def test_the_power_is_as_the_page_says() -> None:
    page = table_rows(named("scorecards.md"), "corrections, in percent:")
    expected = [
        [round(100 * probability_of_notice(share, looks)) for looks in (10, 20, 30, 60, 100)]
        for share in (0.5, 0.7, 0.8, 0.9)
    ]

    assert [[int(cell) for cell in row[1:]] for row in page] == expected
