"""Which sessions are due, and what a request is answered, each with its reason."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.due import (
    MAX_CRASHES,
    DueState,
    ExtraDue,
    JudgeSetup,
    PastScore,
    RequestAnswer,
    Window,
    answer_lookup,
    answer_request,
    due_state,
    in_sample,
    oldest_first,
    why_not_resumable,
)
from evaluation_pipelines.schemas.judge_score import Score, ScoreStatus
from evaluation_pipelines_tests.judging.ledger.score_builders import new_score

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NIGHT = datetime(2026, 3, 2, 2, tzinfo=UTC)
TODAY, BEFORE = "a" * 64, "b" * 64
PROFILE = JudgeSetup("default", 2, "agent-methodology", TODAY, "judge-1")


RARE = replace(PROFILE, sample_rate=0.0)


def window(**changes: Any) -> Window:
    """Return a session that ended at noon, with all texts logged."""
    plain = Window(
        organization_id="acme",
        session_key="s1#baseline-1",
        session_id="s1",
        session_date=date(2026, 3, 1),
        agent_id="codesmith",
        agent_model="model-a",
        classification_label="code",
        started_at=NOON - timedelta(minutes=10),
        ended_at=NOON,
        is_terminal=True,
        content_level="full",
        content_hash="content-1",
    )
    return replace(plain, **changes)


def completed(version: int = 2, content: str = "content-1", words: str = TODAY) -> PastScore:
    return PastScore("completed", version, content, words, completed_at=NOON)


def failed(
    hours: float = 0, *, retriable: bool = True, version: int = 2, content: str = "content-1"
) -> PastScore:
    """Return a failure ``hours`` after noon."""
    ended = NOON + timedelta(hours=hours)
    return PastScore("failed", version, content, TODAY, retriable, ended, "HTTP 503")


def due(attempt: int = 1, reason: str = "not scored yet") -> DueState:
    return DueState("due", reason, attempt)


SCORED = DueState("scored", "this content is scored")
THIN = DueState("too_thin", "its texts have expired")
FORCED, SINCE = "requested with force", "its texts have expired since"
SPENT = window(content_level="none", expired="texts")
NO_EVENTS = window(content_level="none", expired="events")


@pytest.mark.parametrize(
    ("past", "of", "setup", "expected"),
    [
        # The first reason that applies counts, and nothing that is asked for overrides it.
        ([], window(excluded_by="robots", is_terminal=False), PROFILE, "excluded"),
        ([], window(is_terminal=False, content_level="none"), None, "the session has not ended"),
        ([], window(content_level="none"), None, "no judge profile lists 'code'"),
        ([], window(content_level="none"), RARE, "no text of the session was logged"),
        ([], window(), RARE, "not among the 0% that are judged"),
        ([PastScore("pending", 2, "content-1", TODAY)], window(), PROFILE, "in_flight"),
        ([failed(), PastScore("in_progress", 1, "content-0", "")], window(), PROFILE, "in_flight"),
        # Nothing is judged again after its texts expired: neither by a version nor on request.
        ([], SPENT, PROFILE, "its texts have expired"),
        ([failed()], SPENT, PROFILE, "its texts have expired"),
        ([completed(version=1)], SPENT, PROFILE, "its texts have expired"),
    ],
)  # fmt: skip
def test_what_is_not_judged_has_its_reason_even_for_force(
    past: list[PastScore], of: Window, setup: JudgeSetup | None, expected: str
) -> None:
    for force in (False, True):
        found = due_state(of, setup, past, NIGHT, ExtraDue(force=force))
        assert expected in {found.state, found.reason}, force


@pytest.mark.parametrize(
    ("past", "of", "asked", "expected"),
    [
        ([], window(), "", due()),
        ([], window(content_level="prompts"), "", due()),
        ([], window(content_level="none"), "include_thin", due()),
        ([], SPENT, "include_thin", THIN),
        # A content is scored once per version.
        ([completed()], window(), "", SCORED),
        ([completed()], window(), "force", due(1, FORCED)),
        ([completed()], SPENT, "force", THIN),
        ([failed(), completed()], window(), "", SCORED),
        ([completed(content="content-0")], window(), "", due()),
        ([completed(version=1)], window(), "", due()),
        ([completed(words=TODAY)], window(), "obsolete", SCORED),
        ([completed(words=BEFORE)], window(), "obsolete", due()),
        ([completed(words=BEFORE)], SPENT, "obsolete", THIN),
        ([completed(words=BEFORE), completed()], window(), "obsolete", SCORED),
        # A retriable failure is due again after 20 h: 06:00 + 20 h = 02:00, the time of the run.
        ([failed(6)], window(), "", "retried from 2026-03-02 14:00 UTC: HTTP 503"),
        ([failed(-5.9)], window(), "", "retried from 2026-03-02 02:06 UTC: HTTP 503"),
        ([failed(-6)], window(), "", due(2)),
        ([failed(-30), failed(0)], window(), "", "retried from 2026-03-02 08:00 UTC: HTTP 503"),
        ([failed(-60), failed(-30)], window(), "", due(3)),
        ([replace(failed(), completed_at=None)], window(), "", due(2)),
        ([failed(h) for h in (-90, -60, -30)], window(), "", "given up after 3 attempts: HTTP 503"),
        ([failed(h) for h in (-90, -60, -30)], window(), "force", due(4, FORCED)),
        ([failed(-90, retriable=False)], window(), "", "failed permanently: HTTP 503"),
        ([failed(-90, retriable=False)], window(), "force", due(2, FORCED)),
        ([failed(retriable=False, content="content-0")], window(), "", due()),
        ([failed(retriable=False, version=1)], window(), "", due()),
        ([failed(retriable=False)], window(), "failed", due(2, "failed, and requested again")),
        ([failed(), completed()], window(), "failed", SCORED),
        # What was scored or has failed before its texts expired stays so.
        ([failed(retriable=False)], SPENT, "", f"failed permanently: HTTP 503; {SINCE}"),
        ([completed()], SPENT, "", replace(SCORED, reason=f"this content is scored; {SINCE}")),
        ([completed()], NO_EVENTS, "",
         replace(SCORED, reason="this content is scored; its events have expired since")),
    ],
)  # fmt: skip
def test_past_scorings_and_what_is_asked_for_decide_about_a_session(
    past: list[PastScore], of: Window, asked: str, expected: DueState | str
) -> None:
    extra = ExtraDue(**{asked: True} if asked else {})
    failure = DueState("failed", expected) if isinstance(expected, str) else expected
    assert due_state(of, PROFILE, past, NIGHT, extra) == failure


def test_a_score_with_an_older_rubric_is_valid_and_says_so() -> None:
    found = due_state(window(), PROFILE, [completed(words=BEFORE)], NIGHT)
    assert found == DueState("scored", "scored by another rubric", is_outdated=True)
    spent = due_state(SPENT, PROFILE, [completed(words=BEFORE)], NIGHT)
    assert spent == DueState("scored", f"scored by another rubric; {SINCE}")


@pytest.mark.parametrize(
    ("key", "place"),
    # printf %s KEY | sha256sum, the first 8 bytes as a fraction of 2**64
    [("s1#baseline-1", 0xA5 / 256), ("s2#baseline-1", 0x44 / 256)],
)
def test_a_session_is_in_the_sample_by_the_hash_of_its_key(key: str, place: float) -> None:
    # The first byte alone is exact to 1/256.
    assert not in_sample(key, place)
    assert in_sample(key, place + 1 / 256)


@given(st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_rate_only_adds_sessions(key: str, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert in_sample(key, high) or not in_sample(key, low)
    assert in_sample(key, 1.0)
    assert not in_sample(key, 0.0)


def test_a_rate_of_one_tenth_selects_about_a_tenth() -> None:
    taken = sum(in_sample(f"session-{number}#baseline-1", 0.1) for number in range(10_000))
    assert 900 < taken < 1_100  # 1 000 expected, standard deviation 30


def test_sessions_that_have_waited_longest_come_first() -> None:
    late = window(session_key="a", ended_at=NIGHT)
    same = [window(organization_id="b", session_key="a"), window(session_key="c")]

    ordered = sorted([late, *same], key=oldest_first)
    assert ordered == [same[1], same[0], late]


def abandoned(**changes: Any) -> Score:
    """Return a scoring of that session whose process has ended."""
    given: dict[str, Any] = {
        "judge_profile_version": 2,
        "prompt_hash": TODAY,
        "status": "in_progress",
    }
    return new_score(**(given | {"status": "in_progress"} | changes))


@pytest.mark.parametrize(
    ("changes", "of", "setup", "why"),
    [
        ({"crashes": MAX_CRASHES - 1}, window(), PROFILE, None),
        # A change of sampling or of the number of samples does not invalidate the replies.
        ({}, window(content_level="none"), replace(RARE, samples=3), None),
        ({"crashes": 10}, window(), PROFILE, "10 processes died while"),
        ({}, None, PROFILE, "the session no longer exists"),
        ({}, window(content_hash="content-2"), PROFILE, "the session has changed since"),
        ({}, window(expired="texts"), PROFILE, "its texts have expired since it was"),
        ({}, window(), None, "no judge profile lists 'code' anymore"),
        ({"judge_profile_id": "strict"}, window(), PROFILE, "started with another judge profile"),
        (
            {"judge_profile_version": 1, "judge_model": "judge-0"}, window(), PROFILE,
            "started with another version of the judge profile and judge model",
        ),
        ({"prompt_hash": BEFORE}, window(), PROFILE, "started with another wording of the rubric"),
    ],
)  # fmt: skip
def test_an_abandoned_scoring_is_resumable_or_has_a_reason(
    changes: dict[str, Any], of: Window | None, setup: JudgeSetup | None, why: str | None
) -> None:
    found = why_not_resumable(abandoned(**changes), of, setup)
    assert (found or "").startswith(why or "")
    assert (found is None) is (why is None)


@pytest.mark.parametrize(
    ("existing", "force", "more", "expected"),
    [
        (None, False, {}, ("create", 202)),
        (None, True, {}, ("create", 202)),
        ("completed", False, {}, ("existing", 200)),
        ("failed", False, {}, ("existing", 200)),
        ("pending", False, {}, ("existing", 202)),
        ("in_progress", False, {}, ("existing", 202)),
        ("completed", True, {}, ("create", 202)),
        ("failed", True, {}, ("create", 202)),
        ("pending", True, {}, ("conflict", 409)),
        ("in_progress", True, {}, ("conflict", 409)),
        # An open scoring that no process holds is no conflict.
        ("pending", True, {"is_held": False}, ("existing", 202)),
        ("in_progress", True, {"is_held": False}, ("existing", 202)),
        # After its texts expired a session keeps its score and gets no new one.
        (None, False, {"has_expired": True}, ("expired", 410)),
        ("completed", True, {"has_expired": True}, ("expired", 410)),
        ("completed", False, {"has_expired": True}, ("existing", 200)),
        ("pending", False, {"has_expired": True}, ("existing", 202)),
        # What is unknown or running is never scored.
        ("completed", True, {"is_known": False, "is_terminal": False}, ("unknown", 404)),
        (None, False, {"is_known": False}, ("unknown", 404)),
        ("completed", False, {"is_terminal": False}, ("not_terminal", 400)),
        ("pending", True, {"is_terminal": False}, ("not_terminal", 400)),
        (None, True, {"is_terminal": False}, ("not_terminal", 400)),
    ],
)
def test_a_request_is_answered_by_the_state_of_session_and_scoring(
    existing: ScoreStatus | None, force: bool, more: dict[str, bool], expected: tuple[Any, int]
) -> None:
    assert answer_request(existing, force=force, **more) == RequestAnswer(*expected)


def test_a_lookup_returns_the_existing_score() -> None:
    statuses: list[ScoreStatus] = ["pending", "in_progress", "completed", "failed"]
    assert answer_lookup(None) == RequestAnswer("unknown", 404)
    assert {answer_lookup(status) for status in statuses} == {RequestAnswer("existing", 200)}
