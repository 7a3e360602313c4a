"""Status table of requests for one session, row by row."""

import pytest

from evaluation_pipelines.judging.domain.due import (
    STORE_FAILED,
    UNAUTHORIZED,
    RequestAnswer,
    answer_lookup,
    answer_request,
)
from evaluation_pipelines.schemas.judge_score import ScoreStatus


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


def test_other_errors_have_status_codes() -> None:
    assert (UNAUTHORIZED, STORE_FAILED) == (401, 500)
