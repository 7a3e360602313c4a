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
from evaluation_pipelines_tests.builders import START, sessions_frame
from evaluation_pipelines_tests.scorecard_builders import (
    REGISTERED_AT,
    answered,
    overrides,
    profile,
    registry,
    result,
    results,
    said,
)

Row = dict[str, Any]


def card(score: float, **columns: object) -> Row:
    defaults: Row = {
        "card_id": "card",
        "organization_id": "default",
        "session_key": "s1#baseline-1",
        "content_hash": "0",
        "profile_id": "p",
        "profile_version": 1,
        "scale_min": 0.0,
        "scale_max": 10.0,
        "overall_score": score,
        "confidence": 0.9,
        "fallback": False,
        "disqualified": False,
    }
    return dict.fromkeys(SCORECARDS.schema, None) | defaults | columns


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
    scored = pl.DataFrame(cards or [], schema=SCORECARDS.schema, orient="row")
    frame = evaluate(
        sessions,
        assign(sessions, profiles, scored),
        scored,
        pl.DataFrame(unscored, schema=UNSCORED, orient="row"),
        overrides(*(overriding or [])),
        results(*(judged or [])),
    )
    whole = completed(frame, PROVISIONAL.to_frame(), profiles)
    assert whole.schema == SESSION_EVALUATIONS.schema
    (row,) = whole.rows(named=True)
    return row


def outcome(row: Row) -> tuple[Any, ...]:
    return row["effective_100"], row["effective_source"], row["colour"], row["passed"]


JUDGED = result(total_score=30.0)


def test_a_live_override_comes_first() -> None:
    row = evaluated(cards=[card(8)], overriding=[said(7, 20)], judged=[JUDGED])

    assert outcome(row) == (20, "override", "red", False)
    assert (row["override_id"], row["override_100"], row["scorecard_100"]) == ("7", 20, 80)
    assert row["confidence"] == 1
    # Without the person: the card.
    assert (row["automatic_100"], row["automatic_source"]) == (80, "scorecard")


@pytest.mark.parametrize(
    ("given", "score", "source"),
    [
        ({"cards": [card(8)]}, 80, "scorecard"),
        ({"judged": [JUDGED]}, 30, "judge"),
        ({}, 60, "composite"),
        ({"composite": None, "status": "failed"}, 0, "status"),
        ({"composite": None}, None, "none"),
        ({"ended": False}, None, "none"),
        ({"cards": [card(8)], "excluded_by": "robots"}, None, "none"),
    ],
)
def test_the_automatic_score_is_the_one_without_overrides(
    given: dict[str, Any], score: float | None, source: str
) -> None:
    for overriding in ([], [said(1, 20)]):
        row = evaluated(overriding=overriding, **given)
        assert (row["automatic_100"], row["automatic_source"]) == (score, source)


def test_a_session_that_a_rule_excludes_has_no_score() -> None:
    row = evaluated(
        cards=[card(8)], overriding=[said(7, 20)], judged=[JUDGED], excluded_by="robots"
    )

    assert outcome(row) == (None, "none", "not scored", None)
    assert (row["card_id"], row["reason"]) == (None, "left out by the rule robots")
    assert (row["scorecard_100"], row["override_100"]) == (80, 20)  # both stay readable


def test_then_the_card_of_the_best_match() -> None:
    row = evaluated(cards=[card(8)], judged=[JUDGED])

    assert outcome(row) == (80, "scorecard", "green", True)
    assert (row["card_id"], row["profile_id"], row["profile_version"]) == ("card", "p", 1)
    assert (row["confidence"], row["reason"]) == (0.9, None)


def test_then_the_total_of_the_judge() -> None:
    row = evaluated(judged=[JUDGED])

    assert outcome(row) == (30, "judge", "red", False)
    assert row["confidence"] is None


def two_profiles() -> Registry:
    """Of which q is the best match by labels: it lists the label, p is for all."""
    return registry(
        profile(),
        profile(id="q", method="llm", rubric="agent-methodology", match_labels=["simple"]),
    )


def test_a_profile_that_cannot_score_does_not_stand_in_the_way_of_one_that_did() -> None:
    why = [("default", "s1#baseline-1", "q", "no judge endpoint")]
    row = evaluated(known=two_profiles(), cards=[card(8)], unscored=why)
    assert outcome(row) == (80, "scorecard", "green", True)
    assert (row["profile_id"], row["card_id"]) == ("p", "card")
    assert row["reason"] == "p counts until q scores it: no judge endpoint"

    both = [card(8), card(2, profile_id="q", card_id="of q")]
    row = evaluated(known=two_profiles(), cards=both)
    assert (row["profile_id"], row["effective_100"], row["reason"]) == ("q", 20, None)
    placeholder = [card(8), card(5, profile_id="q", fallback=True)]
    assert evaluated(known=two_profiles(), cards=placeholder)["profile_id"] == "p"


