"""A batch whose creation had no answer is searched for: it is not sent, and paid for, again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evaluation_pipelines_tests.judge_batches import BatchRoutes, lost
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judging.batch.batched import Batched


def without_routes(routes: BatchRoutes) -> Callable[[], None]:
    """Make all routes unknown, as at another address; return a function that undoes it."""
    routes.enabled = False
    return lambda: setattr(routes, "enabled", True)


def of_another_account(routes: BatchRoutes) -> Callable[[], None]:
    """Leave routes without batches and files, as another key; return a function that undoes it."""
    had: list[tuple[dict[str, Any], dict[str, Any]]]
    had = [(each, dict(each)) for each in (routes.batches, routes.files)]
    for each, _ in had:
        each.clear()

    def undo() -> None:
        for each, before in had:
            each.update(before)

    return undo


@pytest.fixture
def submitting(batched: Batched, judge: JudgeEndpoint) -> Batched:
    """Stores with a batch that was created without an answer, 11 minutes ago."""
    batched.land("s1")
    judge.batches.script("create", lost(), after=True)
    batched.advance()
    batched.now += timedelta(minutes=11)
    return batched


@pytest.mark.parametrize("change", [without_routes, of_another_account])
def test_another_address_or_key_does_not_discard_a_batch(
    submitting: Batched, judge: JudgeEndpoint, change: Callable[[BatchRoutes], Callable[[], None]]
) -> None:
    undo = change(judge.batches)
    submitting.advance()
    assert submitting.states() == ["submitting"]
    undo()
    submitting.advance()
    assert submitting.states() == ["submitted"]
    assert set(judge.batches.sent.values()) == {1}


def test_a_batch_that_stays_unknown_is_given_up_after_a_day(
    submitting: Batched, judge: JudgeEndpoint
) -> None:
    of_another_account(judge.batches)
    submitting.now += timedelta(hours=23)
    assert "check OPENAI_BASE_URL and OPENAI_API_KEY" in submitting.advance().summary()
    submitting.now += timedelta(hours=1)
    assert submitting.advance().submitted == 1
    assert submitting.states() == ["discarded", "submitted"]


def test_a_batch_that_is_listed_without_metadata_is_found_by_its_file(
    submitting: Batched, judge: JudgeEndpoint
) -> None:
    for each in judge.batches.batches.values():
        each["metadata"] = None
    submitting.advance()
    assert submitting.states() == ["submitted"]
