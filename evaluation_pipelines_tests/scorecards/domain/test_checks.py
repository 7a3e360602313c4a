"""Checks on scorecards and evaluations."""

from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.schemas import SCORECARDS, SESSION_EVALUATIONS
from evaluation_pipelines.scorecards.domain.scorecard import (
    cards_are_on_their_scale,
    effective_scores_have_a_source,
    every_card_has_its_session,
    every_criterion_is_known,
    profiles_are_sound,
)
from evaluation_pipelines_tests.scorecard_builders import criteria, profile, registry

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


def test_a_card_without_a_window_is_a_warning() -> None:
    sessions = pl.DataFrame({"organization_id": ["default"], "session_key": ["s2"]})
    found = every_card_has_its_session(pl.DataFrame([CARD]), sessions, SCORECARDS)

    assert (found.passed, found.severity) == (False, "warning")
    assert found.examples == ("default, s1, p",)
    there = sessions.with_columns(session_key=pl.lit("s1"))
    assert every_card_has_its_session(pl.DataFrame([CARD]), there, SCORECARDS).passed


def test_a_faulty_profile_is_a_warning_that_says_which() -> None:
    found = profiles_are_sound(["p.yaml is not YAML"], SCORECARDS)

    assert (found.passed, found.severity) == (False, "warning")
    assert found.examples == ("p.yaml is not YAML",)
    assert profiles_are_sound([], SCORECARDS).passed


def test_an_unknown_criterion_of_an_enabled_profile_is_a_warning() -> None:
    typo = profile(criteria=criteria(tool_cuont=1, tool_count=1))
    found = every_criterion_is_known(registry(typo), SCORECARDS)

    assert (found.passed, found.severity) == (False, "warning")
    assert found.examples == ("p version 1: tool_cuont",)
    for sound in (profile(), profile(**(typo.model_dump() | {"enabled": False}))):
        assert every_criterion_is_known(registry(sound), SCORECARDS).passed


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