def test_an_override_counts_for_the_profile_that_has_a_card() -> None:
    of_q = said(1, 30, profile_id="q")  # the best match by labels
    row = evaluated(known=two_profiles(), cards=[card(8)], overriding=[of_q])
    assert (row["profile_id"], row["effective_100"]) == ("p", 80)
    row = evaluated(known=two_profiles(), cards=[card(8)], overriding=[said(1, 30)])
    assert (row["profile_id"], row["effective_100"]) == ("p", 30)
    row = evaluated(known=two_profiles(), overriding=[of_q])
    assert (row["profile_id"], row["effective_100"], row["effective_source"]) == (
        *("q", 30, "override"),
    )


def test_without_any_card_the_best_match_is_the_one_by_labels() -> None:
    row = evaluated(known=two_profiles())
    assert (row["profile_id"], row["effective_source"]) == ("q", "composite")


def test_then_ten_times_the_composite() -> None:
    assert outcome(evaluated()) == (60, "composite", "yellow", True)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_session_without_a_result_does_not_pass_by_an_automatic_score(status: str) -> None:
    assert outcome(evaluated(status=status)) == (60, "composite", "yellow", False)


def test_then_nothing_but_failure_is_0() -> None:
    assert outcome(evaluated(composite=None, status="failed")) == (0, "status", "red", False)


NO_CALLS: Row = {"status": "failed", "composite": None, "tools_ok": 0, "tools_failed": 0}


@pytest.mark.parametrize("praise", [{"cards": [card(8)]}, {"judged": [result(total_score=77.0)]}])
def test_a_session_that_failed_before_any_tool_call_is_0_whatever_a_judge_says(praise: Row) -> None:
    row = evaluated(**(NO_CALLS | praise))
    assert outcome(row) == (0, "status", "red", False)
    assert (row["automatic_100"], row["quality_risk"]) == (0, True)
    assert row["reason"] == "it failed before any tool call, which counts as 0"

    assert outcome(evaluated(**(NO_CALLS | praise), overriding=[said(9, 60)]))[:2] == (
        *(60, "override"),
    )
    for worked in ({"tools_failed": 1}, {"tools_unknown": 1}, {"status": "completed"}):
        assert evaluated(**(NO_CALLS | praise | worked))["effective_source"] != "status"


def test_without_any_source_there_is_no_score() -> None:
    row = evaluated(composite=None)

    assert outcome(row) == (None, "none", "not scored", None)
    assert (row["quality_risk"], row["confidence"]) == (None, None)


@pytest.mark.parametrize(
    "useless",
    [
        {"content_hash": "older"},
        {"fallback": True},
        {"profile_id": "q"},
        {"profile_version": 2},
        {"organization_id": "other"},
    ],
)
def test_other_cards_do_not_count(useless: Row) -> None:
    assert evaluated(cards=[card(8, **useless)])["effective_source"] == "composite"


@pytest.mark.parametrize("useless", [{"content_hash": "older"}, {"profile_id": "q"}])
def test_a_stale_override_and_one_of_another_profile_do_not_count(useless: Row) -> None:
    row = evaluated(cards=[card(8)], overriding=[said(1, 20, **useless)])

    assert outcome(row) == (80, "scorecard", "green", True)
    assert row["override_id"] is None


def test_a_judge_of_older_content_does_not_count() -> None:
    older = result(content_hash="older")

    assert evaluated(judged=[older])["effective_source"] == "composite"


def test_a_session_that_has_not_ended_has_no_score() -> None:
    for status in ("completed", "failed"):
        row = evaluated(ended=False, status=status)
        assert outcome(row) == (None, "none", "not scored", None)
        assert row["reason"] == NOT_ENDED


def test_scores_of_its_current_content_count_before_it_has_ended() -> None:
    """A late event without content reopened the session; its scores are still valid."""
    assert evaluated(ended=False, overriding=[said(1, 20)])["effective_source"] == "override"
    assert evaluated(ended=False, cards=[card(8)])["effective_source"] == "scorecard"
    assert evaluated(ended=False, judged=[JUDGED])["effective_source"] == "judge"


def test_without_a_card_it_says_why() -> None:
    why = [("default", "s1#baseline-1", "p", "the judge failed: refused")]
    assert evaluated(unscored=why)["reason"] == "the judge failed: refused"
    unmatched = evaluated(known=registry(profile(match_labels=["ops"])))
    assert (unmatched["reason"], unmatched["profile_id"]) == (NO_PROFILE, None)


@pytest.mark.parametrize(
    ("score", "colour", "passed"),
    [
        (0.0, "red", False),
        (4.9999, "red", False),
        (5.0, "yellow", True),
        (7.4999, "yellow", True),
        (7.5, "green", True),
        (10.0, "green", True),
    ],
)
def test_colors_and_passing_at_their_limits(score: float, colour: str, passed: bool) -> None:
    assert outcome(evaluated(cards=[card(score)]))[2:] == (colour, passed)


@pytest.mark.parametrize(
    ("score", "fraction", "is_risk"),
    [(3.9999, 0.4, True), (4.0, 0.4, False), (6.0, 0.7, True), (0.0, 0.0, False)],
)
def test_a_risk_is_a_score_below_the_fraction_of_the_profile(
    score: float, fraction: float, is_risk: bool
) -> None:
    known = registry(profile(quality_risk_fraction=fraction))

    assert evaluated(cards=[card(score)], known=known)["quality_risk"] is is_risk


