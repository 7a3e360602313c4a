"""The six methods of the gateway: their fields, their errors, and whom they show what."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.tables.judging import OVERRIDES
from evaluation_pipelines_tests.scorecards.calls_profile import build
from evaluation_pipelines_tests.service.answers import A1
from evaluation_pipelines_tests.service.clients import Clients, Service
from evaluation_pipelines_tests.world import claude, line

SPAN = {"from": "2026-06-01T00:00:00Z", "to": "2026-07-01T00:00:00Z"}
PROFILE = {"id": "mine", "name": "Mine", "criteria": [{"id": "tool_count"}]}
GUIDE = {**PROFILE, "id": "efficiency-simple", "matchLabels": ["of the guide"]}
"""A profile with the id of a shipped one."""


def call(client: TestClient, method: str, /, **params: Any) -> Any:
    response = client.post("/api/v1/gateway", json={"method": method, "params": params})
    assert response.status_code == 200, response.text
    return response.json()


def refused(client: TestClient, method: str, /, **params: Any) -> tuple[int, str, str]:
    response = client.post("/api/v1/gateway", json={"method": method, "params": params})
    error = response.json()["error"]
    return response.status_code, error["code"], f"{error['message']} {error['help']}"


def test_a_scorecard_has_the_fields_of_its_design(clients: Clients) -> None:
    (card,) = call(clients["reviewer"], "evaluation.scorecards.query", runId="a1")["scorecards"]
    assert set(card) == {
        *("runId", "agentId", "overallScore", "criteriaScores", "confidence", "disqualified"),
        *("disqualifierTriggered", "reasoning", "explanation", "humanOverride"),
        *("judgeProfileId", "judgeProfileVersion", "model", "provider", "classificationLabel"),
        *("costUsd", "totalTokens", "durationMs", "toolIntelligence", "awaitsReview"),
    }
    # One call of at most ten: 100 * (1 - 1/10) = 90.
    assert (card["runId"], card["overallScore"]) == (A1, pytest.approx(90))
    assert card["criteriaScores"] == {"tool_count": pytest.approx(90)}
    assert (card["judgeProfileId"], card["judgeProfileVersion"]) == ("calls", 1)
    assert (card["costUsd"], card["totalTokens"], card["durationMs"]) == (0.01, 300, 20_000)
    # Heuristic: what explains it was computed, not reasoned.
    assert card["reasoning"] is None
    assert "tool_count" in card["explanation"]
    tools = card["toolIntelligence"]
    # The only call failed: 100 * (1 - 1/1) = 0.
    assert (tools["effectivenessScore"], len(tools["failedCalls"])) == (0, 1)
    assert "secret-plan" in tools["failedCalls"][0]["parameters"]
    assert tools["repeatedCalls"] == tools["corrections"] == []


@pytest.mark.parametrize(
    ("params", "runs"),
    [
        (SPAN, ["a1", "same", "a2"]),
        ({**SPAN, "limit": 1}, ["a2"]),
        ({"from": "2026-06-02T00:00:00Z"}, ["a2"]),
        ({**SPAN, "model": "model-b"}, []),
        ({**SPAN, "classificationLabel": "simple"}, ["a1", "same", "a2"]),
        ({"agentId": "claude-code"}, ["a1", "same", "a2"]),
    ],
)
def test_conditions_choose_cards_of_the_organization(
    clients: Clients, params: dict[str, Any], runs: list[str]
) -> None:
    found = call(clients["reader"], "evaluation.scorecards.query", **params)["scorecards"]
    assert [row["runId"].partition("#")[0] for row in found] == runs


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("evaluation.scorecards.query", {}, 400, "query_too_wide"),
        ("evaluation.scorecards.query", {"model": "m"}, 400, "query_too_wide"),
        ("evaluation.scorecards.query", {"runID": "a1"}, 400, "invalid_request"),
        ("evaluation.scorecards.query", {"runId": "none"}, 404, "not_found"),
        ("evaluation.scorecards.query", {"runId": "a\0"}, 404, "not_found"),
        (
            "evaluation.scorecards.query",
            {"from": SPAN["to"], "to": SPAN["from"]},
            400,
            "empty_time_range",
        ),
        ("evaluation.scorecards.query", {"from": "2026-06-01"}, 400, "invalid_request"),
        ("evaluation.model_comparison", {"from": SPAN["to"], "to": SPAN["from"]}, 400, ""),
        ("evaluation.nothing", {}, 400, "invalid_request"),
        ("evaluation.judges.set", {"id": "x", "name": "X"}, 400, "invalid_request"),
    ],
)
def test_what_cannot_be_answered_says_why(
    clients: Clients, method: str, params: dict[str, Any], status: int, code: str
) -> None:
    found = refused(clients["operator"], method, **params)
    assert found[0] == status
    assert found[1] == code or not code


def test_the_comparison_has_our_intervals_and_only_the_organization(
    clients: Clients,
) -> None:
    (row,) = call(clients["reader"], "evaluation.model_comparison", **SPAN)["models"]
    assert (row["model"], row["runs"], row["avgScore"]) == ("model-a", 3, pytest.approx(90))
    assert (row["avgCostUsd"], row["avgTokens"], row["avgDurationMs"]) == (0.01, 300, 20_000)
    assert row["scorePerDollar"] == pytest.approx(9000)
    assert row["peopleAlikeAvgScore"] == pytest.approx(90)
    assert {"peopleAlikeAvgScoreLow", "peopleAlikeAvgScoreHigh", "rank", "state"} <= set(row)
    (row,) = call(clients["all"], "evaluation.model_comparison", **SPAN)["models"]
    assert row["runs"] == 5


def test_an_override_counts_at_once_and_keeps_the_key(answered: Service, clients: Clients) -> None:
    sent = {"runId": "a2", "overrideScore": 40, "annotator": "ann", "reason": "Not done."}
    stored = call(clients["reviewer"], "evaluation.scorecards.override", **sent)
    assert (stored["runId"], stored["overallScore"]) == ("a2#baseline-1", pytest.approx(90))
    (card,) = call(clients["reviewer"], "evaluation.scorecards.query", runId="a2")["scorecards"]
    human = card["humanOverride"]
    assert (human["overrideScore"], human["annotator"], human["reason"]) == (40, "ann", "Not done.")
    (seen,) = call(clients["reader"], "evaluation.scorecards.query", runId="a2")["scorecards"]
    assert (seen["humanOverride"], seen["explanation"]) == ({**human, "reason": None}, None)
    assert card["overallScore"] == pytest.approx(90)
    with reading(answered.workplace.ledger.engine) as connection:
        assert connection.execute(OVERRIDES.select()).mappings().one()["recorded_by"] == (
            "reviewer-acme"
        )
    assert OverrideStore(answered.workplace.ledger).of_dates().height == 1
    build(answered.workplace)
    (row,) = call(clients["reader"], "evaluation.model_comparison", **SPAN)["models"]
    # Three runs of 90 each; of one of them a person said 40: (90 + 90 + 40) / 3.
    assert row["avgScore"] == pytest.approx(220 / 3)
    assert row["scorePerDollar"] == pytest.approx(220 / 3 / 0.01)
    assert row["peopleAlikeAvgScore"] == pytest.approx(90)
    assert row["peopleAlikeScorePerDollar"] == pytest.approx(9000)


def test_profiles_are_set_and_listed_in_camel_case(clients: Clients) -> None:
    stored = call(clients["all"], "evaluation.judges.set", profile={**PROFILE, "sampleRate": 0.5})
    profile = stored["profile"]
    assert (profile["version"], profile["method"], profile["origin"]) == (1, "heuristic", "api")
    assert (profile["matchLabels"], profile["sampleRate"]) == (["mine"], 0.5)
    assert profile["thresholds"]["toolCountWorst"] == 10
    assert stored["warnings"] == []
    odd = {**PROFILE, "id": "odd", "criteria": [{"id": "tool_cuont"}]}
    (warning,) = call(clients["all"], "evaluation.judges.set", **odd)["warnings"]
    assert "scores the midpoint" in warning
    listed = call(clients["reader"], "evaluation.judges.list")["profiles"]
    assert profile in listed
    assert call(clients["all"], "evaluation.judges.set", **GUIDE)["profile"]["version"] == 3
    assert {row["origin"] for row in listed} == {"api", "file", "shipped"}


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        (
            {"id": "calls", "version": 1, "criteria": [{"id": "response_time"}]},
            409,
            "profile_refused",
        ),
        ({"id": "Bad Id"}, 400, "invalid_profile"),
        ({"method": "llm", "rubric": "none"}, 400, "invalid_profile"),
    ],
)
def test_a_profile_that_is_refused_says_why(
    clients: Clients, change: dict[str, Any], status: int, code: str
) -> None:
    found = refused(clients["all"], "evaluation.judges.set", **{**PROFILE, **change})
    assert found[:2] == (status, code)


def test_a_session_without_tool_calls_says_so(service: Service) -> None:
    service.workplace.land("logs.jsonl", line(claude("user_prompt", 0, session__id="quiet")))
    build(service.workplace)
    report = call(service.client(), "evaluation.tool_report", runId="quiet")
    assert report == {"toolIntelligence": None, "reason": "no tool calls"}
