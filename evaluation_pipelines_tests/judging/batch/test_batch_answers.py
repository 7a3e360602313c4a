"""Answers of the routes for batches are not trusted."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.judging.endpoint import batch_api
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error, says, score_reply
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.judging.batch.batched import Batched, open_batched

KEY = "sk-" + "test-0123456789abcdef"


@pytest.mark.parametrize(
    "answer",
    [
        http_error(401, f"Incorrect API key: {KEY}"),
        Scripted(body=json.dumps({"error": {"code": 401, "message": f"Bad {KEY}"}}).encode()),
        says(f"Bad {KEY}"),
    ],
)
def test_no_result_of_a_batch_brings_the_key_into_the_ledger(
    judge: JudgeEndpoint, tmp_path: Path, answer: Scripted
) -> None:
    judge.always(answer)
    with open_batched(tmp_path, judge, OPENAI_API_KEY=KEY) as batched:
        batched.land("s1")
        batched.advance()
        report = batched.finish()
        assert KEY not in str(report)
        assert KEY not in str(batched.all_scores())
        assert "[key]" in f"{report} {report.summary()} {batched.all_scores()}"


def test_no_refusal_of_a_whole_batch_brings_the_key_into_the_ledger(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    with open_batched(tmp_path, judge, OPENAI_API_KEY=KEY) as batched:
        batched.land("s1")
        batched.advance()
        judge.batches.fail(f"Incorrect API key: {KEY}")
        assert "Incorrect API key: [key]" in batched.advance().summary()
        assert KEY.encode() not in b"".join(
            each.read_bytes() for each in tmp_path.glob("ledger*") if each.is_file()
        )


def test_a_reply_far_beyond_the_limit_is_cut(batched: Batched, judge: JudgeEndpoint) -> None:
    judge.always(says("x" * 50_000))
    batched.land("s1")
    batched.advance()
    batched.finish()
    (turn,) = batched.all_scores()[0].turn_log
    assert (len(turn.text), turn.finish_reason) == (16_000, "length")  # of 1000 tokens


@pytest.mark.parametrize("route", ["upload", "create"])
def test_a_transcript_is_not_sent_to_another_address(
    batched: Batched, judge: JudgeEndpoint, route: str
) -> None:
    batched.land("s1")
    with open_judge_endpoint() as other:
        path = "files" if route == "upload" else "batches"
        location = {"Location": f"{other.base_url}/{path}"}
        judge.batches.script(route, Scripted(status=307, headers=location))
        assert "answered 307" in batched.advance().summary()
        assert (other.batches.files, other.batches.batches) == ({}, {})
    assert batched.states() == ["discarded"]


def raw(content: bytes) -> bytes:
    """Return the lines of a file with all characters as they are, not escaped."""
    lines = [json.dumps(json.loads(each), ensure_ascii=False) for each in content.splitlines()]
    return "\n".join(lines).encode()


def test_a_reply_with_other_line_breaks_is_one_line(batched: Batched, judge: JudgeEndpoint) -> None:
    text = f"One\u2028two\u2029three\x85four\x0bfive\x0csix\x1cseven\n{score_reply(64)}"
    judge.script_turn("score", says(text))
    batched.land("s1")
    batched.advance()
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    files, output = judge.batches.files, batch["output_file_id"]
    files[output] = b"\xef\xbb\xbf" + raw(files[output])
    assert batched.advance().collected == 1
    assert batched.all_scores()[0].turn_log[0].text == text
    assert len(batched.finish().totals) == 1


def test_a_sent_file_that_is_not_as_it_was_sent_stops_no_collection(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    # The file is read for such counts.
    output = {"prompt_tokens": 100, "completion_tokens": 10**9}
    reasoning = {**output, "completion_tokens_details": {"reasoning_tokens": 10**9}}
    usages = output, reasoning
    judge.script_turn("score", *(says(score_reply(64), usage=each) for each in usages))
    fill(batched.workplace, session_with_texts("s1", text="One\u2028two\x85three"))
    batched.land("s2")
    batched.advance()
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    sent = judge.batches.files[batch["input_file_id"]]
    torn = [b"<html>", b"[]", b'{"body": 5}', b'{"body": {"messages": [{"role": 1}]}}', sent]
    judge.batches.files[batch["input_file_id"]] = b"\n".join(torn)
    assert batched.advance().collected == 2
    logged = [each for score in batched.all_scores() for each in score.turn_log]
    assert [each.is_usage_estimated for each in logged] == [True, True]


def test_a_line_that_is_too_long_is_left_out(
    batched: Batched, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.batches.created_at = int(batched.now.timestamp())
    judge.script_turn("score", says("x" * 300_000), says(score_reply(64)))
    batched.land("s1", "s2")
    batched.advance()
    judge.batches.finish()
    monkeypatch.setattr(batch_api, "MAX_LINE_BYTES", 200_000)
    report = batched.advance()
    assert report.collected == 1
    assert "have 1 of 2 results" in report.summary()


@pytest.mark.parametrize("route", ["list", "upload", "create", "retrieve"])
def test_an_answer_of_a_route_has_a_limited_size(
    batched: Batched, judge: JudgeEndpoint, route: str
) -> None:
    judge.batches.script(route, Scripted(body=b'{"id": "' + b"x" * 4_100_000 + b'"}'), after=True)
    batched.land("s1")
    summary = batched.advance().summary()
    if route == "retrieve":
        summary = batched.finish().summary()
    assert "the endpoint sent more than 4 MB" in summary
    batched.now += timedelta(minutes=11)
    batched.advance()
    batched.finish_all()
