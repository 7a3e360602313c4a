"""Agreement of automatic and human scores, worked out by hand."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.schemas import OVERRIDES
from evaluation_pipelines.scorecards.domain.calibration import (
    FALSE_NOTICES,
    Agreement,
    Lean,
    Pairs,
    agreement,
    agreements,
    evidence,
    kappa,
    leans,
    spearman,
)
from evaluation_pipelines_tests.docs.documents import named
from evaluation_pipelines_tests.world.rows import at, frame


def overrides(*pairs: tuple[float | None, float], **columns: Any) -> pl.DataFrame:
    """Return OVERRIDES of (automatic, human) scores, in the order they were made."""
    defaults: dict[str, Any] = {
        "organization_id": "default",
        "profile_id": "p",
        "profile_version": 1,
        "source": "audit",
        "state": "live",
        "person_id": None,
        "inclusion_probability": 1.0,
    }
    rows = [
        defaults
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
    facts = {"person_id": pl.String(), "inclusion_probability": pl.Float64()}
    return frame({**OVERRIDES.schema, **facts}, rows)


def pairs(
    automatic: Sequence[float],
    human: Sequence[float],
    weights: Sequence[float] | None = None,
    clusters: Sequence[int] | None = None,
) -> Pairs:
    """Return pairs of equal weight, each a cluster of its own, unless given."""
    number = len(automatic)
    return Pairs(
        np.array(automatic, dtype=np.float64),
        np.array(human, dtype=np.float64),
        np.array(weights if weights is not None else [1.0] * number, dtype=np.float64),
        np.array(clusters if clusters is not None else range(number), dtype=np.int64),
    )


def of_errors(errors: Sequence[float], people: int | None = None, **more: Any) -> Agreement:
    """Return the agreement of sessions with these errors and human scores of 50."""
    found = pairs([50 + error for error in errors], [50] * len(errors), **more)
    return agreement(("p", 1, "audit"), found, people)


def test_bias_and_mean_error_with_students_intervals() -> None:
    found = of_errors([20, 0] * 15)

    # Mean 10, variance 30 * 100 / 29; half 2.0452 * sqrt(100 / 29) = 3.7979. The absolute errors
    # are the same numbers. The jackknife of a mean is its ordinary error.
    assert (found.n, found.people, found.missing) == (30, None, None)
    assert found.bias.value == pytest.approx(10)
    assert (found.bias.low, found.bias.high) == pytest.approx((10 - 3.7979, 10 + 3.7979), abs=1e-3)
    assert found.mae == found.bias


def test_errors_are_clustered_by_person() -> None:
    found = of_errors([20, 20, 20, 20, 20, 20] + [0] * 24, 5, clusters=[n // 6 for n in range(30)])

    # One of five people has all errors. Without that person the mean is 0, without another one 5:
    # mean 4, squares 16 + 4 * 1 = 20, error sqrt(4 / 5 * 20) = 4; t(4) = 2.7764, half 11.1058.
    assert found.bias.value == pytest.approx(4)
    assert (found.bias.low, found.bias.high) == pytest.approx((4 - 11.1058, 4 + 11.1058), abs=1e-3)


def test_sessions_of_the_audit_sample_weigh_as_many_as_they_stand_for() -> None:
    errors = [(70.0, 50.0)] * 20
    rare = overrides(*errors, inclusion_probability=0.5)
    often = overrides(*[(50.0, 50.0)] * 10, inclusion_probability=0.1, content_hash="1")
    (found,) = agreements(pl.concat([rare, often]))

    # 20 sessions stand for 40, 10 for 100: 40 * 20 / 140, and 40 of 140 are off.
    assert found.bias.value == pytest.approx(40 * 20 / 140)
    assert found.off.value == pytest.approx(40 / 140)
    (chosen,) = agreements(pl.concat([rare, often]).with_columns(source=pl.lit("person")))
    assert chosen.bias.value == pytest.approx(20 * 20 / 30)


def test_the_share_of_sessions_that_are_off_has_wilsons_interval() -> None:
    found = of_errors([0, 10, -10, 5, 10.5, -11, 0, 0, 0, 0])

    # 2 of 10; t(9)² = 5.1174: middle (0.2 + 0.25587) / 1.51174 = 0.30155, half
    # sqrt(5.1174) / 1.51174 * sqrt(0.016 + 5.1174 / 400) = 1.49640 * 0.16970 = 0.25394.
    assert found.missing == "not yet: 10 of 30"
    assert found.off.value == pytest.approx(0.2)
    assert (found.off.low, found.off.high) == pytest.approx((0.0476, 0.5555), abs=1e-3)


@pytest.mark.parametrize(
    ("errors", "people", "missing"),
    [
        ([20.0] * 29, None, "not yet: 29 of 30"),
        ([20.0] * 30, 4, "too few people: 4 of 5"),
        ([20.0] * 4 + [10.0] * 26, 5, "too few large errors: 4 of 5"),
        ([20.0] * 5 + [10.0] * 25, 5, None),
    ],
)
def test_what_would_mislead_is_not_computed(
    errors: list[float], people: int | None, missing: str | None
) -> None:
    found = of_errors(errors, people)

    assert found.missing == missing
    estimates = (found.bias, found.mae, found.spearman)
    assert all((estimate.value is None) is (missing is not None) for estimate in estimates[:2])
    assert found.off.low is not None
    assert found.off.high is not None


def test_persons_are_told_apart_unless_many_are_unknown() -> None:
    many = [(70.0, 50.0)] * 30
    (found,) = agreements(overrides(*many, person_id="ada"))
    assert found.missing == "too few people: 1 of 5"

    known, unknown = overrides(*many, person_id="ada"), overrides(*many[:8], content_hash="1")
    (found,) = agreements(pl.concat([known, unknown]))
    assert (found.n, found.people, found.missing) == (38, None, None)


def test_one_person_in_two_organizations_is_one_person() -> None:
    large, small = [(70.0, 50.0)] * 8, [(70.0, 60.0)] * 8
    people = [*((name, large) for name in "abcd"), *((name, small) for name in "efgh")]
    number = pl.int_range(pl.len())
    alone = pl.concat(overrides(*scores, person_id=name) for name, scores in people).with_columns(
        session_key=pl.format("s{}#baseline-1", number)
    )
    in_two = alone.with_columns(organization_id=pl.format("o{}", number % 2))
    assert agreements(in_two) == agreements(alone)
    assert [(found.people, found.missing) for found in agreements(alone)] == [(8, None)]


def test_spearman_is_the_correlation_of_ranks() -> None:
    # Ranks 1 2 3 4 5 and 2 1 4 3 5: d² sums to 4; 1 - 6 * 4 / (5 * 24) = 0.8.
    assert spearman(pairs([10, 20, 30, 40, 50], [22, 11, 44, 33, 99])) == pytest.approx(0.8)
    # Ties share their mean rank: 1.5 1.5 3 4 5 and 1 2 3 4 5. Deviations from 3: -1.5 -1.5 0 1 2
    # and -2 -1 0 1 2. Products 3 + 1.5 + 0 + 1 + 4 = 9.5; squares 9.5 and 10.
    tied = spearman(pairs([1, 1, 2, 3, 4], [1, 2, 3, 4, 5]))
    assert tied == pytest.approx(9.5 / (9.5 * 10) ** 0.5)
    assert spearman(pairs([5, 5, 5, 5, 5], [1, 2, 3, 4, 5])) is None
    assert spearman(pairs([1, 2, 3, 4, 5], [7, 7, 7, 7, 7])) is None


def test_kappa_weights_distances_by_their_square() -> None:
    # Bands 0 0 9 9 9 and 0 9 9 9 0. Observed: 2 of 5 are 81 apart: 32.4.
    # Expected: 0s are 2 and 2, 9s are 3 and 3: 81 * (2*3 + 3*2) / 25 = 38.88.
    both = ([0, 5, 99, 100, 95], [3, 95, 91, 100, 9])
    assert kappa(pairs(*both)) == pytest.approx(1 - 32.4 / 38.88)
    # A session of weight 2 is two sessions. Bands 0 0 9 9 9 9 and 0 9 9 9 0 0: observed 81 * 3 / 6,
    # expected 81 * (2*3 + 4*3) / 36 = 40.5.
    assert kappa(pairs(*both, weights=[1, 1, 1, 1, 2])) == pytest.approx(1 - 40.5 / 40.5)
    # Full agreement is 1, of one band unknown; 100 belongs to the last band, from 90 on.
    assert kappa(pairs([5, 25, 45, 65, 85], [9, 21, 49, 60, 80])) == pytest.approx(1)
    assert kappa(pairs([51, 52, 53, 54, 55], [55, 54, 53, 52, 51])) is None
    assert kappa(pairs([91, 92, 93, 94, 95], [95, 5, 93, 92, 91])) is None
    assert kappa(pairs([85, 100, 95, 85, 95], [89, 95, 100, 80, 90])) == pytest.approx(1)


def test_kappa_needs_sixty_pairs_and_its_interval_is_the_jackknifes_on_atanh() -> None:
    # Bands 1 and 9 in all four combinations: 20 and 20 agree, 10 and 10 are 8 apart.
    combined = [(15.0, 15.0)] * 20 + [(95.0, 95.0)] * 20 + [(15.0, 95.0), (95.0, 15.0)] * 10
    automatic, human = (list(scores) for scores in zip(*combined, strict=True))
    found = agreement(("p", 1, "audit"), pairs(automatic, human)).kappa

    # Two categories: kappa is 1 - (20 / 60) / (1 / 2) = 1 / 3. Without one of 40 that agree,
    # margins are 29 : 30 and 29 : 30: 1 - (20 / 59) / (2 * 29 * 30 / 59²) = 0.321838. Without one
    # of 20 that do not, 29 : 30 and 30 : 29: 1 - (19 / 59) / ((29² + 30²) / 59²) = 0.356117.
    # atanh: 0.333696 and 0.372432; mean 0.346608, squares 40 * 0.00016672 + 20 * 0.00066688 =
    # 0.0200064; error sqrt(59 / 60 * 0.0200064) = 0.140260; t(59) = 2.0010: half 0.280660.
    # atanh(1 / 3) = 0.346574: tanh(0.065914) and tanh(0.627234).
    assert found.value == pytest.approx(1 / 3)
    assert (found.low, found.high) == pytest.approx((0.065819, 0.556115), abs=1e-4)
    few = agreement(("p", 1, "audit"), pairs(automatic[1:], human[1:]))
    assert (few.kappa.value, few.missing) == (None, None)


def test_agreement_has_no_interval_when_one_pair_makes_it() -> None:
    # Without the last pair all human scores are in one band.
    automatic, human = [51.0, 75.0] * 30 + [95.0], [62.0] * 60 + [91.0]
    found = agreement(("p", 1, "audit"), pairs(automatic, human))

    assert found.kappa.value is not None
    assert (found.kappa.low, found.spearman.low) == (None, None)


def test_audit_sample_and_versions_are_kept_apart() -> None:
    audit = overrides((50, 50))
    chosen = overrides((50, 10), (50, 20), source="person")
    imported = overrides((50, 30), source="import", session_key="s9#baseline-1")
    unknown = overrides((50, 30), (50, 30), inclusion_probability=None)
    second = overrides((50, 50), profile_version=2)
    rows = pl.concat([second, chosen, imported, audit, unknown])

    assert [(found.profile_version, found.sample, found.n) for found in agreements(rows)] == [
        (1, "audit", 1),
        (1, "audit, unweighted", 2),
        (1, "chosen", 3),
        (2, "audit", 1),
    ]


def test_the_newest_override_of_each_content_and_sample_counts() -> None:
    same = {"session_key": "s#baseline-1", "content_hash": "0"}
    first, second = overrides((60, 50), (60, 40), **same).partition_by("override_id")
    later = overrides(*[(60, 55)] * 3, source="person", **same)[2:]
    # The reviewer changed the answer to 40; the later override by choice is another sample.
    rows = pl.concat([second, first, later])

    assert [(found.sample, found.n, found.off.value) for found in agreements(rows)] == [
        ("audit", 1, 1.0),
        ("chosen", 1, 0.0),
    ]


def test_overrides_without_an_automatic_score_are_left_out_and_stale_ones_are_not() -> None:
    assert agreements(overrides((None, 50))) == []
    (stale,) = agreements(overrides((50, 50), state="stale"))  # still valid for its content
    assert stale.n == 1


PAIRS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=30, max_size=70)


@given(PAIRS)
@settings(max_examples=25)
def test_estimates_stay_in_their_range(scores: list[tuple[float, float]]) -> None:
    assert_in_range(scores)


@pytest.mark.slow
@given(PAIRS)
def test_estimates_of_more_scores_stay_in_their_range(scores: list[tuple[float, float]]) -> None:
    assert_in_range(scores)


def assert_in_range(scores: list[tuple[float, float]]) -> None:
    (found,) = agreements(overrides(*scores))

    for figure, low, high in (
        (found.off, 0, 1),
        (found.bias, -100, 100),
        (found.mae, 0, 100),
        (found.spearman, -1, 1),
        (found.kappa, -1, 1),
    ):
        if figure.value is not None:
            assert low - 1e-9 <= figure.value <= high + 1e-9
        if figure.low is not None and figure.high is not None:
            assert figure.low <= figure.high
    if found.missing is None:
        assert found.mae.value is not None
        assert found.bias.value is not None
        assert abs(found.bias.value) <= found.mae.value + 1e-9


CRITERIA = {("p", 1): 3, ("p", 2): 3}


def corrections(*errors: float, **columns: Any) -> pl.DataFrame:
    """Return OVERRIDES of one session each: automatic minus human score, in order of time."""
    named = {"annotator": "Ada", "content_hash": "0"} | columns
    return overrides(*((50 + error, 50.0) for error in errors), **named)


def found(overrides: pl.DataFrame, criterion: str | None = None) -> Lean:
    (lean,) = [lean for lean in leans(overrides, CRITERIA) if lean.criterion_id == criterion]
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


def test_a_criterion_needs_more_as_there_are_several_and_can_lean_alone() -> None:
    """3 criteria: 2 * 3 / 0.05 = 120. Ten are 1024 / 11 = 93.1, eleven 2048 / 12 = 170.7."""
    ten, eleven = (corrections(*[9] * n, criterion_id="tool_count") for n in (10, 11))
    assert found(ten, "tool_count").required == pytest.approx(120)
    assert not found(ten, "tool_count").is_beyond_chance
    up = corrections(*[-9] * 11, criterion_id="response_time").with_columns(
        session_key=pl.col("session_key") + "x"
    )
    both = pl.concat([eleven, up])
    assert not found(both).is_beyond_chance
    assert found(both, "tool_count").is_beyond_chance
    assert found(both, "response_time").is_beyond_chance


def test_of_a_session_and_version_the_first_correction_counts() -> None:
    same = corrections(*[9] * 9, session_key="s#baseline-1")
    assert found(same).corrections == 1
    changed = found(corrections(9, -9, -9, session_key="s#baseline-1"))
    assert (changed.corrections, changed.too_high) == (1, 1)
    assert found(corrections(0, -9, session_key="s#baseline-1")).too_high == 0
    # Confirmations, and scores without an automatic one, are no corrections.
    assert leans(corrections(0, 0), CRITERIA) == []
    assert leans(corrections(9, automatic_100=None), CRITERIA) == []
    assert found(corrections(9, 0, 9)).corrections == 2
    both = pl.concat([corrections(9), corrections(-9, profile_version=2)])
    rows = [(lean.profile_version, lean.too_high) for lean in leans(both, CRITERIA)]
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
    for part, required in (
        (criterion >= 0, 40),
        *((criterion == index, 120) for index in range(3)),
    ):
        n, k = part.cumsum(axis=1), (part & lowered).cumsum(axis=1)
        has_notice |= (value[n, k] >= required).any(axis=1)

    error = math.sqrt(FALSE_NOTICES * (1 - FALSE_NOTICES) / histories)
    assert has_notice.mean() <= FALSE_NOTICES + 2 * error
    assert has_notice.mean() >= 0.01  # it is no test that never says anything


def notice_probability(share: float, looks: int) -> float:
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
    within_20, within_60 = (round(100 * notice_probability(0.8, looks)) for looks in (20, 60))
    sentence = (
        f"If 80% of the corrections lean one way, {within_20}% of versions have a notice within 20 "
        f"corrections, {within_60}% within 60."
    )

    assert sentence in " ".join(named("scorecards.md").split())
