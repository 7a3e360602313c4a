"""Which sessions are due, and what a request is answered, each with its reason."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.due import (
    MAX_ATTEMPTS,
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

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NIGHT = datetime(2026, 3, 2, 2, tzinfo=UTC)
DUE = DueState("due", "not scored yet", 1)
TODAY, BEFORE = "a" * 64, "b" * 64
PROFILE = JudgeSetup("default", 2, "agent-methodology", TODAY, "judge-1")


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


def state(
    *past: PastScore,
    of: Window | None = None,
    setup: JudgeSetup | None = PROFILE,
    as_of: datetime = NIGHT,
    **asked: bool,
) -> DueState:
    return due_state(of or window(), setup, past, as_of, ExtraDue(**asked))


def test_an_ended_session_without_a_score_is_due() -> None:
    assert state() == DUE
    assert due_state(window(), PROFILE, [], NIGHT) == DUE


@pytest.mark.parametrize(
    ("of", "setup", "expected"),
    [
        (window(excluded_by="robots", is_terminal=False), PROFILE, "excluded"),
        (window(is_terminal=False), PROFILE, "not_terminal"),
        (window(), None, "no_profile"),
        (window(content_level="none"), PROFILE, "too_thin"),
        (window(), replace(PROFILE, sample_rate=0.0), "sampled_out"),
    ],
)
def test_force_does_not_override_exclusion(
    of: Window, setup: JudgeSetup | None, expected: str
) -> None:
    assert state(of=of, setup=setup).state == expected
    assert state(of=of, setup=setup, force=True).state == expected


def test_the_first_applicable_reason_is_given() -> None:
    thin = window(is_terminal=False, content_level="none")
    rare = replace(PROFILE, sample_rate=0.0)
    assert state(of=thin, setup=None) == DueState("not_terminal", "the session has not ended")

    thin = replace(thin, is_terminal=True)
    assert state(of=thin, setup=None).reason == "no judge profile lists 'code'"
    assert state(of=thin, setup=rare).reason == "no text of the session was logged"
    assert state(of=window(), setup=rare).reason == "not among the 0% that are judged"


@pytest.mark.parametrize("level", ["prompts", "full"])
def test_a_session_with_any_text_is_judged(level: str) -> None:
    assert state(of=window(content_level=level)) == DUE


def test_a_session_without_text_is_judged_on_request() -> None:
    assert state(of=window(content_level="none"), include_thin=True) == DUE


@pytest.mark.parametrize("what", ["texts", "events"])
def test_what_was_scored_before_its_texts_expired_stays_scored(what: Any) -> None:
    spent = window(content_level="none", expired=what)
    since = f"its {what} have expired"
    assert state(completed(), of=spent) == DueState(
        "scored", f"this content is scored; {since} since"
    )
    assert state(completed(words=BEFORE), of=spent) == DueState(
        "scored", f"scored by another rubric; {since} since"
    )
    refused = replace(failed(), retriable=False)
    assert state(refused, of=spent) == DueState(
        "failed", f"failed permanently: HTTP 503; {since} since"
    )


def test_nothing_is_judged_again_after_its_texts_expired() -> None:
    spent = window(content_level="none", expired="texts")
    thin = DueState("too_thin", "its texts have expired")
    assert state(of=spent) == thin
    assert state(of=spent, include_thin=True) == thin
    assert state(failed(), of=spent) == thin  # the next attempt never comes
    assert state(completed(version=1), of=spent) == thin
    assert state(completed(), of=spent, force=True) == thin
    assert state(completed(words=BEFORE), of=spent, obsolete=True) == thin


@pytest.mark.parametrize("status", ["pending", "in_progress"])
@pytest.mark.parametrize(("version", "content"), [(2, "content-1"), (1, "content-0")])
def test_a_session_with_an_open_scoring_is_in_flight_even_for_force(
    status: Any, version: int, content: str
) -> None:
    past = [failed(), PastScore(status, version, content, TODAY)]

    assert state(*past).state == "in_flight"
    assert state(*past, force=True).state == "in_flight"


def test_a_content_is_scored_once_per_version_and_again_with_force() -> None:
    assert state(completed()) == DueState("scored", "this content is scored")
    assert state(completed(), force=True) == DueState("due", "requested with force", 1)
    assert state(failed(), completed()).state == "scored"


def test_a_score_with_an_older_rubric_is_valid_unless_obsolete_is_requested() -> None:
    assert state(completed(words=BEFORE)).state == "scored"
    assert state(completed(words=BEFORE), obsolete=True) == DUE
    assert state(completed(words=TODAY), obsolete=True).state == "scored"
    assert state(completed(words=BEFORE), completed(words=TODAY), obsolete=True).state == "scored"


@pytest.mark.parametrize("past", [completed(content="content-0"), completed(version=1)])
def test_a_score_of_another_content_or_version_does_not_count(past: PastScore) -> None:
    assert state(past) == DUE


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (6, DueState("failed", "retried from 2026-03-02 14:00 UTC: HTTP 503")),
        (-5.9, DueState("failed", "retried from 2026-03-02 02:06 UTC: HTTP 503")),
        # 06:00 + 20 h = 02:00, the time of the run.
        (-6, DueState("due", "not scored yet", 2)),
    ],
)
def test_a_retriable_failure_is_due_again_after_twenty_hours(
    hours: float, expected: DueState
) -> None:
    assert state(failed(hours)) == expected


def test_the_newest_failure_determines_the_retry_time() -> None:
    assert state(failed(-30), failed(0)).state == "failed"
    assert state(failed(-60), failed(-30)) == DueState("due", "not scored yet", 3)


def test_the_third_failure_is_the_last() -> None:
    tired = [failed(-90), failed(-60), failed(-30)]

    assert len(tired) == MAX_ATTEMPTS
    assert state(*tired) == DueState("failed", "given up after 3 attempts: HTTP 503")
    assert state(*tired, force=True) == DueState("due", "requested with force", 4)


def test_a_permanent_failure_is_retried_only_with_force() -> None:
    assert state(failed(-90, retriable=False)).reason == "failed permanently: HTTP 503"
    assert state(failed(-90, retriable=False), force=True).attempt == 2


def test_a_failure_of_another_content_or_version_does_not_count() -> None:
    past = [
        failed(retriable=False, content="content-0"),
        failed(retriable=False, version=1),
    ]
    assert state(*past) == DUE


def test_a_failure_without_a_time_can_be_retried() -> None:
    assert state(replace(failed(), completed_at=None)).state == "due"


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
    plain = Score(
        score_id="id",
        organization_id="acme",
        session_key="s1#baseline-1",
        session_id="s1",
        content_hash="content-1",
        agent_id="codesmith",
        agent_model="model-a",
        session_date=date(2026, 3, 1),
        judge_profile_id="default",
        judge_profile_version=2,
        judge_model="judge-1",
        rubric="agent-methodology",
        prompt_hash=TODAY,
        samples=1,
        status="in_progress",
        score_triggered_by="schedule",
        scored_at_us=1,
        attempt=1,
    )
    return replace(plain, **changes)


def test_an_abandoned_scoring_is_resumable_if_nothing_has_changed() -> None:
    assert why_not_resumable(abandoned(crashes=MAX_CRASHES - 1), window(), PROFILE) is None
    # A change of sampling or of the number of samples does not invalidate the replies.
    other = replace(PROFILE, sample_rate=0.0, samples=3)
    assert why_not_resumable(abandoned(), window(content_level="none"), other) is None


@pytest.mark.parametrize(
    ("score", "of", "setup", "why"),
    [
        (abandoned(crashes=10), window(), PROFILE, "10 processes died while"),
        (abandoned(), None, PROFILE, "the session no longer exists"),
        (abandoned(), window(content_hash="content-2"), PROFILE, "the session has changed since"),
        (abandoned(), window(expired="texts"), PROFILE, "its texts have expired since it was"),
        (abandoned(), window(), None, "no judge profile lists 'code' anymore"),
        (
            abandoned(judge_profile_id="strict"),
            window(),
            PROFILE,
            "started with another judge profile",
        ),
        (
            abandoned(judge_profile_version=1, judge_model="judge-0"),
            window(),
            PROFILE,
            "started with another version of the judge profile and judge model",
        ),
        (
            abandoned(prompt_hash=BEFORE),
            window(),
            PROFILE,
            "started with another wording of the rubric",
        ),
    ],
)
def test_a_scoring_that_is_not_resumable_has_a_reason(
    score: Score, of: Window | None, setup: JudgeSetup | None, why: str
) -> None:
    assert (why_not_resumable(score, of, setup) or "").startswith(why)


@pytest.mark.parametrize(
    ("existing", "force", "expected"),
    [
        (None, False, RequestAnswer("create", 202)),
        (None, True, RequestAnswer("create", 202)),
        ("completed", False, RequestAnswer("existing", 200)),
        ("failed", False, RequestAnswer("existing", 200)),
        ("pending", False, RequestAnswer("existing", 202)),
        ("in_progress", False, RequestAnswer("existing", 202)),
        ("completed", True, RequestAnswer("create", 202)),
        ("failed", True, RequestAnswer("create", 202)),
        ("pending", True, RequestAnswer("conflict", 409)),
        ("in_progress", True, RequestAnswer("conflict", 409)),
    ],
)
def test_a_request_is_answered_by_the_existing_status_and_force(
    existing: ScoreStatus | None, force: bool, expected: RequestAnswer
) -> None:
    assert answer_request(existing, force=force) == expected


@pytest.mark.parametrize(
    ("existing", "force", "expected"),
    [
        (None, False, RequestAnswer("expired", 410)),
        ("completed", True, RequestAnswer("expired", 410)),
        ("completed", False, RequestAnswer("existing", 200)),
        ("pending", False, RequestAnswer("existing", 202)),
    ],
)
def test_after_its_texts_expired_a_session_keeps_its_score_and_gets_no_new_one(
    existing: ScoreStatus | None, force: bool, expected: RequestAnswer
) -> None:
    assert answer_request(existing, force=force, has_expired=True) == expected


@pytest.mark.parametrize("existing", ["pending", "in_progress"])
def test_an_open_scoring_that_no_process_holds_is_not_in_conflict(existing: ScoreStatus) -> None:
    answer = answer_request(existing, force=True, is_held=False)

    assert answer == RequestAnswer("existing", 202)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("existing", [None, "pending", "in_progress", "completed", "failed"])
def test_an_unknown_or_running_session_is_never_scored(
    existing: ScoreStatus | None, force: bool
) -> None:
    unknown = answer_request(existing, force=force, is_known=False, is_terminal=False)
    running = answer_request(existing, force=force, is_terminal=False)

    assert unknown == RequestAnswer("unknown", 404)
    assert running == RequestAnswer("not_terminal", 400)


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        (None, RequestAnswer("unknown", 404)),
        ("pending", RequestAnswer("existing", 200)),
        ("in_progress", RequestAnswer("existing", 200)),
        ("completed", RequestAnswer("existing", 200)),
        ("failed", RequestAnswer("existing", 200)),
    ],
)
def test_a_lookup_returns_the_existing_score(
    existing: ScoreStatus | None, expected: RequestAnswer
) -> None:
    assert answer_lookup(existing) == expected
