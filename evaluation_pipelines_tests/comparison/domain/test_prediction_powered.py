"""Means corrected by people: found by hand, refused where that would mislead."""

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.prediction_powered import Audit, corrected_mean

AUTOMATIC = np.random.default_rng(1).normal(70, 10, 200)


def audit(number: int, error: float = 8.0, **more: int) -> Audit:
    """Return overrides that lower the first sessions by a number of points."""
    return Audit(range(number), list(AUTOMATIC[:number] - error), more.pop("drawn", number), **more)


def test_a_judge_that_is_always_eight_points_too_generous_is_corrected_by_eight() -> None:
    found = corrected_mean(AUTOMATIC, audit(60))
    # People and judge differ by a constant, and the weight of the rest is 1 / (1 + 60 / 140) = 0.7.
    sample, others = AUTOMATIC[:60], AUTOMATIC[60:]
    weight = np.var(sample, ddof=1) / np.var(AUTOMATIC, ddof=1) / (1 + 60 / 140)
    by_hand = sample.mean() - 8 + weight * (others.mean() - sample.mean())
    assert found.naive.value == pytest.approx(AUTOMATIC.mean())
    assert found.corrected.value == pytest.approx(by_hand)
    assert found.audited == 60
    assert found.reason is None


def test_fewer_than_thirty_are_refused() -> None:
    found = corrected_mean(AUTOMATIC, audit(29))
    assert found.corrected.value is None
    assert found.reason == "29 of the 30 audited sessions that it takes"


def test_what_people_chose_to_correct_is_no_sample() -> None:
    found = corrected_mean(AUTOMATIC, audit(3, chosen=90))
    assert found.reason == (
        "3 of the 30 audited sessions that it takes; 90 more were corrected, "
        "but chosen and not drawn at random"
    )


def test_a_sample_that_people_answer_as_they_like_is_refused() -> None:
    found = corrected_mean(AUTOMATIC, audit(40, drawn=60))
    assert found.reason is not None
    assert found.reason.startswith("only 40 of 60 sessions that were drawn were scored")
    assert corrected_mean(AUTOMATIC, audit(40, drawn=50)).reason is None


def test_where_everything_was_looked_at_people_alone_count() -> None:
    few = AUTOMATIC[:40]
    found = corrected_mean(few, Audit(range(40), list(few - 8), 40))
    assert found.corrected.value == pytest.approx(few.mean() - 8)


def test_a_judge_that_knows_nothing_is_not_listened_to() -> None:
    labels = list(np.random.default_rng(2).normal(50, 10, 40))
    found = corrected_mean(np.full(200, 70.0), Audit(range(40), labels, 40))
    assert found.corrected.value == pytest.approx(np.mean(labels))


def test_the_interval_is_narrower_than_that_of_the_audited_sessions_alone() -> None:
    random = np.random.default_rng(3)
    labels = AUTOMATIC[:40] - 8 + random.normal(0, 2, 40)
    found = corrected_mean(AUTOMATIC, Audit(range(40), list(labels), 40)).corrected
    assert found.low is not None
    assert found.high is not None
    alone = 2 * 2.0227 * labels.std(ddof=1) / np.sqrt(40)
    assert found.high - found.low < 0.75 * alone
