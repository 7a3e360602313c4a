"""Failures of batches: what came counts, the rest is due, and no request is sent twice."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from evaluation_pipelines.judging.batch.submit import Submission
from evaluation_pipelines.judging.endpoint.batch_api import BatchApi
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines_tests.judge_batches import lost
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    choices_null,
    cut_by_length,
    garbage,
    half_a_body,
    html,
    http_error,
    says,
)
from evaluation_pipelines_tests.judging.batch.batched import Batched


def close_files(submission: Submission) -> None:
    """Close the files that the end of a process would close."""
    for each in submission._files.values():
        each.content.close()


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch, batched: Batched) -> Callable[..., None]:
    """Return a function that runs until a step is reached, as if the process was killed there.

    Nothing is released afterwards: the leases are those of a process that has ended.
    """

    def run(owner: type, name: str, *, after: bool = False) -> None:
        step = getattr(owner, name)

        def killed(*args: object, **kwargs: object) -> None:
            if after:
                step(*args, **kwargs)
            raise KilledError

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, killed)
            # What would run after a signal, but not after a kill.
            patched.setattr(BatchStore, "release", lambda *_: None)
            patched.setattr(Submission, "abandon", close_files)
            patched.setattr(
                "evaluation_pipelines.judging.batch.work.new_owner", lambda: "elsewhere:1:killed"
            )
            with pytest.raises(KilledError):
                batched.advance()
        batched.now += timedelta(seconds=batched.workplace.settings.judge_lease_seconds + 1)

    return run


def finish_all(batched: Batched) -> None:
    """Run until all batches have ended, and assert that each session has one score."""
    for _ in range(3):
        if not all(each.status == "completed" for each in batched.all_scores()):
            batched.finish()
    scores = batched.all_scores()
    assert {each.status for each in scores} == {"completed"}
    assert len({each.session_key for each in scores}) == len(scores)
    assert batched.endpoint is not None
    assert set(batched.endpoint.batches.sent.values()) == {1}
    assert batched.endpoint.batches.files == {}


@pytest.mark.parametrize(
    ("owner", "name", "after", "sent"),
    [
        (ScoreStore, "create", True, 0),  # one scoring is leased, its batch is not sent
        pytest.param(BatchApi, "upload", False, 0, marks=pytest.mark.slow),
        (BatchApi, "upload", True, 0),
        pytest.param(BatchApi, "create", False, 0, marks=pytest.mark.slow),
        (BatchApi, "create", True, 2),  # it exists, and the ledger does not know
        pytest.param(BatchStore, "note_submitted", False, 2, marks=pytest.mark.slow),
        pytest.param(BatchStore, "note_submitted", True, 2, marks=pytest.mark.slow),
    ],
)
def test_a_kill_during_submission_loses_and_repeats_nothing(
    batched: Batched,
    judge: JudgeEndpoint,
    kill: Callable[..., None],
    owner: type,
    name: str,
    after: bool,
    sent: int,
) -> None:
    batched.land("s1", "s2")
    kill(owner, name, after=after)
    assert len(judge.batches.sent) == sent

    report = batched.advance()
    if sent:
        assert report.submitted == 0
    finish_all(batched)


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        pytest.param(BatchApi, "lines", False, marks=pytest.mark.slow),
        (ScoreStore, "log_turns", True),  # one reply is stored
        (BatchApi, "delete", False),
        pytest.param(BatchApi, "delete", True, marks=pytest.mark.slow),
    ],
)
def test_a_kill_during_collection_loses_and_repeats_nothing(
    batched: Batched,
    judge: JudgeEndpoint,
    kill: Callable[..., None],
    owner: type,
    name: str,
    after: bool,
) -> None:
    batched.land("s1", "s2")
    batched.advance()
    judge.batches.finish()
    kill(owner, name, after=after)

    batched.advance()
    finish_all(batched)
    assert {len(each.turn_log) for each in batched.all_scores()} == {2}


def test_two_runs_at_once_share_the_work(
    batched: Batched, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    batched.land("s1", "s2")
    upload, reports = BatchApi.upload, []

    def interrupted(api: BatchApi, *args: object) -> str:
        monkeypatch.setattr(BatchApi, "upload", upload)
        reports.append(batched.advance())  # another run, while this one is at work
        return upload(api, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(BatchApi, "upload", interrupted)
    assert batched.advance().submitted == 2
    assert reports[0].submitted == 0
    judge.batches.finish()
    lines = BatchApi.lines

    def collected_twice(api: BatchApi, file_id: str) -> object:
        monkeypatch.setattr(BatchApi, "lines", lines)
        reports.append(batched.advance())
        return lines(api, file_id)

    monkeypatch.setattr(BatchApi, "lines", collected_twice)
    assert batched.advance().collected == 2
    assert reports[1].collected == 0
    finish_all(batched)


@pytest.mark.parametrize(
    "status",
    [
        "expired",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("cancelled", "completed")),
    ],
)
def test_what_a_partly_answered_batch_has_counts_and_the_rest_is_due(
    batched: Batched, judge: JudgeEndpoint, status: str
) -> None:
    batched.land("s1", "s2", "s3")
    batched.advance()
    report = batched.finish(status, answered=1)
    assert (report.collected, report.submitted) == (1, 3)  # one second turn, two first turns again
    assert [each["custom_id"].partition(":")[2] for each in judge.batches.requests()[3:]] == [
        *("missing-tools", "score-1", "score-1")
    ] or len(judge.batches.requests()) == 6
    assert {each.attempt for each in batched.all_scores()} == {1}
    batched.finish()
    assert len(batched.finish().totals) >= 1
    assert {each.status for each in batched.all_scores()} == {"completed"}


def test_a_batch_that_is_refused_as_a_whole_leaves_its_sessions_due(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2")
    batched.advance()
    judge.batches.fail("the enqueued token limit is reached")
    report = batched.advance()
    assert report.is_endpoint_down
    assert "enqueued token limit" in report.summary()
    assert report.submitted == 0  # not sent again by the run that has seen it fail
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)] * 2
    assert batched.advance().submitted == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (http_error(401, "wrong key"), "401"),
        (http_error(400, "no such feature"), "no such feature"),
    ],
)
def test_what_the_endpoint_refuses_for_all_is_not_blamed_on_sessions(
    batched: Batched, judge: JudgeEndpoint, answer: Scripted, reason: str
) -> None:
    batched.land("s1", "s2")
    batched.advance()
    judge.always(answer)
    report = batched.finish()
    assert report.is_endpoint_down
    assert reason in report.summary()
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)] * 2


def test_a_refused_field_is_not_blamed_on_the_only_session(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1")
    batched.advance()
    judge.always(http_error(400, "temperature does not support 0.0"))
    assert "temperature does not support" in batched.finish().summary()
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)]


def test_a_refused_form_is_not_sent_again(batched: Batched, judge: JudgeEndpoint) -> None:
    batched.land("s1")
    batched.advance()
    fields = [set(judge.batches.requests()[-1]["body"])]
    for refusal in ("temperature does not support 0.0", "Use max_tokens", "no system role"):
        judge.always(http_error(400, refusal))
        assert refusal in batched.finish().summary()
        assert batched.advance().submitted == 1
        fields.append(set(judge.batches.requests()[-1]["body"]))
    always = {"model", "messages"}
    assert fields == [
        always | {"max_completion_tokens", "temperature"},
        always | {"max_completion_tokens"},
        always | {"max_tokens"},
        always | {"max_tokens"},
    ]
    assert judge.batches.requests()[-1]["body"]["messages"][0]["role"] == "user"
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)]
    batched.now += timedelta(days=31)
    assert "no system role" in batched.finish().summary()
    batched.advance()
    assert set(judge.batches.requests()[-1]["body"]) == fields[0]


def test_one_rejection_that_names_a_field_fails_its_session_if_others_are_answered(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2")
    batched.advance()
    judge.script_turn("score", http_error(400, "more than max_tokens allows"))
    report = batched.finish()
    assert not report.is_endpoint_down
    assert sorted(each.status for each in batched.all_scores()) == ["failed", "in_progress"]
    assert report.submitted == 1  # the next turn of the other one


def test_a_request_that_failed_at_the_provider_is_due_again_later(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2", "s3", "s4")
    batched.advance()
    judge.script_turn("score", http_error(500, "oops"), garbage())
    batched.finish()
    failed = [each for each in batched.all_scores() if each.status == "failed"]
    assert [each.retriable for each in failed] == [True, True]
    batched.now += timedelta(hours=21)
    judge.batches.finish()
    batched.advance()
    assert len(batched.all_scores()) == 6


@pytest.mark.parametrize(
    "answers",
    [
        [http_error(500, "oops"), http_error(503, "busy"), http_error(429, "slow")],
        [http_error(400, f"no credit (request req_{n}a)") for n in range(3)],
        [garbage(), choices_null(), html()],
        # Most failed: one reply does not make the others guilty.
        [http_error(500, "oops"), http_error(429, "slow"), Scripted()],
    ],
    ids=["errors", "rejections", "unreadable", "most"],
)
def test_what_most_requests_of_a_batch_got_is_not_blamed_on_their_sessions(
    batched: Batched, judge: JudgeEndpoint, answers: list[Scripted]
) -> None:
    batched.land("s1", "s2", "s3")
    batched.advance()
    judge.script_turn("score", *answers)
    report = batched.finish()
    assert "the endpoint refused a batch: " in report.summary()
    assert (report.is_endpoint_down, report.submitted) == (True, 0)
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)] * 3
    assert batched.advance().submitted == 3
    for _ in range(2):
        batched.finish()
    assert {each.status for each in batched.all_scores()} == {"completed"}


def test_a_session_that_is_too_long_fails_even_if_the_endpoint_fails_all_others(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2", "s3")
    batched.advance()
    judge.script_turn("score", http_error(400, "prompt is too long"))
    judge.always(http_error(500, "oops"))
    batched.finish()
    ended = sorted((each.status, each.retriable) for each in batched.all_scores())
    assert ended == [("failed", False), ("in_progress", None), ("in_progress", None)]


@pytest.mark.parametrize("reply", [says(""), cut_by_length()], ids=["empty", "cut"])
def test_useless_replies_that_fill_a_batch_stop_the_run_and_fail_no_session(
    batched: Batched, judge: JudgeEndpoint, reply: Scripted
) -> None:
    names = [f"s{number}" for number in range(6)]
    batched.land(*names)
    batched.advance()
    judge.script_turn("score", reply, reply, reply, reply, reply)
    report = batched.finish()
    assert "5 of 6 replies of a batch were of no use: the judge's answer was" in report.summary()
    assert (report.is_endpoint_down, report.submitted) == (True, 0)
    scores = batched.all_scores()
    assert [(each.is_open, each.attempt) for each in scores] == [(True, 1)] * 6
    assert sorted(len(each.turn_log) for each in scores) == [0, 0, 0, 0, 0, 1]
    assert all(each.booked_cost_usd for each in scores)  # they are paid
    assert batched.advance().submitted == 6
    for _ in range(3):
        batched.finish()
    assert {each.status for each in batched.all_scores()} == {"completed"}


def test_an_endpoint_without_batches_is_named_and_nothing_is_created(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.enabled = False
    batched.land("s1", "s2")
    report = batched.advance()
    assert report.is_endpoint_down
    assert report.deferred.total() == 2
    assert "set EVAL_JUDGE_MODE=direct" in report.summary()
    assert (batched.all_scores(), batched.states()) == ([], [])


@pytest.mark.parametrize("route", ["upload", "create"])
def test_a_refused_upload_or_batch_leaves_sessions_due(
    batched: Batched, judge: JudgeEndpoint, route: str
) -> None:
    batched.land("s1")
    judge.batches.script(route, http_error(400, "billing limit"))
    report = batched.advance()
    assert report.is_endpoint_down
    assert "billing limit" in report.summary()
    assert judge.batches.files == {}
    assert batched.states() == ["discarded"]
    finish_all(batched)


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
    finish_all(batched)


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
    finish_all(batched)


@pytest.mark.parametrize(
    "expires_at", [..., None, pytest.param(1_800_000_000_000, marks=pytest.mark.slow)]
)
def test_a_batch_that_the_endpoint_does_not_know_is_given_up_when_it_has_expired(
    batched: Batched, judge: JudgeEndpoint, expires_at: object
) -> None:
    judge.batches.created_at = int(batched.now.timestamp())
    judge.batches.expires_at = expires_at
    batched.land("s1")
    batched.advance()
    judge.batches.batches.clear()  # another key is set
    report = batched.advance()
    assert "check OPENAI_BASE_URL and OPENAI_API_KEY" in report.summary()
    assert (report.submitted, batched.states()) == (0, ["submitted"])
    batched.now += timedelta(hours=25)
    assert batched.advance().submitted == 1
    assert batched.states() == ["discarded", "submitted"]


@pytest.mark.parametrize(
    "expires_at", [..., None, pytest.param(1_800_000_000_000, marks=pytest.mark.slow)]
)
def test_a_file_of_results_that_cannot_be_read_is_read_again_and_nothing_is_sent_twice(
    batched: Batched, judge: JudgeEndpoint, expires_at: object
) -> None:
    judge.batches.created_at = int(batched.now.timestamp())
    judge.batches.expires_at = expires_at
    batched.land("s1")
    batched.advance()
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    output = judge.batches.files[batch["output_file_id"]]
    judge.batches.files[batch["output_file_id"]] = b"<html>try again</html>\n"
    report = batched.advance()
    assert "its files have 0 of 1 results" in report.summary()
    assert (report.submitted, batched.states()) == (0, ["submitted"])
    judge.batches.files[batch["output_file_id"]] = output
    assert batched.advance().collected == 1
    finish_all(batched)


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
    finish_all(batched)