def test_without_a_profile_the_default_fraction_counts() -> None:
    unmatched = registry(profile(match_labels=["ops"], quality_risk_fraction=1.0))

    assert evaluated(composite=3.99, known=unmatched)["quality_risk"] is True
    assert evaluated(composite=4.0, known=unmatched)["quality_risk"] is False


def test_a_newer_judge_score_replaces_an_older_one() -> None:
    older = result(total_score=90.0, completed_at=REGISTERED_AT - timedelta(days=1))

    assert evaluated(judged=[JUDGED, older])["effective_100"] == 30


def evaluation(**columns: object) -> Row:
    """Return a stored evaluation: a composite of 60 and no card of the profile ``p``."""
    defaults: Row = {
        "organization_id": "default",
        "session_key": "s1#baseline-1",
        "content_hash": "0",
        "profile_id": "p",
        "effective_100": 60.0,
        "effective_source": "composite",
    }
    return dict.fromkeys(SESSION_EVALUATIONS.schema, None) | defaults | columns


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
    stored = pl.DataFrame([evaluation(**columns)], schema=SESSION_EVALUATIONS.schema)
    older = said(1, 4, scale_min=1.0, scale_max=5.0, annotator="Grace")
    newer = said(2, 2, scale_min=1.0, scale_max=5.0)
    found = with_newest_overrides(stored, overrides(newer, older))

    assert found.columns == [*SESSION_EVALUATIONS.schema, "annotator"]
    assert found.select("effective_100", "effective_source", "annotator").rows() == [expected]


ROW: dict[str, Any] = {
    "session_key": "s1#baseline-1",
    "session_id": "s1",
    "organization_id": "default",
    "agent_id": "claude-code",
    "model": "model-a",
    "provider": "provider-a",
    "classification_label": "simple",
    "effective_100": 80.0,
    "effective_source": "scorecard",
    "confidence": 0.9,
    "quality_risk": False,
    "profile_id": "p",
    "card_id": "card",
    "override_id": None,
    "content_hash": "0",
    "session_date": START.date(),
}


def evaluations(*changes: dict[str, Any]) -> pl.DataFrame:
    empty = dict.fromkeys(SESSION_EVALUATIONS.schema, None)
    rows = [empty | ROW | each for each in changes]
    return pl.DataFrame(rows, schema=SESSION_EVALUATIONS.schema, orient="row")


def kinds(*changes: dict[str, Any]) -> list[str]:
    return [each.kind for each in announcements(evaluations(*changes))]


def test_every_score_has_a_feedback_event_and_a_low_score_a_risk_event() -> None:
    assert kinds({}) == ["evaluation.model_feedback"]
    assert kinds({"effective_100": 10.0, "quality_risk": True}) == [
        "evaluation.model_feedback",
        "evaluation.quality_risk",
    ]


def test_without_a_score_there_is_no_event() -> None:
    assert kinds({"effective_100": None, "effective_source": "none", "quality_risk": None}) == []


def test_a_session_that_no_profile_matches_has_no_event_and_its_label_is_counted() -> None:
    unmatched = {"profile_id": None, "card_id": None, "effective_source": "composite"}
    risk = {**unmatched, "effective_100": 10.0, "quality_risk": True}

    assert kinds(unmatched, risk) == []
    rows = evaluations({}, unmatched, risk, {**unmatched, "classification_label": "ops"})
    assert labels_without_profile(rows) == {"ops": 1, "simple": 2}


def test_the_payload_has_session_score_confidence_and_source() -> None:
    (event,) = announcements(evaluations({}))
    payload = event.payload_values()

    assert payload == json.loads(event.payload)
    assert payload["event"] == "evaluation.model_feedback"
    for name in ("session_key", "agent_id", "model", "provider", "classification_label"):
        assert payload[name] == ROW[name]
    assert (payload["effective_100"], payload["effective_source"]) == (80.0, "scorecard")
    assert (payload["confidence"], payload["card_id"]) == (0.9, "card")


def test_equal_events_have_the_same_id() -> None:
    (first,), (again,) = announcements(evaluations({})), announcements(evaluations({}))

    assert first.event_id == again.event_id


@pytest.mark.parametrize(
    "change",
    [
        {"card_id": "other"},
        {"content_hash": "1"},
        {"override_id": "7"},
        {"session_key": "s2"},
        {"organization_id": "other"},
    ],
)
def test_another_card_content_or_override_is_a_new_event(change: dict[str, Any]) -> None:
    kind = "evaluation.model_feedback"

    assert event_id(kind, ROW | change) != event_id(kind, ROW)


def test_the_two_kinds_have_different_ids() -> None:
    assert event_id("a", ROW) != event_id("b", ROW)


def test_without_a_card_the_id_contains_the_source() -> None:
    by = {
        source: event_id("a", ROW | {"card_id": None, "effective_source": source})
        for source in ("judge", "composite", "status")
    }

    assert len(set(by.values())) == 3


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
            "failed, so not passed despite its score",
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
