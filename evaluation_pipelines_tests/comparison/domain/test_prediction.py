"""Predictions of outcomes, worked out by hand."""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.prediction import (
    COIN_LIKE,
    INDICATION,
    NOT_DECIDED,
    NOTHING,
    OTHER,
    PREDICTS,
    WRONG_WAY,
    Prediction,
    Units,
    difference,
    lines,
    look_level,
    predictions,
    step_of,
    verdicts,
)

NAN = math.nan

# Person, stratum, outcome, score. Person 0: 3 > 2, 1 < 2, 5 = 5, 5 > 1: 2.5 of 4 pairs. Person 1:
# 4 of 4. Person 2 has one class, person 3 has 3 pairs, and pairs of strata 0 and 1 do not count.
ROWS = (
    *((0, 0, 1, 3), (0, 0, 1, 1), (0, 0, 0, 2), (0, 1, 1, 5), (0, 1, 0, 5), (0, 1, 0, 1)),
    *((1, 2, 1, 4), (1, 2, 1, 3), (1, 2, 0, 2), (1, 2, 0, 1)),
    *((2, 3, 1, 9), (2, 3, 1, 1), (3, 4, 1, 2), (3, 4, 1, 3), (3, 4, 1, 4), (3, 4, 0, 1)),
)


def predicted(rows: Sequence[tuple[float, ...]], *, is_share: bool = False) -> Prediction:
    people, strata, values, scores = np.array(rows, dtype=np.float64).T
    units = Units(people.astype(np.int64), strata.astype(np.int64), values, is_share)
    (found,) = predictions(units, scores[:, None])
    return found


def test_the_auc_is_a_mean_over_people_with_four_pairs_or_more() -> None:
    found = predicted(ROWS)

    assert found.by_person == {0: 2.5 / 4, 1: 1.0}
    assert (found.auc, found.people, found.one_sided) == (0.8125, 2, 2)
    assert (found.units, found.rarer) == (10, 5)
    # Person 0 has 3 good and 3 bad units, person 1 has 2 and 2.
    noise = (3 + 3 + 1) / (12 * 3 * 3) + (2 + 2 + 1) / (12 * 2 * 2)
    assert found.noise == pytest.approx(noise)
    # s² / G = 2 * 0.1875² / 2; by chance alone with a = (1.625 + 1) / 4.
    near = 2.625 / 4
    chance = math.sqrt(noise * 4 * near * (1 - near) / 4)
    assert found.errors == pytest.approx((0.1875, chance))
    # With one degree of freedom p = 1 - 2 atan(t) / pi, by chance alone that of a normal value.
    by_people = 1 - 2 * math.atan(0.3125 / 0.1875) / math.pi
    assert by_people > math.erfc(0.3125 / chance / math.sqrt(2))
    assert found.p == pytest.approx(by_people)
    # Half-width at 50%: t(0.75, 1) = 1, z(0.75) = 0.6745.
    shown = found.interval(0.5)
    assert (shown.low, shown.high) == pytest.approx((0.8125 - 0.1875, 1.0))


def test_people_who_agree_by_chance_make_an_interval_no_narrower_than_chance() -> None:
    found = Prediction({0: 0.9, 1: 0.9, 2: 0.9}, 0.3, 30, 12, 0)

    # No spread, so that chance alone counts: sqrt(0.3 * 4 a (1 - a)) / 3 with a = (2.7 + 1) / 5.
    chance = math.sqrt(0.3 * 4 * 0.74 * 0.26) / 3
    assert found.p == pytest.approx(math.erfc(0.4 / chance / math.sqrt(2)))
    assert found.interval().low == pytest.approx(0.9 - 1.959964 * chance)


def test_a_unit_without_a_score_is_in_no_pair() -> None:
    rows = [(*row[:3], NAN if row == (1, 2, 1, 4) else row[3]) for row in ROWS]

    assert predicted(rows).by_person == {0: 0.625}  # person 1 has two pairs left


def test_shares_are_compared_if_they_differ_by_more_than_a_tenth() -> None:
    rows = [(0, 0, value, score) for value, score in ((0.9, 1), (0.5, 4), (0.45, 3), (0.1, 2))]

    found = predicted(rows, is_share=True)

    # 0.9 is above all others and has the lowest score; 0.5 and 0.45 are no pair; both above 0.1.
    assert found.by_person == {0: 2 / 5}
    assert (found.units, found.rarer) == (4, 2)
    assert found.noise == pytest.approx((2 + 2 + 1) / (12 * 2 * 2))


def of_people(*values: float, units: int = 60, rarer: int = 20, **more: bool) -> Prediction:
    """Return a prediction with these A; chance alone gives next to none of its variance."""
    return Prediction(dict(enumerate(values)), 1e-9, units, rarer, 0, **more)


