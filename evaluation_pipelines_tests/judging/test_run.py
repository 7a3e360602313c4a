"""Judge runs from telemetry to the ledger with a working endpoint."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import JudgeNotReadyError, PlanOverrides
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error, says, score_reply
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.world import claude, line

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""Start of the sessions of the builders."""


def test_every_session_is_judged_in_two_turns_and_once(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, *(session_with_texts(f"s{n}", 60 * n) for n in range(3)))
    judge.script_turn("score", says(score_reply(64)))

    report = judged.run()
    assert (report.candidates, len(report.totals), report.calls) == (3, 3, 6)
    assert report.dates == {NOON.date()}
    assert 64 in report.totals
    assert sorted(judge.turns()) == ["missing-tools"] * 3 + ["score"] * 3
    again = judged.run()
    assert (again.candidates, again.states["scored"], again.summary()) == (0, 3, "nothing is due")
    assert len(judge.requests) == 6


def test_a_score_has_all_its_fields(judged: Judged, judge: JudgeEndpoint) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    judge.script_turn("score", says(score_reply(64)))
    judged.run(triggered_by="Ada")

    score = judged.score("s1#baseline-1")
    assert (score.status, score.total_score, score.attempt) == ("completed", 64, 1)
    assert score.criteria_scores == {
        "logical_flow": 17,
        "consistency": 18,
        "tool_relevance": 14,
        "synthesis_quality": 15,
    }
    assert (score.failure_tags, score.sample_totals) == (["missed_available_tool"], [64])
    assert (score.score_spread, score.missing_tools_error) == (None, None)
    assert score.missing_tools_analysis is not None
    assert "Grep" in score.missing_tools_analysis
    assert (score.score_triggered_by, score.judge_model) == ("Ada", "judge-1")
    assert (score.rubric, score.judge_profile_id) == ("agent-methodology", "default")
    assert (score.content_level, score.truncated, score.injection_suspected) == (
        "full",
        False,
        False,
    )
    assert [turn.turn for turn in score.turn_log] == ["score-1", "missing-tools"]
    # The prices of these tests per million tokens: 1 USD input, cached or not, and 10 USD output.
    assert score.input_tokens is not None
    assert score.cached_tokens is not None
    assert score.output_tokens is not None
    cost = (score.input_tokens + score.cached_tokens) / 1e6 + score.output_tokens / 1e5
    assert score.judge_cost_usd == pytest.approx(cost)
    assert score.booked_cost_usd == pytest.approx(cost, abs=1e-8)
    events = ScoreStore(judged.workplace.ledger).events(score.score_id)
    assert [(event.type, event.phase) for event in events] == [
        ("scoring.started", None),
        ("scoring.progress", "analyzing_methodology"),
        ("scoring.progress", "identifying_missing_tools"),
        ("scoring.completed", None),
    ]


