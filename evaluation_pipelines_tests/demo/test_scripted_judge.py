"""The demo's judge: a script that answers from the transcript alone, in the usual judge run."""

from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.demo.judge_demo import answer, count_calls, judge_demo
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.domain.missing_tools import parse_missing_tools
from evaluation_pipelines.judging.domain.prompt.rubric import RubricCriterion
from evaluation_pipelines.judging.domain.verdict import Verdict, parse_verdict
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judged import fill, open_judged, session_with_texts

TRANSCRIPT = """\
| [0:01] PROMPT
| [0:02] TOOL Grep: FAILED, timeout, 236 ms
|   parameters:
|     pattern: def store
|   error:
|     The call timed out.
| [0:03] TOOL Grep: ok, 49 ms
|   parameters:
|     pattern: def store
| [0:04] TOOL Edit: ok, 9 ms
|   parameters:
|     file_path: /src/store.py
| [0:05] TOOL Edit: allowed, no result recorded
| [0:06] TOOL Bash: FAILED, 9 ms
|   parameters:
|     command: git diff --stat
"""
FORM = (
    "\nlogical_flow: <points>/60\nsynthesis_quality: <points>/40\nfailure tags: <tags>\n<total>\n"
)
CRITERIA = tuple(
    RubricCriterion(name, name, "", points)
    for name, points in (("logical_flow", 60), ("synthesis_quality", 40))
)


def asked(*later: str, transcript: str = TRANSCRIPT) -> str:
    """Return the answer to the score turn, or to what was asked ``later``."""
    messages = [{"role": "user", "content": FORM + transcript}]
    for text in later:
        messages += [{"role": "assistant", "content": "."}, {"role": "user", "content": text}]
    return answer(messages)


def test_calls_are_counted_by_tool_failure_and_repetition() -> None:
    found = count_calls(TRANSCRIPT)

    assert (found.calls, dict(found.tools)) == (4, {"Grep": 2, "Edit": 1, "Bash": 1})
    assert (found.failed, found.repeated) == (2, 1)
    assert (found.ran_tests, found.ends_with_failure) == (False, True)
    sealed = TRANSCRIPT.replace("] TOOL", " bcdf] TOOL").replace("parameters:", "parameters bcdf:")
    assert count_calls(sealed) == found
    assert count_calls(TRANSCRIPT.replace("git diff --stat", "pytest -q")).ran_tests


def test_a_judgment_has_the_required_form_and_follows_from_the_calls() -> None:
    reply = asked()
    verdict = parse_verdict(reply, CRITERIA)

    assert reply == asked()
    assert isinstance(verdict, Verdict)
    # logical_flow 0.8 - 0.6 * 2/4 - 1/4 = 0.25 of 60 = 15
    # synthesis_quality 0.74 - 0.5 * 2/4 - 0.06 - 0.15 = 0.28 of 40 = 11
    assert (verdict.criteria, verdict.total) == ({"logical_flow": 15, "synthesis_quality": 11}, 26)
    assert verdict.failure_tags == (
        *("premature_conclusion", "missed_available_tool", "unsupported_confidence"),
    )
    assert "demo-script, a script without any understanding" in verdict.analysis
    assert len(verdict.analysis.split()) >= 200


@pytest.mark.parametrize(
    ("step", "total"), [("A CALL TO THE MODEL FAILED", 10), ("REPLY bcdf", 50)]
)
def test_a_session_without_calls_gets_no_praise_for_them(step: str, total: int) -> None:
    transcript = f"| [0:01] PROMPT\n| [0:02 bcdf] {step}\n"
    verdict = parse_verdict(asked(transcript=transcript), CRITERIA)

    assert isinstance(verdict, Verdict)
    assert verdict.total == total
    assert "and there was no call at all." in verdict.analysis


def test_missing_tools_are_a_numbered_list_or_none() -> None:
    question = "Second question: which tools should the agent have used and did not?"
    named = parse_missing_tools(asked(question))
    assert [tool for tool, _ in named.tools] == ["pytest", "glob"]
    one_read = "| [0:01] TOOL Read: ok, 9 ms\n|   parameters:\n|     file_path: a\n"
    assert asked(question, transcript=one_read) == "No critical missing tools were identified."


def test_the_demo_asks_the_script_and_never_the_configured_endpoint(
    tmp_path: Path,
) -> None:
    with (
        open_judge_endpoint() as judge,
        open_judged(tmp_path, judge.base_url, judge_max_sessions=0) as judged,
    ):
        fill(judged.workplace, session_with_texts("s1"), session_with_texts("s2", 60))
        report = judge_demo(judged.workplace.stores, clock=lambda: judged.now)

        assert (len(report.totals), report.calls, report.cost_usd) == (2, 4, 0.0)
        found = judged.score("s1#baseline-1")
        assert (found.judge_model, found.status, found.judge_cost_usd) == (
            *("demo-script", "completed"),
            0.0,
        )
        assert judge.requests == []


def test_a_real_endpoint_never_continues_a_scoring_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_body: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("evaluation_pipelines.demo.judge_demo.wire", stopped)
    with open_judge_endpoint() as judge, open_judged(tmp_path, judge.base_url) as judged:
        fill(judged.workplace, session_with_texts("s1"))
        with pytest.raises(KeyboardInterrupt):
            judge_demo(judged.workplace.stores, clock=lambda: judged.now)
        assert judged.score("s1#baseline-1").is_open

        judged.now += timedelta(hours=1)
        judged.run()  # ends the scoring of the demo
        judged.run(extra=ExtraDue(force=True))
        of_demo, *real = judged.scores("s1#baseline-1")
        assert (of_demo.judge_model, of_demo.status) == ("demo-script", "failed")
        assert "started with another judge model" in str(of_demo.error_message)
        assert [(score.judge_model, score.status) for score in real] == [("judge-1", "completed")]
        assert len(judge.requests) == 2
