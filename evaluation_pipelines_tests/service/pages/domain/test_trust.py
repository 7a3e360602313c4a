"""What reviews say of automatic scores, as people read it."""

from evaluation_pipelines.scorecards.domain.calibration import Agreement, AgreementEstimate
from evaluation_pipelines.service.pages.domain.trust import (
    CSV_COLUMNS,
    answer,
    sentence,
    trust_line,
    trust_row,
)

FEW = Agreement("code", 2, "audit", 4, 3, AgreementEstimate(0.25, (0.01, 0.9)), "not yet: 4 of 30")
HIGH = Agreement(
    *("code", 3, "audit", 40, 9, AgreementEstimate(0.2, (0.1, 0.35)), None),
    bias=AgreementEstimate(4.25, (1.0, 7.5)),
    mae=AgreementEstimate(6.0, (4.0, 8.0)),
    spearman=AgreementEstimate(0.81, (0.6, 0.9)),
)
EVEN = Agreement(
    *("simple", 1, "audit", 30, 9, AgreementEstimate(0.1, (0.05, 0.2)), None),
    bias=AgreementEstimate(-0.5, (-2.0, 1.0)),
    mae=AgreementEstimate(3.0, (2.0, 4.0)),
)
CHOSEN = Agreement("code", 3, "chosen", 99, 9, AgreementEstimate(1.0), None)


def test_too_few_reviews_are_no_answer() -> None:
    assert answer([FEW, CHOSEN], 25) == (
        "Not measured yet",
        "A profile needs 30 blind reviews. The most so far is 4. 25 sessions are awaiting review.",
    )
    assert answer([], 0)[1].endswith("far is 0. No session is awaiting review.")


def test_the_profile_that_differs_most_answers() -> None:
    said, because = answer([EVEN, HIGH, FEW], 0)
    assert said == "Within 6.0 points of human scores on average"
    assert because.startswith("Profile code v3, the furthest of 2 profiles. No session")


def test_a_lean_has_its_direction_and_its_interval() -> None:
    assert sentence(HIGH) == (
        "code v3: 4.3 points too high on average (1.0 to 7.5). "
        "20% of 40 scores are off by more than 10 points."
    )
    assert "0.5 points too low on average (2.0 too low to 1.0 too high)" in sentence(EVEN)


def test_a_line_has_the_figures_and_what_is_missing() -> None:
    line = trust_line(HIGH)
    assert (line.reviews, line.lacks, line.off, line.off_interval) == (40, 0, "20%", "10% to 35%")
    assert (line.bias, line.bias_interval) == ("+4.3", "+1.0 to +7.5")
    assert (line.mean_error, line.missing) == ("6.0", "")
    few = trust_line(FEW)
    assert (few.reviews, few.lacks, few.missing) == (4, 26, "not yet: 4 of 30")


def test_a_row_of_the_file_has_every_estimate_with_its_ends() -> None:
    row = dict(zip(CSV_COLUMNS, trust_row(HIGH), strict=True))
    assert (row["profile_id"], row["n"], row["people"], row["missing"]) == ("code", 40, 9, None)
    assert (row["bias"], row["bias_low"], row["bias_high"]) == (4.25, 1.0, 7.5)
    assert (row["kappa"], row["kappa_low"], row["kappa_high"]) == (None, None, None)
