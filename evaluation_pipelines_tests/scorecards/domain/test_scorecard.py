"""Cards: criteria combined into one score, and reasons for no score."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.schemas import CONTENT_KEY, SCORECARDS, SESSION_EVALUATIONS, UTC_TIME
from evaluation_pipelines.schemas.table import CheckResult
from evaluation_pipelines.scorecards.domain.criteria import TRIGGERED
from evaluation_pipelines.scorecards.domain.scorecard import (
    NO_EVIDENCE,
    NO_POINTS,
    NOT_JUDGED,
    ScoredCards,
    card_id,
    cards_are_on_their_scale,
    effective_scores_have_a_source,
    every_card_has_its_session,
    every_criterion_is_known,
    kept_cards,
    profiles_are_sound,
    score_cards,
    with_scored_at,
)
from evaluation_pipelines_tests.world.rows import at
from evaluation_pipelines_tests.world.scorecards import (
    answered,
    criteria,
    evidence_of,
    judged_profile,
    profile,
    registry,
    result,
    results,
)

KEY = ("default", "s1#baseline-1")
# 42 s a prompt: (120 - 42) / 110; 4 calls a prompt: 1 - 4 / 10.
WORK: dict[str, Any] = {"active_s": 84.0, "prompts": 2, "total_tools": 8, "session_key": KEY[1]}
RESPONSE, COUNT = 78 / 110, 0.6
HYBRID: dict[str, Any] = {
    "id": "j",
    "method": "hybrid",
    "criteria": criteria(tool_count=1, taste=3),
}


def disqualified(by: str | None) -> pl.DataFrame:
    return pl.DataFrame([(*KEY, by is not None, by)], schema=TRIGGERED, orient="row")


def cards_of(
    version: JudgeProfile,
    *judged: dict[str, object],
    triggered: pl.DataFrame | None = None,
    allow_fallback: bool = False,
    **columns: object,
) -> ScoredCards:
    """Return the cards of one session."""
    return score_cards(
        version,
        evidence_of([answered(**(WORK | columns))]),
        results(*judged),
        TRIGGERED.to_frame() if triggered is None else triggered,
        allow_fallback=allow_fallback,
    )


def card(version: JudgeProfile, *judged: dict[str, object], **more: Any) -> dict[str, Any]:
    scored = cards_of(version, *judged, **more)
    assert scored.unscored.is_empty()
    (row,) = scored.cards.rows(named=True)
    return row


def scores(row: dict[str, Any]) -> dict[str, float | None]:
    return {score["key"]: score["value"] for score in row["criteria_scores"]}


def test_the_score_is_the_weighted_mean_on_the_scale() -> None:
    row = card(profile(criteria=criteria(response_time=3, tool_count=1)))

    assert row["overall_score"] == pytest.approx(100 * (3 * RESPONSE + COUNT) / 4)
    assert scores(row) == pytest.approx({"response_time": 100 * RESPONSE, "tool_count": 60})
    assert (row["method"], row["confidence"], row["fallback"]) == ("heuristic", 0.9, False)
    assert row["reasoning"] == "response_time 70.9 x 3, tool_count 60.0 x 1"
    assert (row["profile_id"], row["profile_version"], row["is_best_match"]) == ("p", 1, True)
    assert (row["duration_ms"], row["content_hash"]) == (300_000, "0")


FAILED = result(status="failed", error_message="refused")
FIVE: dict[str, Any] = {"criteria": criteria(tool_count=1), "scale": {"min": 1, "max": 5}}
STRICT = judged_profile(disqualifiers=["rm"])
TASTE = result(criteria_scores={"taste": 80})
ALLOWED = {"allow_fallback": True}


@pytest.mark.parametrize(
    ("version", "judged", "more", "expected"),
    [
        # On the scale of the profile: 1 + 0.6 * 4
        (profile(**FIVE), None, {},
         {"overall_score": 3.4, "criteria": {"tool_count": 3.4}, "scale_min": 1, "scale_max": 5}),
        # A criterion without evidence drops out, and the others weigh more.
        (profile(criteria=criteria(response_time=1, tool_effectiveness=50, tool_count=3)), None, {},
         {"overall_score": 100 * (RESPONSE + 3 * COUNT) / 4,
          "reasoning": "response_time 70.9 x 1, tool_effectiveness unknown, tool_count 60.0 x 3"}),
        # One without a definition scores the midpoint: (50 + 60) / 2
        (profile(criteria=criteria(charm=1, tool_count=1)), None, {},
         {"overall_score": 55,
          "reasoning": "charm 50.0 x 1 (unknown criterion: midpoint), tool_count 60.0 x 1"}),
        # Points of the judge: (25 + 20 + 15 + 10) of 100
        (judged_profile(), result(sample_totals=[50, 60, 70]), {},
         {"overall_score": 70, "confidence": 0.8,
          "reasoning": "logical_flow 100.0 x 25, consistency 80.0 x 25, tool_relevance 60.0 x 25, "
                       "synthesis_quality 40.0 x 25\n\nToo hasty."}),
        # Both: (60 * 1 + 80 * 3) / 4 and (0.9 * 1 + 0.7 * 3) / 4, or of what is known
        (judged_profile(**HYBRID), TASTE, {}, {"overall_score": 75, "confidence": 0.75}),
        (judged_profile(**(HYBRID | {"criteria": criteria(tool_effectiveness=1, taste=3)})), TASTE,
         {}, {"overall_score": 80, "confidence": 0.7}),
        (judged_profile(criteria=criteria(taste=0.5)), TASTE, {},
         {"overall_score": 80, "confidence": 0.7}),
        # A placeholder is written if that is allowed and no score exists.
        (judged_profile(**HYBRID), FAILED, ALLOWED,
         {"overall_score": 50, "confidence": 0.1, "fallback": True, "reasoning":
          "a placeholder: the judge failed: refused; tool_count 60.0 x 1, taste unknown"}),
        (judged_profile(), result(), ALLOWED, {"fallback": False}),
        # A disqualified session has the lowest score whatever its criteria, and needs no judge.
        (profile(**FIVE, disqualifiers=["rm", "dd"]), None, {"triggered": disqualified("dd")},
         {"overall_score": 1, "disqualified": True, "disqualifier_triggered": "dd",
          "criteria": {"tool_count": 3.4}, "reasoning": "disqualified by dd; tool_count 3.4 x 1"}),
        (STRICT, None, {"triggered": disqualified("rm"), **ALLOWED},
         {"overall_score": 0, "fallback": False, "confidence": 0.9}),
        (STRICT, result(), {"triggered": disqualified("rm")},
         {"overall_score": 0, "confidence": 0.7}),
        # It is unknown without texts, and no without disqualifiers.
        (profile(disqualifiers=["rm"]), None, {}, {"disqualified": None}),
        (profile(disqualifiers=["rm"]), None, {"triggered": disqualified(None)},
         {"disqualified": False}),
        (profile(), None, {}, {"disqualified": False}),
    ],
)  # fmt: skip
def test_a_card_says_what_its_criteria_and_the_judge_give(
    version: JudgeProfile,
    judged: dict[str, object] | None,
    more: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    row = card(version, *([] if judged is None else [judged]), **more)
    for name, value in expected.items():
        found = scores(row) if name == "criteria" else row[name]
        exact = value is None or isinstance(value, str | bool)
        assert found == (value if exact else pytest.approx(value, abs=1e-6)), name


@pytest.mark.parametrize(
    ("version", "judged", "more", "reason"),
    [
        (profile(criteria=criteria(tool_effectiveness=1)), None, {}, NO_EVIDENCE),
        (profile(criteria=criteria(tool_effectiveness=1)), None, ALLOWED, NO_EVIDENCE),
        (judged_profile(), result(criteria_scores={}), {}, NO_POINTS),
        (judged_profile(), result(status="pending"), ALLOWED, "judging is in progress"),
        *(
            (version, judged, {}, reason)
            for version in (judged_profile(), judged_profile(**HYBRID))
            for judged, reason in (
                (None, NOT_JUDGED),
                (result(content_hash="older"), NOT_JUDGED),
                (FAILED, "the judge failed: refused"),
                (result(status="pending"), "judging is in progress"),
            )
        ),
    ],
)
def test_no_score_is_invented(
    version: JudgeProfile,
    judged: dict[str, object] | None,
    more: dict[str, Any],
    reason: str,
) -> None:
    scored = cards_of(version, *([] if judged is None else [judged]), **more)
    assert scored.cards.is_empty()
    assert scored.unscored.rows() == [(*KEY, version.id, reason)]


def test_the_card_id_depends_on_profile_version_session_and_content_only() -> None:
    ids = {
        card_id(profile(), *KEY, "0"),
        card_id(profile(), *KEY, "0"),
        card_id(profile(), *KEY, "1"),
        card_id(profile(version=2), *KEY, "0"),
        card_id(profile(id="q"), *KEY, "0"),
        card_id(profile(), "other", KEY[1], "0"),
    }

    assert len(ids) == 5


def test_a_card_keeps_its_time_while_its_score_is_the_same() -> None:
    now = pl.lit(at(99)).cast(UTC_TIME)
    new = cards_of(profile(criteria=criteria(tool_count=1))).cards
    old = new.with_columns(scored_at=pl.lit(at(1)).cast(UTC_TIME))

    def time_of(cards: pl.DataFrame, before: pl.DataFrame) -> datetime:
        found: datetime = with_scored_at(cards, before, now)["scored_at"].item()
        return found

    assert time_of(new, old) == at(1)
    assert time_of(new, old.clear()) == at(99)
    assert time_of(new.with_columns(overall_score=pl.lit(1.0)), old) == at(99)
    assert time_of(new.with_columns(confidence=pl.lit(0.5)), old) == at(99)


def test_cards_for_superseded_content_are_kept() -> None:
    old = cards_of(profile()).cards
    again = pl.DataFrame([(*KEY, "0")], schema=CONTENT_KEY, orient="row")
    grown = pl.DataFrame([(*KEY, "1")], schema=CONTENT_KEY, orient="row")

    assert kept_cards(old, again).is_empty()
    assert kept_cards(old, grown).equals(old)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 100), st.one_of(st.none(), st.integers(0, 100))),
        min_size=1,
        max_size=6,
    ),
    st.floats(-100, 100),
    st.floats(0.1, 100),
)
def test_a_score_is_between_its_lowest_and_highest_known_criterion(
    given_points: list[tuple[float, int | None]], low: float, width: float
) -> None:
    names = {f"c{number}": weight for number, (weight, _) in enumerate(given_points)}
    version = judged_profile(criteria=criteria(**names), scale={"min": low, "max": low + width})
    max_points = version.judge_points
    points = {
        name: None if points_of_100 is None else round(points_of_100 / 100 * max_points[name])
        for name, (_, points_of_100) in zip(names, given_points, strict=True)
    }
    cards = cards_of(version, result(criteria_scores=points)).cards
    known = [
        low + point / max_points[name] * width
        for name, point in points.items()
        if point is not None
    ]

    assert cards.height == bool(known)
    for score in cards["overall_score"]:
        assert min(known) - 1e-9 <= score <= max(known) + 1e-9


CARD: dict[str, Any] = {
    "organization_id": "default",
    "session_key": "s1",
    "profile_id": "p",
    "scale_min": 1.0,
    "scale_max": 5.0,
    "overall_score": 1.0,
    "effective_score": 5.0,
    "effective_100": 100.0,
    "confidence": 0.9,
}


@pytest.mark.parametrize(
    ("change", "passed"),
    [
        ({}, True),
        ({"overall_score": 5.0 + 1e-12}, True),  # floating-point noise
        ({"overall_score": 0.9}, False),
        ({"effective_score": 5.1}, False),
        ({"effective_100": 0.0}, True),
        ({"effective_100": -0.1}, False),
        ({"effective_100": 100.1}, False),
        ({"confidence": 1.1}, False),
        ({"overall_score": None}, False),
        ({"confidence": None}, False),
    ],
)
def test_scores_are_on_their_scale(change: dict[str, Any], passed: bool) -> None:
    found = cards_are_on_their_scale(pl.DataFrame([CARD | change]), SCORECARDS)

    assert (found.passed, found.severity) == (passed, "error")
    assert bool(found.examples) is not passed


TYPO = profile(criteria=criteria(tool_cuont=1, tool_count=1))
OF_CARD = pl.DataFrame({"organization_id": ["default"], "session_key": ["s1"]})
OF_ANOTHER = OF_CARD.with_columns(session_key=pl.lit("s2"))


@pytest.mark.parametrize(
    ("check", "broken", "sound", "example"),
    [
        (
            lambda rows: every_card_has_its_session(pl.DataFrame([CARD]), rows, SCORECARDS),
            *(OF_ANOTHER, OF_CARD, "default, s1, p"),
        ),
        (
            lambda faults: profiles_are_sound(faults, SCORECARDS),
            *(["p.yaml is not YAML"], [], "p.yaml is not YAML"),
        ),
        *(
            (
                lambda version: every_criterion_is_known(registry(version), SCORECARDS),
                *(TYPO, sound, "p version 1: tool_cuont"),
            )
            for sound in (profile(), profile(**(TYPO.model_dump() | {"enabled": False})))
        ),
    ],
)
def test_what_is_amiss_with_cards_and_profiles_is_a_warning_that_says_which(
    check: Callable[[Any], CheckResult], broken: object, sound: object, example: str
) -> None:
    found = check(broken)
    assert (found.passed, found.severity, found.examples) == (False, "warning", (example,))
    assert check(sound).passed


@pytest.mark.parametrize(
    ("score", "source", "passed"),
    [
        (50.0, "scorecard", True),
        (0.0, "status", True),
        (100.0, "judge", True),
        (None, "none", True),
        (50.0, "none", False),
        (None, "scorecard", False),
        (50.0, "guess", False),
        (100.1, "scorecard", False),
        (-0.1, "scorecard", False),
        (50.0, None, False),
    ],
)
def test_scores_and_sources_come_together(
    score: float | None, source: str | None, passed: bool
) -> None:
    frame = pl.DataFrame(
        [("s1", score, source)],
        schema={
            "session_key": pl.String,
            "effective_100": pl.Float64,
            "effective_source": pl.String,
        },
        orient="row",
    )

    assert effective_scores_have_a_source(frame, SESSION_EVALUATIONS).passed is passed
