"""Routes of batches that fail: the next run finds out what is at the provider."""

from datetime import timedelta

import pytest

from evaluation_pipelines_tests.judge_batches import lost
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    garbage,
    half_a_body,
    http_error,
)
from evaluation_pipelines_tests.judging.batch.batched import Batched


@pytest.mark.parametrize(
    ("answer", "created"),
    [
        (lost(), False),
        (lost(), True),
        pytest.param(http_error(500, "oops"), False, marks=pytest.mark.slow),
        pytest.param(http_error(500, "oops"), True, marks=pytest.mark.slow),
        pytest.param(http_error(429, "slow"), False, marks=pytest.mark.slow),
    ],
)
def test_a_creation_without_an_answer_is_found_out_by_the_next_run(
    batched: Batched, judge: JudgeEndpoint, answer: Scripted, created: bool
) -> None:
    batched.land("s1")
    judge.batches.script("create", answer, after=created)
    report = batched.advance()
    assert "the next run finds out" in report.summary()
    assert batched.states() == ["submitting"]
    batched.advance()
    assert batched.states() == ["submitted" if created else "submitting"]
    batched.now += timedelta(minutes=11)  # it would be listed by now
    batched.advance()
    assert batched.states() == (["submitted"] if created else ["discarded", "submitted"])
    batched.finish_all()


@pytest.mark.parametrize(
    ("route", "answer"),
    [
        ("retrieve", garbage()),
        pytest.param("retrieve", http_error(500), marks=pytest.mark.slow),
        pytest.param("content", http_error(500), marks=pytest.mark.slow),
        pytest.param("content", lost(), marks=pytest.mark.slow),
        ("content", half_a_body()),
        ("delete", http_error(500)),
    ],
)
def test_a_poll_or_download_that_fails_is_repeated_by_the_next_run(
    batched: Batched, judge: JudgeEndpoint, route: str, answer: Scripted
) -> None:
    batched.land("s1")
    batched.advance()
    judge.batches.script(route, answer)
    batched.finish()
    batched.finish_all()


@pytest.fixture(params=[..., None, pytest.param(1_800_000_000_000, marks=pytest.mark.slow)])
def submitted(batched: Batched, judge: JudgeEndpoint, request: pytest.FixtureRequest) -> Batched:
    """Stores with a batch whose provider reports a time, none, or milliseconds as its end."""
    judge.batches.created_at = int(batched.now.timestamp())
    judge.batches.expires_at = request.param
    batched.land("s1")
    batched.advance()
    return batched


def test_a_batch_that_the_endpoint_does_not_know_is_given_up_when_it_has_expired(
    submitted: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.batches.clear()  # another key is set
    report = submitted.advance()
    assert "check OPENAI_BASE_URL and OPENAI_API_KEY" in report.summary()
    assert (report.submitted, submitted.states()) == (0, ["submitted"])
    submitted.now += timedelta(hours=25)
    assert submitted.advance().submitted == 1
    assert submitted.states() == ["discarded", "submitted"]


def test_a_file_of_results_that_cannot_be_read_is_read_again_and_nothing_is_sent_twice(
    submitted: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    output = judge.batches.files[batch["output_file_id"]]
    judge.batches.files[batch["output_file_id"]] = b"<html>try again</html>\n"
    report = submitted.advance()
    assert "its files have 0 of 1 results" in report.summary()
    assert (report.submitted, submitted.states()) == (0, ["submitted"])
    judge.batches.files[batch["output_file_id"]] = output
    assert submitted.advance().collected == 1
    submitted.finish_all()


def test_results_that_belong_to_no_waiting_request_are_ignored(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1")
    batched.advance()
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    output = judge.batches.files[batch["output_file_id"]]
    stranger = output.replace(b'"custom_id": "', b'"custom_id": "00')
    judge.batches.files[batch["output_file_id"]] = b"".join(
        [b"not json\n", b'{"custom_id": 5}\n', b'{"custom_id": "x"}\n', stranger, output, output]
    )
    assert batched.advance().collected == 1
    batched.finish_all()