def test_scores_are_compared_by_the_differences_of_people_who_count_for_both() -> None:
    first, second = of_people(0.9, 0.7, 0.8, 0.1), of_people(0.7, 0.6, 0.75)

    found = difference(first, second)

    # 0.2, 0.1 and 0.05: mean 0.35 / 3, t(0.975, 2) = 4.3027.
    assert found is not None
    spread = math.sqrt(((0.25 / 3) ** 2 + (0.05 / 3) ** 2 + (0.2 / 3) ** 2) / 2)
    assert found.value == pytest.approx(0.35 / 3)
    assert found.low == pytest.approx(0.35 / 3 - 4.302653 * spread / math.sqrt(3), abs=1e-6)
    assert difference(first, first) is None  # no spread
    assert difference(first, of_people(0.7)) is None


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (of_people(0.7, 0.71, 0.72, 0.7, 0.69), PREDICTS),
        (of_people(0.3, 0.29, 0.28, 0.3, 0.31), WRONG_WAY),
        (of_people(0.5, 0.501, 0.5, 0.499, 0.5), COIN_LIKE),
        (of_people(0.9, 0.2, 0.6, 0.8, 0.3), NOT_DECIDED),
        (of_people(0.7, 0.71, 0.72, 0.7, 0.69, rarer=9), INDICATION),
        (of_people(0.7, 0.71, 0.72, 0.7, 0.69, units=29, is_share=True), INDICATION),
        (of_people(0.7, 0.71, 0.72, 0.7, 0.69, units=30, rarer=0, is_share=True), PREDICTS),
        (of_people(0.7, 0.71, 0.72), INDICATION),
        (of_people(0.7, 0.71), NOTHING),
        (of_people(), NOTHING),
    ],
)
def test_words(found: Prediction, word: str) -> None:
    (verdict,) = verdicts([found], [True], 0.025)

    assert verdict.word == word
    assert (verdict.interval.low is None) is (word == NOTHING)


FEW = "too few sessions of the primary outcome for a look"


@pytest.mark.parametrize(
    ("verdict", "needed", "words"),
    [
        (NOT_DECIDED, 21, f"{NOT_DECIDED}: {{}}, about 21 people would settle an AUC of 70"),
        (NOT_DECIDED, 5, f"{NOT_DECIDED}: {{}}"),  # there are more
        (INDICATION, None, f"{INDICATION}: {{}}"),
        (
            INDICATION,
            5,
            f"{INDICATION} only: {FEW} (this outcome: {{}})",
        ),
    ],
)
@pytest.mark.parametrize(
    ("rarer", "counted", "more"),
    [
        (83, "9 people, 201 sessions, 83 with the rarer result", ""),
        # a share, of which 201 // 2 is no result's number, or as many of both results
        (100, "9 people, 201 sessions", " (5 people and 20 sessions are needed, 30 of a share)"),
    ],
)
def test_a_verdict_that_is_missing_has_its_reason(
    verdict: str, needed: int | None, words: str, rarer: int, counted: str, more: str
) -> None:
    numbers = {"people": 9, "units": 201, "rarer": rarer}
    figures = {**numbers, "verdict": verdict, "people_needed": needed}
    unknown = dict.fromkeys(("auc", "auc_low", "auc_high", "gain", "gain_low", "gain_high"))
    row = {"score": "judge", "outcome": "commit", "family": OTHER, **unknown, **figures}

    (line,) = lines(pl.DataFrame([row]))

    more = more if (verdict, needed) == (INDICATION, None) else ""
    assert line[4] == words.format(counted) + more


def test_two_families_share_the_level_of_a_look() -> None:
    sure = of_people(0.7, 0.71, 0.72, 0.7, 0.69)  # p is about 1e-6
    open_ = of_people(0.9, 0.2, 0.6, 0.8, 0.3)
    few = of_people(0.7, 0.71, 0.72)

    found = verdicts([sure, open_, open_, few, sure, open_], [True] * 4 + [False] * 2, 0.008)

    # Each family has half. Holm: the first of 3 (or 2) tests at a third (half), and where it stops
    # the others at what is left.
    half = 0.004
    assert [verdict.level for verdict in found] == pytest.approx(
        [half / 3, half / 2, half / 2, 0.05, half / 2, half]
    )
    assert found[1].interval == open_.interval(half / 2)


def test_verdicts_change_when_the_rarer_class_has_grown_by_half() -> None:
    steps = {9: 0, 10: 1, 14: 1, 15: 2, 22: 2, 23: 3, 33: 3, 34: 4, 50: 4, 51: 5, 75: 5, 76: 6}
    assert {rarer: step_of(rarer) for rarer in steps} == steps
    # By the second look, at 15 units, 0.05 * (15 / 35)⁴ is spent, by the first 0.05 / 3⁴.
    assert look_level(1, 0, 0) == pytest.approx(0.05 / 81)
    assert look_level(2, 0, 0) == pytest.approx(0.05 * (3 / 7) ** 4)
    assert look_level(2, 1, 0.05 / 81) == pytest.approx(0.05 * ((3 / 7) ** 4 - 1 / 81))
    assert look_level(60, 0, 0) < 0.05


def test_people_needed_follow_from_the_spread_of_people() -> None:
    found = of_people(0.6, 0.8, 0.6, 0.8, 0.7)
    # s² = 0.04 / 4; (1.9600 + 0.8416)² * 0.01 / 0.04 + 1.96² / 4 = 1.9622 + 0.9604.
    assert found.people_needed(0.05) == 5  # never fewer than a verdict takes
    # Ten times the spread: 19.622 + 0.9604.
    wide = of_people(*(0.7 + math.sqrt(10) * (auc - 0.7) for auc in (0.6, 0.8, 0.6, 0.8, 0.7)))
    assert wide.people_needed(0.05) == 21
