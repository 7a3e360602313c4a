"""The status table of requests for one session, row by row."""

import pytest

from evaluation_pipelines.domain.judging.requests import (
    STORE_FAILED,
    UNAUTHORIZED,
    Answer,
    answer_lookup,
    answer_request,
)
from evaluation_pipelines.domain.judging.score import ScoreStatus


@pytest.mark.parametrize(
    ("existing", "force", "expected"),
    [
        (None, False, Answer("create", 202)),
        (None, True, Answer("create", 202)),
        ("completed", False, Answer("existing", 200)),
        ("failed", False, Answer("existing", 200)),
        ("pending", False, Answer("existing", 202)),
        ("in_progress", False, Answer("existing", 202)),
        ("completed", True, Answer("create", 202)),
        ("failed", True, Answer("create", 202)),
        ("pending", True, Answer("conflict", 409)),
        ("in_progress", True, Answer("conflict", 409)),
    ],
)
def test_a_request_is_answered_by_what_exists_and_whether_it_insists(
    existing: ScoreStatus | None, force: bool, expected: Answer
) -> None:
    assert answer_request(existing, force=force) == expected


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("existing", [None, "pending", "in_progress", "completed", "failed"])
def test_an_unknown_or_running_session_is_never_scored(
    existing: ScoreStatus | None, force: bool
) -> None:
    unknown = answer_request(existing, force=force, is_known=False, is_terminal=False)
    running = answer_request(existing, force=force, is_terminal=False)

    assert unknown == Answer("unknown", 404)
    assert running == Answer("not_terminal", 400)


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        (None, Answer("unknown", 404)),
        ("pending", Answer("existing", 200)),
        ("in_progress", Answer("existing", 200)),
        ("completed", Answer("existing", 200)),
        ("failed", Answer("existing", 200)),
    ],
)
def test_looking_finds_what_there_is(existing: ScoreStatus | None, expected: Answer) -> None:
    assert answer_lookup(existing) == expected


def test_what_the_table_does_not_decide_has_its_code_too() -> None:
    assert (UNAUTHORIZED, STORE_FAILED) == (401, 500)
