"""Audited runs and the mean that they correct: by hand, and right on average."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.audits import Audit, audits_of, corrected_mean
from evaluation_pipelines.schemas import OVERRIDES
from evaluation_pipelines.scorecards.domain.audit import STRATUM, draw
from evaluation_pipelines_tests.world.rows import Row, frame
from evaluation_pipelines_tests.world.runs import (
    UNTIL,
    audits,
    compared,
    model,
    sample,
    scores,
)

AUTOMATIC = np.full(200, 80.0)


def audit(*groups: tuple[int, float | None, float], automatic: float = 80.0, **more: Any) -> Audit:
    """Return audited sessions: (number, label or None, inclusion probability)."""
    labels = [
        np.nan if label is None else label for number, label, _ in groups for _ in range(number)
    ]
    chances = [chance for number, _, chance in groups for _ in range(number)]
    return Audit(np.full(len(labels), automatic), np.array(labels), np.array(chances), **more)


def ends(found: Any) -> tuple[float, float]:
    return found["corrected_score_low"], found["corrected_score_high"]


def test_each_audited_session_stands_for_as_many_as_its_chance_says() -> None:
    # Twenty of weight 2 are 20 points lower, ten of weight 5 are right:
    # -20 * 40 / (40 + 50) = -8.8889. Residuals -11.1111 and 8.8889, times weight / 90:
    # 0.24691 and 0.49383. Variance 20 * 0.5 * 0.24691² + 10 * 0.8 * 0.49383² = 2.56058, as of
    # 90² / (20 * 4 + 10 * 25) = 24.545 sessions: * 24.545 / 23.545 = 2.66932, root 1.63381.
    # t is 2.0687 at 23 and 2.0639 at 24 degrees of freedom, 2.0660 at 23.545: half 3.3755.
    found = corrected_mean(AUTOMATIC, audit((20, 60.0, 0.5), (10, 80.0, 0.2)))

    assert found["naive_score"] == 80
    assert found["corrected_score"] == pytest.approx(71.1111, abs=1e-4)
    assert ends(found) == pytest.approx((67.7356, 74.4866), abs=1e-3)
    assert (found["audited"], found["unanswered"], found["correction_reason"]) == (30, 0, None)
    assert (found["corrected_score_lowest"], found["corrected_score_highest"]) == ends(found)


def test_what_was_not_answered_is_bounded_by_0_and_100() -> None:
    found = corrected_mean(AUTOMATIC, audit((15, 60.0, 0.5), (15, 80.0, 0.5), (2, None, 0.5)))

    # 15 of 30 are 20 lower. Of the answered ones each had a chance of 0.5 * 30 / 32, so
    # 0.53125 * 30 * (10 / 30)² * 30 / 29 = 1.83190, root 1.35348, times t(29) = 2.0452: 2.7682.
    assert found["corrected_score"] == pytest.approx(70)
    assert ends(found) == pytest.approx((67.2318, 72.7682), abs=1e-3)
    # With two zeros: (15 * -20 + 2 * -80) / 32 = -14.375. Squares of the residuals 15 * 31.64 +
    # 15 * 206.64 + 2 * 4306.64 = 12187.5; 0.5 * 12187.5 / 32² * 32 / 31 = 6.1429, root 2.47849,
    # times t(31) = 2.0395: 5.0549.
    assert found["corrected_score_lowest"] == pytest.approx(80 - 14.375 - 5.0549, abs=1e-3)
    # With two hundreds: (-300 + 40) / 32 = -8.125. Squares 15 * 141.02 + 15 * 66.02 + 2 * 791.02 =
    # 4687.5; 0.5 * 4687.5 / 32² * 32 / 31 = 2.36265, root 1.53709, times 2.0395: 3.1349.
    assert found["corrected_score_highest"] == pytest.approx(80 - 8.125 + 3.1349, abs=1e-3)
    assert (found["audited"], found["unanswered"]) == (30, 2)


def test_a_sample_without_large_errors_does_not_exclude_them() -> None:
    # As of 60² / (30 * 0.5 * 2²) = 60 independent sessions; t(29)² = 4.1829 and Wilson's upper end
    # of 0 in 60 is (4.1829 / 60) / (1 + 4.1829 / 60) = 0.065172. A large error can cost 95, or
    # give 5 points: 6.1913 and 0.3259.
    found = corrected_mean(np.full(200, 95.0), audit((30, 95.0, 0.5), automatic=95.0))

    assert found["corrected_score"] == 95
    assert ends(found) == pytest.approx((88.8087, 95.3259), abs=1e-3)


def test_where_everything_was_looked_at_nothing_is_uncertain() -> None:
    found = corrected_mean(np.full(40, 80.0), audit((39, 80.0, 1.0), (1, 0.0, 1.0)))

    assert (found["corrected_score"], *ends(found)) == pytest.approx((78, 78, 78))


def test_runs_whose_score_is_no_judgment_are_not_corrected() -> None:
    # 50 of 200 runs failed: of them 0 is known to be right, the others are 8 too high.
    automatic = np.repeat([0.0, 80.0], [50, 150])
    found = corrected_mean(automatic, audit((30, 72.0, 0.5)), 150 / 200)

    assert found["corrected_score"] == pytest.approx((150 * 72) / 200)


@pytest.mark.parametrize(
    ("answers", "more", "reason"),
    [
        (29, {}, "29 of 30 reviewed sessions needed"),
        (
            *(29, {"others": 7, "chosen": 90}),
            (
                "29 of 30 reviewed sessions needed, 7 more were drawn with unknown "
                "probabilities, 90 more were corrected, but chosen and not drawn at random"
            ),
        ),
        (30, {"coverage": 0.79}, "only 79% of the sessions are of dates with an audit sample"),
        (30, {"coverage": 0.8}, None),
    ],
)
def test_a_sample_of_few_answers_or_of_some_dates_is_refused(
    answers: int, more: dict[str, Any], reason: str | None
) -> None:
    found = corrected_mean(AUTOMATIC, audit((answers, 72.0, 0.5), (9, None, 0.5), **more))
    means = [found[f"corrected_score{end}"] for end in ("", "_lowest", "_highest")]
    assert [mean is None for mean in means] == [reason is not None] * 3
    assert (found["audited"], found["unanswered"]) == (answers, 9)
    assert found["correction_reason"] == reason


def _population(random: np.random.Generator, sizes: Sequence[int]) -> pl.DataFrame:
    """Return sessions of some models; the judge errs by another amount for each model."""
    models = np.repeat(np.arange(len(sizes)), sizes)
    automatic = random.uniform(40, 90, len(models))
    return pl.DataFrame(
        {
            "session_key": [f"s{number}" for number in range(len(models))],
            "model": [f"model {number}" for number in models],
            "scorecard_100": automatic,
            "label": automatic - 10 * models + random.normal(0, 10, len(models)),
        }
    ).with_columns(
        organization_id=pl.lit("o"),
        content_hash=pl.lit("0"),
        profile_id=pl.lit("p"),
        profile_version=pl.lit(1, pl.Int64),
        classification_label=pl.lit("code"),
    )


def test_draw_and_estimate_together_are_right_on_average() -> None:
    every = _population(np.random.default_rng(5), (240, 120, 60))
    truth = float(every["label"].mean())  # type: ignore[arg-type]
    nothing = every.select(STRATUM).clear()
    errors, hits = [], 0
    for number in range(200):
        day = date(2026, 1, 1) + timedelta(days=number)
        drawn = draw(every.with_columns(session_date=pl.lit(day)), nothing, day, 60)
        audited = drawn.join(every, on="session_key")
        automatic, labels = audited["scorecard_100"].to_numpy(), audited["label"].to_numpy()
        sample = Audit(automatic, labels, audited["inclusion_probability"].to_numpy())
        found = corrected_mean(every["scorecard_100"].to_numpy(), sample)
        assert found["corrected_score"] is not None
        errors.append(found["corrected_score"] - truth)
        low, high = ends(found)
        hits += low <= truth <= high
    # The judge is 10 * (120 + 2 * 60) / 420 = 5.7 points too generous. Half of the draws are of the
    # smallest model: the mean of the drawn errors alone would be off by more than a point.
    monte_carlo = float(np.std(errors)) / np.sqrt(200)
    assert monte_carlo < 0.15
    assert abs(np.mean(errors)) < 3 * monte_carlo
    # 95% of 200 are 190, with a standard deviation of 3.1.
    assert hits >= 181


def override(number: int, **columns: object) -> Row:
    """A live answer of 72 to the audit of session ``s<number>``."""
    return {
        "override_id": str(number),
        "organization_id": "default",
        "session_key": f"s{number}#baseline-1",
        "profile_id": "p",
        "override_100": 72.0,
        "source": "audit",
        "state": "live",
        "made_at": UNTIL,
        **columns,
    }


def test_the_random_sample_is_told_from_what_people_chose() -> None:
    rows = [
        override(1),
        override(2, source="person"),
        override(3, state="stale"),
        override(4),
        override(4, override_id="9", override_100=50.0, state="live"),
        override(4, override_id="8", source="person", override_100=10.0),
    ]
    day = UNTIL.date()
    drawn = [
        ("default", f"s{number}#baseline-1", "p", probability, day)
        for number, probability in ((1, 0.5), (3, None), (4, 0.2), (5, 1.0))
    ]
    names = ["organization_id", "session_key", "profile_id", "inclusion_probability"]
    found = audits_of(
        frame(OVERRIDES.schema, rows),
        pl.DataFrame(drawn, schema=[*names, "session_date"], orient="row"),
    )
    # 2 was chosen; 3 grew since, and 5 was never answered; the newest answer counts for 4.
    assert found.drop("organization_id", "profile_id").rows() == [
        ("s1#baseline-1", 72.0, True, 0.5, day),
        ("s2#baseline-1", 72.0, False, None, None),
        ("s3#baseline-1", None, True, None, day),
        ("s4#baseline-1", 50.0, True, 0.2, day),
        ("s5#baseline-1", None, True, 1.0, day),
    ]


def judged(number: int) -> list[Row]:
    """Runs by a card of profile p; people scored the first 32, with 72."""
    return [
        row
        | {
            "profile_id": "p",
            "profile_version": 1,
            "effective_source": "scorecard",
            "people_score": 72.0 if place < 32 else None,
        }
        for place, row in enumerate(sample("a", scores(80, number, 6), 0))
    ]


def said(rows: list[Row], **columns: object) -> list[Row]:
    """Answers to the first 32: 8 points less than the automatic score."""
    return [
        {
            "organization_id": "default",
            "session_key": row["session_key"],
            "profile_id": "p",
            "label": float(str(row["score"])) - 8,
            "is_random": True,
        }
        | columns
        for row in rows[:32]
    ]


def test_the_corrected_mean_takes_all_automatic_scores_and_what_people_said() -> None:
    rows = judged(90)
    answers = said(rows)
    answers[31]["label"] = None
    found = compared(rows, audits=audits(*answers))
    row = model(found, "a", effective_source="scorecard")
    # The audited runs stay: without them 58 would be left.
    assert (row["runs"], row["people_runs"], row["people_score"]) == (90, 32, 72.0)
    assert (row["audited"], row["unanswered"]) == (31, 1)
    # All 90 automatic scores, and 8 points less.
    assert row["naive_score"] == pytest.approx(sum(scores(80, 90, 6)) / 90)
    # The twelve people have seven or eight runs each, and count once in the mean of the row.
    people = [scores(80, 90, 6)[at::12] for at in range(12)]
    assert row["avg_score"] == pytest.approx(
        sum(sum(person) / len(person) for person in people) / 12
    )
    assert row["corrected_score"] == pytest.approx(row["naive_score"] - 8)
    assert row["corrected_score_lowest"] < row["corrected_score_low"] < row["corrected_score"]
    assert row["corrected_score"] < row["corrected_score_high"] < row["corrected_score_highest"]
    assert found.models.height == 1


def corrected(rows: list[Row], **columns: object) -> dict[str, Any]:
    """Return the row of these runs, of which people scored 32."""
    found = compared(rows, audits=audits(*said(rows, **columns)))
    return model(found, "a", effective_source="scorecard")


def test_what_needs_no_correction_or_is_not_represented_is_left_out() -> None:
    rows = judged(90)
    unknown = corrected(rows, inclusion_probability=None)
    assert (unknown["corrected_score"], unknown["audited"]) == (None, 0)
    assert unknown["correction_reason"] == (
        "0 of 30 reviewed sessions needed, 32 more were drawn with unknown probabilities"
    )
    # Runs that failed at the start are known to be right.
    failed = [*rows[:80], *(row | {"failed_at_start": True, "score": 0.0} for row in rows[80:])]
    found = corrected(failed)
    assert found["corrected_score"] == pytest.approx(found["naive_score"] - 8 * 80 / 90)
    # Dates without a sample are not represented by others.
    old = UNTIL - timedelta(days=9)
    found = corrected([*rows[:60], *(row | {"started_at": old} for row in rows[60:])])
    why = "only 67% of the sessions are of dates with an audit sample"
    assert found["correction_reason"] == why
    other = model(compared(sample("a", scores(80, 40), 0)), "a")
    assert (other["naive_score"], other["audited"], other["correction_reason"]) == (
        None,
        None,
        None,
    )
