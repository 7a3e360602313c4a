"""``judge changes`` and ``judge changes --anchors``."""

import re
from collections.abc import Iterator

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import says, score_reply
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S


@pytest.fixture
def judge(program: Program) -> Iterator[JudgeEndpoint]:
    """Six sessions of February 6, 2025 by judge-1 (60 points), and the settings of judge-2 (70)."""
    land(program, "first.jsonl", 0)
    with open_judge_endpoint() as endpoint:
        endpoint.always_as("judge-1", says(score_reply(60)))
        endpoint.always_as("judge-2", says(score_reply(70)))
        program.set("OPENAI_BASE_URL", endpoint.base_url)
        program.set("EVAL_JUDGE_MODEL", "judge-1")
        assert program("judge", "run").code == 0
        program.set("EVAL_JUDGE_MODEL", "judge-2")
        yield endpoint


def land(program: Program, name: str, day: int) -> None:
    """Land, ingest and build a session of each of six people."""
    lines = [
        session_with_texts(
            f"s{day}-{person}",
            (day - 480) * DAY_S + 60 * person,
            user__email=f"p{person}@example.com",
        )
        for person in range(6)
    ]
    program.land(name, b"".join(lines))
    program("ingest")
    program("build")


def test_a_change_is_announced_measured_and_shown(program: Program, judge: JudgeEndpoint) -> None:
    land(program, "second.jsonl", 1)
    assert program("judge", "run").code == 0
    shown = program("judge", "changes")
    assert shown.code == 0
    assert "default: another model since 2025-02-07" in shown.out
    assert "Not measured yet. Compare only scores from the same judge." in shown.out

    # These sessions are of 2025: a change of so long ago is measured by its id only.
    assert "No recent change of a judge waits" in program("judge", "changes", "--anchors").out
    change_id = re.findall(r"^[0-9a-f]{12}", shown.out, re.MULTILINE)[0]
    requests = len(judge.requests)
    estimated = program("judge", "changes", "--anchors", change_id, "--estimate")
    assert (estimated.code, len(judge.requests)) == (0, requests)
    # Six sessions, two judges, three samples.
    assert "6 anchors, 36 calls left, at an unknown price" in estimated.out

    scored = program("judge", "changes", "--anchors", change_id)
    assert (scored.code, scored.err) == (0, "")
    assert "6 of 6 anchors scored by both judges, 36 calls, $0.00" in scored.out
    assert ": +10.0 (+10.0 to +10.0) from the new judge, +0.0" in scored.out
    (record,) = program("judge", "changes", "--format", "json").items()
    parts = [record["judges_part"], record["agents_part"]]
    assert record["trend"] == "bridged"
    assert parts == pytest.approx([10, 0], abs=1e-9)
    assert program("judge", "changes", "--format", "csv").out.count("\n") == 2
    again = program("judge", "changes", "--anchors", change_id)
    assert "6 anchors, nothing left to score" in again.out


@pytest.mark.usefixtures("judge")
def test_an_unknown_change_is_refused(program: Program) -> None:
    refused = program("judge", "changes", "--anchors", "0123456789ab")

    assert refused.code == 2
    assert "there is no change 0123456789ab" in refused.err


def test_without_an_endpoint_nothing_is_drawn(program: Program) -> None:
    asked = program("judge", "changes", "--anchors")

    assert (asked.code, asked.err.startswith("error: no judge")) == (1, True)
