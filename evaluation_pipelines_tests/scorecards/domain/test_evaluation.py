"""The precedence of the effective score: each source once, against the sources that it beats."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.profiles.domain.registry import Registry, assign
from evaluation_pipelines.schemas import JUDGE_SCORES, SCORECARDS, SESSION_EVALUATIONS
from evaluation_pipelines.scorecards.domain.evaluation import (
    CARD_COLUMNS,
    NO_PROFILE,
    NOT_ENDED,
    PROVISIONAL,
    TAG_COLUMNS,
    announcements,
    completed,
    evaluate,
    event_id,
    judge_tags,
    labels_without_profile,
    why_low,
    with_newest_overrides,
    worst_criteria,
)
from evaluation_pipelines.scorecards.domain.scorecard import UNSCORED
from evaluation_pipelines_tests.world.rows import frame, sessions_frame
from evaluation_pipelines_tests.world.scorecards import (
    REGISTERED_AT,
    answered,
    evaluated_session,
    evaluated_sessions,
    overrides,
    profile,
    registry,
    result,
    results,
    said,
)
from evaluation_pipelines_tests.world.scorecards import (
    scorecard as card,
)

Row = dict[str, Any]


def evaluated(
    *,
    cards: list[Row] | None = None,
    overriding: list[Row] | None = None,
    judged: list[Row] | None = None,
    composite: float | None = 6.0,
    ended: bool = True,
    known: Registry | None = None,
    unscored: Sequence[tuple[str, ...]] = (),
    **columns: object,
) -> Row:
    """Return the evaluation of one session; ``excluded_by`` may be among the columns."""
    rule = columns.pop("excluded_by", None)
    profiles = registry(profile()) if known is None else known
    sessions = sessions_frame([answered(**columns)]).with_columns(
        composite=pl.lit(composite, pl.Float64),
        is_terminal=pl.lit(ended),
        excluded_by=pl.lit(rule, pl.String),
    )
    scored = frame(SCORECARDS.schema, cards or [])
    found = evaluate(
        sessions,
        assign(sessions, profiles, scored),
        scored,
        pl.DataFrame(unscored, schema=UNSCORED, orient="row"),
        overrides(*(overriding or [])),
        results(*(judged or [])),
    )
    whole = completed(found, PROVISIONAL.to_frame(), profiles)
    assert whole.schema == SESSION_EVALUATIONS.schema
    (row,) = whole.rows(named=True)
    return row


JUDGED = result(total_score=30.0)


TWO = registry(
    profile(),
    profile(id="q", method="llm", rubric="agent-methodology", match_labels=["simple"]),
)
"""Of which q is the best match by labels: it lists the label, p is for all."""


NO_CALLS: Row = {"status": "failed", "composite": None, "tools_ok": 0, "tools_failed": 0}
PRAISED: Row = NO_CALLS | {"judged": [result(total_score=77.0)]}
OPS = registry(profile(match_labels=["ops"]))
CARD = [card(8)]


def unscored(profile_id: str, why: str) -> list[tuple[str, ...]]:
    return [("default", "s1#baseline-1", profile_id, why)]


@pytest.mark.parametrize(
    ("given", "score", "source", "colour", "passed", "more"),
    [
        # A live override comes first; without the person it would be the card.
        (
            {"cards": CARD, "overriding": [said(7, 20)], "judged": [JUDGED]},
            20, "override", "red", False,
            {"override_id": "7", "override_100": 20, "scorecard_100": 80, "confidence": 1,
             "automatic_100": 80, "automatic_source": "scorecard"},
        ),
        # Then the card of the best match,
        (
            {"cards": CARD, "judged": [JUDGED]}, 80, "scorecard", "green", True,
            {"card_id": "card", "profile_id": "p", "profile_version": 1, "confidence": 0.9,
             "reason": None, "automatic_100": 80},
        ),
        *(
            ({"cards": [card(8, **useless)]}, 60, "composite", "yellow", True, {})
            for useless in (
                {"content_hash": "older"}, {"fallback": True}, {"profile_id": "q"},
                {"profile_version": 2}, {"organization_id": "other"},
            )
        ),
        *(  # a stale override and one of another profile do not count
            ({"cards": CARD, "overriding": [said(1, 20, **useless)]},
             80, "scorecard", "green", True, {"override_id": None})
            for useless in ({"content_hash": "older"}, {"profile_id": "q"})
        ),
        # then the total of the judge, the newest of this content,
        ({"judged": [JUDGED]}, 30, "judge", "red", False,
         {"confidence": None, "automatic_100": 30, "automatic_source": "judge"}),
        (
            {"judged": [JUDGED, result(total_score=90.0,
                                       completed_at=REGISTERED_AT - timedelta(days=1))]},
            30, "judge", "red", False, {},
        ),
        ({"judged": [result(content_hash="older")]}, 60, "composite", "yellow", True, {}),
        # then ten times the composite, by which a session without a result does not pass,
        ({}, 60, "composite", "yellow", True, {"automatic_source": "composite"}),
        ({"overriding": [said(1, 20)]}, 20, "override", "red", False,
         {"automatic_100": 60, "automatic_source": "composite"}),
        ({"status": "failed"}, 60, "composite", "yellow", False, {}),
        ({"status": "cancelled"}, 60, "composite", "yellow", False, {}),
        # then nothing: but failure is 0.
        ({"composite": None, "status": "failed"}, 0, "status", "red", False,
         {"automatic_100": 0, "automatic_source": "status"}),
        ({"composite": None}, None, "none", "not scored", None,
         {"quality_risk": None, "confidence": None, "automatic_source": "none"}),
        # One that failed before any tool call is 0, whatever a judge says; a person may differ.
        (PRAISED, 0, "status", "red", False,
         {"automatic_100": 0, "quality_risk": True,
          "reason": "it failed before any tool call, which counts as 0"}),
        (NO_CALLS | {"cards": CARD}, 0, "status", "red", False, {"quality_risk": True}),
        (PRAISED | {"overriding": [said(9, 60)]}, 60, "override", "yellow", True, {}),
        (PRAISED | {"tools_failed": 1}, 77, "judge", "green", False, {}),
        (PRAISED | {"tools_unknown": 1}, 77, "judge", "green", False, {}),
        (PRAISED | {"status": "completed"}, 77, "judge", "green", True, {}),
        # What a rule excludes has no score; those that it had stay readable.
        (
            {"cards": CARD, "overriding": [said(7, 20)], "judged": [JUDGED], "excluded_by": "bots"},
            None, "none", "not scored", None,
            {"card_id": None, "reason": "left out by the rule bots", "scorecard_100": 80,
             "override_100": 20, "automatic_100": None, "automatic_source": "none"},
        ),
        # One that has not ended has none but those of its present content, which an event
        # without content reopened.
        ({"ended": False}, None, "none", "not scored", None,
         {"reason": NOT_ENDED, "automatic_source": "none"}),
        ({"ended": False, "status": "failed"}, None, "none", "not scored", None, {}),
        ({"ended": False, "overriding": [said(1, 20)]}, 20, "override", "red", False, {}),
        ({"ended": False, "cards": CARD}, 80, "scorecard", "green", True, {}),
        ({"ended": False, "judged": [JUDGED]}, 30, "judge", "red", False, {}),
        # Without a card it says why.
        ({"unscored": unscored("p", "the judge failed: refused")}, 60, "composite", "yellow", True,
         {"reason": "the judge failed: refused"}),
        ({"known": OPS}, 60, "composite", "yellow", True,
         {"reason": NO_PROFILE, "profile_id": None}),
        # A profile that cannot score does not stand in the way of one that did.
        (
            {"known": TWO, "cards": CARD, "unscored": unscored("q", "no judge endpoint")},
            80, "scorecard", "green", True,
            {"profile_id": "p", "card_id": "card",
             "reason": "p counts until q scores it: no judge endpoint"},
        ),
        ({"known": TWO, "cards": [card(8), card(2, profile_id="q", card_id="of q")]},
         20, "scorecard", "red", False, {"profile_id": "q", "reason": None}),
        ({"known": TWO, "cards": [card(8), card(5, profile_id="q", fallback=True)]},
         80, "scorecard", "green", True, {"profile_id": "p"}),
        ({"known": TWO}, 60, "composite", "yellow", True, {"profile_id": "q"}),
        # An override counts for the profile that has a card.
        ({"known": TWO, "cards": CARD, "overriding": [said(1, 30, profile_id="q")]},
         80, "scorecard", "green", True, {"profile_id": "p"}),
        ({"known": TWO, "cards": CARD, "overriding": [said(1, 30)]},
         30, "override", "red", False, {"profile_id": "p"}),
        ({"known": TWO, "overriding": [said(1, 30, profile_id="q")]},
         30, "override", "red", False, {"profile_id": "q"}),
        # Colors and passing at their limits.
        *(
            ({"cards": [card(score)]}, pytest.approx(10 * score), "scorecard", colour, passed, {})
            for score, colour, passed in (
                (0.0, "red", False), (4.9999, "red", False), (5.0, "yellow", True),
                (7.4999, "yellow", True), (7.5, "green", True), (10.0, "green", True),
            )
        ),
    ],
)  # fmt: skip
def test_the_first_source_there_is_counts(
    given: Row, score: Any, source: str, colour: str, passed: bool | None, more: Row
) -> None:
    expected = {"effective_100": score, "effective_source": source, "colour": colour}
    expected |= {"passed": passed} | more
    row = evaluated(**given)
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "fraction", "is_risk"),
    [
        ({"cards": [card(3.9999)]}, 0.4, True),
        ({"cards": [card(4.0)]}, 0.4, False),
        ({"cards": [card(6.0)]}, 0.7, True),
        ({"cards": [card(0.0)]}, 0.0, False),
        # Without a profile the default fraction counts.
        ({"composite": 3.99}, None, True),
        ({"composite": 4.0}, None, False),
    ],
)
def test_a_risk_is_a_score_below_the_fraction_of_the_profile(
    given: Row, fraction: float | None, is_risk: bool
) -> None:
    unmatched = profile(match_labels=["ops"], quality_risk_fraction=1.0)
    known = unmatched if fraction is None else profile(quality_risk_fraction=fraction)

    assert evaluated(known=registry(known), **given)["quality_risk"] is is_risk


EXCLUDED = {"excluded_by": "robots", "effective_100": None, "effective_source": "none"}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, (25, "override", "Ada")),  # 2 on a scale from 1 to 5: (2 - 1) / (5 - 1)
        (EXCLUDED, (None, "none", None)),
        ({"content_hash": "newer"}, (60, "composite", None)),
        ({"profile_id": "q"}, (60, "composite", None)),
        ({"profile_id": None}, (60, "composite", None)),
    ],
)
def test_a_new_override_of_its_content_replaces_the_score_of_a_session_without_a_card(
    columns: Row, expected: tuple[float | None, str, str | None]
) -> None:
    composite = {"effective_source": "composite", "effective_100": 60.0}
    stored = evaluated_sessions([evaluated_session(**(composite | columns))])
    older = said(1, 4, scale_min=1.0, scale_max=5.0, annotator="Grace")
    newer = said(2, 2, scale_min=1.0, scale_max=5.0)
    found = with_newest_overrides(stored, overrides(newer, older))

    assert found.columns == [*SESSION_EVALUATIONS.schema, "annotator"]
    assert found.select("effective_100", "effective_source", "annotator").rows() == [expected]


ROW = evaluated_session(confidence=0.9, quality_risk=False, card_id="card")


def evaluations(*changes: dict[str, Any]) -> pl.DataFrame:
    return evaluated_sessions(ROW | change for change in changes)


def kinds(*changes: dict[str, Any]) -> list[str]:
    return [announcement.kind for announcement in announcements(evaluations(*changes))]


def test_every_score_has_a_feedback_event_and_a_low_score_a_risk_event() -> None:
    feedback, risk = "evaluation.model_feedback", "evaluation.quality_risk"
    assert kinds({}) == [feedback]
    assert kinds({"effective_100": 10.0, "quality_risk": True}) == [feedback, risk]
    assert kinds({"effective_100": None, "effective_source": "none", "quality_risk": None}) == []


def test_a_session_that_no_profile_matches_has_no_event_and_its_label_is_counted() -> None:
    unmatched = {"profile_id": None, "card_id": None, "effective_source": "composite"}
    risk = {**unmatched, "effective_100": 10.0, "quality_risk": True}

    assert kinds(unmatched, risk) == []
    rows = evaluations({}, unmatched, risk, {**unmatched, "classification_label": "ops"})
    assert labels_without_profile(rows) == {"code": 2, "ops": 1}


def test_the_payload_has_session_score_confidence_and_source() -> None:
    (event,) = announcements(evaluations({}))
    payload = event.payload_values()

    assert payload == json.loads(event.payload)
    assert payload["event"] == "evaluation.model_feedback"
    for name in ("session_key", "agent_id", "model", "provider", "classification_label"):
        assert payload[name] == ROW[name]
    assert (payload["effective_100"], payload["effective_source"]) == (80.0, "scorecard")
    assert (payload["confidence"], payload["card_id"]) == (0.9, "card")


@pytest.mark.parametrize(
    "change",
    [
        *({"card_id": "other"}, {"content_hash": "1"}, {"override_id": "7"}),
        *({"session_key": "s2"}, {"organization_id": "other"}),
    ],
)
def test_another_card_content_override_or_source_is_a_new_event(change: dict[str, Any]) -> None:
    kind = "evaluation.model_feedback"
    assert event_id(kind, ROW | change) != event_id(kind, ROW)
    without_card = [
        event_id(kind, ROW | change | {"card_id": None, "effective_source": source})
        for source in ("judge", "composite", "status")
    ]
    assert len(set(without_card)) == 3


LOW: dict[str, Any] = {
    "status": "completed",
    "effective_100": 49.9,
    "effective_source": "scorecard",
    "automatic_100": 49.9,
    "state_reason": None,
    "disqualified": False,
    "disqualifier_triggered": None,
    "api_errors": 0,
    "tools_failed": 1,
    "total_tools": 5,
    "worst_criterion": "performance.token_efficiency",
    "worst_100": 21.4,
    "judge_tags": None,
    "automatic_judge_model": "judge-1",
    "quality": 8.0,
    "autonomy": 2.04,
    "productivity": None,
    "token_efficiency": 3.0,
    "cost_efficiency": 9.0,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"effective_100": 50.0}, None),
        (
            {"effective_100": None, "state_reason": "no judge has scored it"},
            "no judge has scored it",
        ),
        ({"effective_100": None}, None),
        ({}, "token efficiency 21 of 100"),
        ({"judge_tags": "no tests"}, "token efficiency 21 of 100 · no tests"),
        ({"judge_tags": "no tests", "automatic_judge_model": None}, "token efficiency 21 of 100"),
        # A quarter of the calls and more are worth a word.
        ({"tools_failed": 2}, "token efficiency 21 of 100 · 2 of 5 calls failed"),
        ({"effective_source": "judge"}, "judge score only"),
        ({"effective_source": "composite"}, "autonomy 2.0 of 10"),
        (
            {"effective_source": "override", "automatic_100": 71.25, "tools_failed": 5},
            "human score 49.9 (automatic: 71.3)",
        ),
        (
            {"effective_source": "override", "automatic_100": 49.9},
            "human score 49.9 (automatic: 49.9)",
        ),
        (
            {"effective_source": "override", "automatic_100": None},
            "human score 49.9 (automatic: none)",
        ),
        ({"disqualified": True, "disqualifier_triggered": "rm -rf /"}, "disqualified: rm -rf /"),
        (
            {"status": "failed", "effective_100": 90.0},
            "failed: does not count as passed",
        ),
        (
            {"status": "failed", "effective_source": "status", "effective_100": 0.0},
            "failed without any tool result: score 0",
        ),
        (
            {"status": "failed", "effective_source": "override", "effective_100": 90.0},
            "failed · human score 90.0 (automatic: 49.9)",
        ),
        ({"status": "failed", "effective_100": None, "effective_source": None}, "failed"),
        ({"status": "failed", "api_errors": 2}, "failed (2 model API errors)"),
    ],
)
def test_the_reason_is_the_worst_that_is_known(
    changes: dict[str, Any], expected: str | None
) -> None:
    assert why_low({**LOW, **changes}) == expected


def test_the_worst_criterion_is_the_lowest_on_the_scale_of_its_card() -> None:
    scores = [{"key": "b", "value": 2.0}, {"key": "a", "value": 2.0}, {"key": "c", "value": None}]
    cards = pl.DataFrame(
        [("one", 1.0, 5.0, scores, None), ("two", 0.0, 1.0, [], "rm")],
        schema=SCORECARDS.no_rows.select(CARD_COLUMNS).schema,
        orient="row",
    )
    one, two = worst_criteria(cards).sort("card_id").to_dicts()
    assert (one["worst_criterion"], one["worst_100"]) == ("a", 25.0)  # (2 - 1) / (5 - 1)
    assert (two["worst_criterion"], two["disqualifier_triggered"]) == (None, "rm")


def test_tags_are_those_of_the_newest_judgment() -> None:
    key = ("acme", "s", "hash")
    scores = pl.DataFrame(
        [
            (*key, 2, ["too_short", "no_tests", "third"]),
            (*key, 1, ["older"]),
            ("acme", "t", "hash", 1, []),
        ],
        schema=["organization_id", "session_key", "content_hash", "completed_at", "failure_tags"],
        orient="row",
    )
    assert {*scores.columns} == {*TAG_COLUMNS}
    assert {*TAG_COLUMNS} <= {*JUDGE_SCORES.schema.names()}
    assert judge_tags(scores)["judge_tags"].to_list() == ["too short, no tests"]
