"""Answers of the routes for batches are not trusted."""

import json
from pathlib import Path

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error, says
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
        assert KEY.encode() not in b"".join(each.read_bytes() for each in tmp_path.glob("ledger*"))


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
