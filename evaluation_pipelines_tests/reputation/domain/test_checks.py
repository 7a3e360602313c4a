"""Rules of the scores: what they let pass and what they find."""

import polars as pl
import pytest

from evaluation_pipelines.reputation.domain.agent_score import (
    agent_scores_are_in_range,
    reputation_is_in_range,
)
from evaluation_pipelines.reputation.domain.signals import unknown_identity
from evaluation_pipelines.schemas import AGENT_SCORES, REPUTATION_SCORES
from evaluation_pipelines_tests.reputation.reputation_signals import at

NOW = at("2026-11-20T12:00:00")
AGENT = {
    "organization_id": "default",
    "agent_id": "scout",
    "score": 1000,
    "lifecycle": "active",
    "eval_count": 50,
    "evaluations_in_all": 50,
    "pass_rate": 1.0,
    "streak": 50,
}


def identities(**changes: object) -> pl.DataFrame:
    rows = [unknown_identity("a", NOW), unknown_identity("b", NOW) | changes]
    return pl.DataFrame(rows, schema=REPUTATION_SCORES.schema)


def agents(**changes: object) -> pl.DataFrame:
    rows = [dict.fromkeys(AGENT_SCORES.schema) | AGENT | each for each in ({}, changes)]
    return pl.DataFrame(rows, schema=AGENT_SCORES.schema)


def test_scores_at_the_limits_pass() -> None:
    assert reputation_is_in_range(identities(overall_score=-1.0, confidence=1.0)).passed
    assert agent_scores_are_in_range(agents(score=0, pass_rate=0.0, streak=0)).passed
    newest = {"score": None, "evaluations_in_all": 1, "eval_count": 1, "streak": 1}
    assert agent_scores_are_in_range(agents(**newest)).passed
    calibrating = agents(score=None, evaluations_in_all=49, eval_count=49, streak=0)
    assert agent_scores_are_in_range(calibrating).passed


@pytest.mark.parametrize(
    "changes",
    [
        {"overall_score": 1.1},
        {"score_7d_ago": -1.1},
        {"confidence": 1.1},
        {"confidence": None},
        {"total_events": None},
        {"total_events": 1, "positive_events": 1, "negative_events": 1},
    ],
)
def test_reputation_outside_its_range_is_found(changes: dict[str, object]) -> None:
    result = reputation_is_in_range(identities(**changes))
    assert (result.passed, result.found) == (False, "1 identities outside")


def test_an_example_names_the_identity_and_its_four_scores() -> None:
    scores = {"task_quality_score": 0.5, "economic_score": 0.25, "identity_hygiene_score": 0.125}
    result = reputation_is_in_range(identities(overall_score=1.5, **scores))
    assert result.examples == ("b, 1.5, 0.5, 0.25, 0.125",)


@pytest.mark.parametrize(
    "changes",
    [
        {"score": 1001},
        {"score": None},
        {"score": 700, "evaluations_in_all": 49, "eval_count": 49, "streak": 1},
        {"pass_rate": 1.1},
        {"pass_rate": None},
        {"eval_count": 501},
        {"eval_count": 0, "streak": 0},
        {"streak": 51},
    ],
)
def test_an_agent_score_outside_its_range_is_found(changes: dict[str, object]) -> None:
    result = agent_scores_are_in_range(agents(**changes))
    assert (result.passed, result.found) == (False, "1 agents outside")
