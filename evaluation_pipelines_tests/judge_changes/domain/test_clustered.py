"""Weighted means with errors of people, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.judge_changes.domain.clustered import Part, sum_of_means, weighted_mean


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=np.float64)


def test_one_value_a_person_is_students_interval() -> None:
    found = weighted_mean(array(1, 2, 6), np.ones(3), np.arange(3))

    # Mean 3, squares 4 + 1 + 9 = 14, variance 14 / 2 / 3 = 7 / 3, 2 degrees of freedom: t = 4.3027.
    assert (found.value, found.people, found.sessions) == (3, 3, 3)
    assert found.variance == pytest.approx(7 / 3)
    assert found.freedom == pytest.approx(2)
    assert found.half_width == pytest.approx(4.3027 * (7 / 3) ** 0.5, abs=1e-3)


def test_people_with_as_many_sessions_count_by_their_means() -> None:
    values, people = array(0, 2, 3, 5, 9, 11), np.asarray([0, 0, 1, 1, 2, 2])
    found = weighted_mean(values, np.ones(6), people)

    # Means 1, 4 and 10: mean 5, squares 16 + 1 + 25 = 42, variance 42 / 2 / 3 = 7.
    assert found.value == pytest.approx(5)
    assert found.variance == pytest.approx(7)
    assert found.freedom == pytest.approx(2)


def test_weights_are_those_of_the_sessions() -> None:
    found = weighted_mean(array(10, 20), array(3, 1), np.arange(2))

    # (3 * 10 + 20) / 4. With one session a person, people are alike by nothing but themselves:
    # shares 3/4 and 1/4, sum of squares 10/16; residuals -2.5 and 7.5.
    # 9/16 * 6.25 / (1 - 3/2 + 5/8) + 1/16 * 56.25 / (1 - 1/2 + 5/8) = 28.125 + 3.125.
    assert found.value == pytest.approx(12.5)
    assert found.variance == pytest.approx(31.25)
    # Two people leave one degree of freedom, whatever their shares.
    assert found.freedom == pytest.approx(1)


def test_a_person_with_most_of_the_sessions_leaves_few_degrees_of_freedom() -> None:
    random = np.random.default_rng(3)
    people = np.repeat(np.arange(5), [60, 15, 15, 15, 15])
    values = random.normal(0, 1, 120) + random.normal(0, 4, 5)[people]

    # Half of the weight is one person's: less than 2 instead of 4.
    assert weighted_mean(values, np.ones(120), people).freedom < 2


def test_a_single_person_has_no_error() -> None:
    found = weighted_mean(array(1, 3), np.ones(2), np.zeros(2, dtype=np.int64))

    assert (found.value, found.variance, found.half_width) == (2, None, None)
    assert (found.estimate.low, found.estimate.high) == (None, None)


def test_unknown_persons_are_one_unit_and_no_person() -> None:
    people = np.asarray([UNKNOWN_PERSON, UNKNOWN_PERSON, 1, 2])
    found = weighted_mean(array(1, 3, 2, 2), np.ones(4), people)

    assert (found.people, found.sessions) == (2, 4)
    assert found.variance is not None


def test_equal_values_have_no_error() -> None:
    found = weighted_mean(np.full(4, 7.0), np.ones(4), np.asarray([0, 0, 1, 1]))

    assert (found.value, found.variance, found.half_width) == (7, 0, 0)


def test_the_same_people_in_two_parts_are_compared_with_themselves() -> None:
    after = Part(array(60, 70, 83), np.ones(3), np.arange(3))
    before = Part(array(50, 60, 70), np.ones(3), np.arange(3), sign=-1)
    found = sum_of_means([after, before])

    # Own differences 10, 10, 13: mean 11, squares 1 + 1 + 4 = 6, variance 6 / 2 / 3 = 1.
    assert (found.people, found.sessions) == (3, 3)
    assert found.value == pytest.approx(11)
    assert found.variance == pytest.approx(1)
    assert found.freedom == pytest.approx(2)


def test_the_variances_of_other_people_are_added() -> None:
    first = Part(array(1, 2, 6), np.ones(3), np.arange(3))
    second = Part(array(4, 5, 9), np.ones(3), np.arange(3, 6), sign=-1)
    found = sum_of_means([first, second])

    # 7 / 3 each, as above. Degrees of freedom after Welch with equal variances: 2 + 2.
    assert found.value == pytest.approx(-3)
    assert found.variance == pytest.approx(14 / 3)
    assert found.freedom == pytest.approx(4)
    # Who is unknown before is not who is unknown after.
    unknown = np.asarray([UNKNOWN_PERSON, 1, 2])
    apart = np.asarray([UNKNOWN_PERSON, 3, 4])
    same = [
        sum_of_means([replace(first, people=a), replace(second, people=b)])
        for a, b in ((unknown, apart), (np.arange(3), np.arange(3, 6)))
    ]
    assert same[0].variance == pytest.approx(same[1].variance)
    assert same[0].people == 2


def test_a_part_of_a_single_person_leaves_no_error() -> None:
    both, one = (
        Part(array(1, 3), np.ones(2), np.arange(2)),
        Part(array(2), np.ones(1), np.zeros(1, dtype=np.int64)),
    )

    assert sum_of_means([both, one]).variance is None
    assert sum_of_means([both, one]).value == 4