def test_the_judge_reads_the_session_but_not_the_name_of_its_agent(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(
        judged.workplace,
        session_with_texts("s1", agent__id="codesmith-7", user__email="a@example.com"),
    )
    judged.run()

    system, prompt = (message["content"] for message in judge.requests[0].body["messages"])
    assert "src/parser.py" not in system
    for text in ("Fix the parser of s1", "src/parser.py", "string not found", "It is fixed"):
        assert text in prompt
    assert "codesmith-7" not in prompt
    assert judged.score("s1#baseline-1").agent_id == "codesmith-7"


def test_a_session_that_continues_or_has_no_text_is_not_judged(judged: Judged) -> None:
    silent = line(
        claude("user_prompt", 0, session__id="silent"),
        claude("tool_result", 1, session__id="silent", tool_name="Read", success="true"),
    )
    fill(judged.workplace, session_with_texts("s1"), silent)
    # The session ended three seconds after noon; half an hour later it may still continue.
    judged.now = NOON + timedelta(minutes=30)
    assert judged.run().states == {"not_terminal": 2}
    judged.now = NOON + timedelta(minutes=31)

    report = judged.run()
    assert (report.states, len(report.totals)) == ({"due": 1, "too_thin": 1}, 1)
    assert judged.run().states == {"scored": 1, "too_thin": 1}
    assert len(judged.run(extra=ExtraDue(include_thin=True)).totals) == 1


def test_sessions_beyond_the_limit_are_deferred_and_the_oldest_comes_first(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, *(session_with_texts(f"s{n}", -60 * n) for n in range(5)))

    report = judged.run(max_sessions=2)
    assert (len(report.totals), dict(report.deferred)) == (2, {"max_sessions": 3})
    assert [n for n in range(5) if judged.scores(f"s{n}#baseline-1")] == [3, 4]
    assert dict(judged.run(max_sessions=2).deferred) == {"max_sessions": 1}
    assert [n for n in range(5) if judged.scores(f"s{n}#baseline-1")] == [1, 2, 3, 4]
    assert judged.run().totals
    assert len(judge.requests) == 10


def test_what_a_run_has_deferred_before_it_let_go_is_counted_once() -> None:
    report = JudgeReport(candidates=3)
    report.count_deferred("max_cost_of_day", "up to $1 more does not fit")
    report.count_deferred(LeftOpenReason.YIELDED, "a person waits for judge-2")
    report.stop_reason = "a person waits for judge-2"
    report.take_yielded()
    assert (report.deferred.total(), len(report.explanations)) == (0, 0)
    assert not report.stop_reason


def test_each_scoring_has_its_own_fence(judged: Judged, judge: JudgeEndpoint) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    judged.run()
    judged.run(extra=ExtraDue(force=True))

    first, second = (
        request.body["messages"][1] for request in judge.requests if request.turn == "score"
    )
    boundaries = [
        message["content"].rpartition("end of material ")[2][:32] for message in (first, second)
    ]
    assert len(set(boundaries)) == 2
    assert all(len(boundary) == 32 and boundary.isalnum() for boundary in boundaries)


@pytest.mark.parametrize(
    ("settings", "overrides", "message"),
    [
        (
            {},
            PlanOverrides(profile="mine"),
            "no judge profile is named mine",
        ),
        ({"judge_model": None}, None, "set EVAL_JUDGE_MODEL"),
    ],
)
def test_an_unknown_rubric_or_profile_is_named(
    tmp_path: Path, settings: dict[str, str], overrides: PlanOverrides | None, message: str
) -> None:
    with (
        open_judged(tmp_path, "http://127.0.0.1:9", **settings) as judged,
        pytest.raises(JudgeNotReadyError, match=message),
    ):
        judged.run(overrides=overrides)


SECRETS = {
    "api key": "sk-" + "proj-Zx81kdPq02LmNv57TyRw3sUb",
    "github token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "password in a URL": "correct-horse-battery",
    "e-mail": "jane.doe@example.com",
}
TEXT = (
    f"Use {SECRETS['api key']} and {SECRETS['github token']} with "
    f"postgres://app:{SECRETS['password in a URL']}@db.example.com/app, ask {SECRETS['e-mail']}."
)


def test_no_request_contains_a_secret_of_the_session(judged: Judged, judge: JudgeEndpoint) -> None:
    fill(judged.workplace, session_with_texts("s1", text=TEXT))
    judged.run()

    sent = b"".join(request.raw for request in judge.requests)
    assert b"[redacted:" in sent
    assert [name for name, value in SECRETS.items() if value.encode() in sent] == []
    score = judged.score("s1#baseline-1")
    assert sum((score.redactions or {}).values()) >= len(SECRETS)
    assert not any(value in str(score) for value in SECRETS.values())


def test_the_api_key_is_sent_only_to_the_endpoint(
    judge: JudgeEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-" + "test-0123456789abcdef"
    judge.script(http_error(400, f"bad request with {key}"))
    with open_judged(tmp_path, judge.base_url, OPENAI_API_KEY=key) as judged:
        fill(judged.workplace, session_with_texts("s1"))
        report = judged.run()

        assert judge.requests[0].headers["authorization"] == f"Bearer {key}"
        assert key not in str(report)
        assert key not in str(judged.score("s1#baseline-1"))
        assert key not in caplog.text
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert tmp_path / "ledger.db" in files
        stored = b"".join(path.read_bytes() for path in files)
        assert key.encode() not in stored
