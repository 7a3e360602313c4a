"""Judge runs from telemetry to the ledger with a working endpoint."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import JudgeNotReadyError, PlanOverrides
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import says, score_reply
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.telemetry.captures import Capture
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry
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


def test_a_session_that_continues_is_due_again_and_its_old_score_stays(judged: Judged) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    judged.run()
    more = claude("user_prompt", 600, session__id="s1", prompt="And now the tests.")
    fill(judged.workplace, line(more))

    assert len(judged.run().totals) == 1
    before, after = judged.scores("s1#baseline-1")
    assert before.content_hash != after.content_hash
    assert (before.status, after.status, after.attempt) == ("completed", "completed", 1)


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


def test_samples_are_requested_and_the_lower_median_counts(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    judge.script_turn("score", *(says(score_reply(total)) for total in (70, 60, 64, 62)))

    report = judged.run(overrides=PlanOverrides(samples=4))
    score = judged.score("s1#baseline-1")
    assert (report.totals, score.total_score, report.calls) == ([62], 62, 5)
    assert sorted(score.sample_totals or ()) == [60, 62, 64, 70]
    # Mean 64, squares 36 + 16 + 0 + 4 = 56, over 3: the root of 18.667.
    assert score.score_spread == pytest.approx(4.3205, abs=1e-4)


def test_each_scoring_has_its_own_fence(judged: Judged, judge: JudgeEndpoint) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    judged.run()
    judged.run(extra=ExtraDue(force=True))

    first, second = (
        request.body["messages"][1] for request in judge.requests if request.turn == "score"
    )
    boundaries = [
        each["content"].rpartition("end of material ")[2][:32] for each in (first, second)
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


@pytest.mark.parametrize("cli", ["claude_code", "codex", "gemini_cli", "qwen_code"])
def test_captured_sessions_of_each_agent_that_logs_texts_are_judged(
    judged: Judged, judge: JudgeEndpoint, cli: str
) -> None:
    fill(judged.workplace, Capture(cli).file("as sent").read_bytes())
    report = judged.run()

    sessions = judged.workplace.sessions()
    judgeable = sessions.filter(sessions["content_level"] != "none")
    assert len(report.totals) == report.candidates == judgeable.height > 0
    assert report.states["too_thin"] == sessions.height - judgeable.height
    assert sum(report.states.values()) == sessions.height
    # Each score has its own transcript: no two sessions were merged.
    assert len({request.session for request in judge.requests}) == judgeable.height


def test_the_days_of_a_team_are_judged_date_by_date(judge: JudgeEndpoint, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    write_telemetry(landing, seed=7, end=date(2026, 6, 4), extent=Extent(3, 8))
    with open_judged(tmp_path / "data", judge.base_url, landing_dir=landing) as judged:
        ingest_and_build(judged)
        report = judged.run()
        sessions = judged.workplace.sessions()

        assert sum(report.states.values()) == sessions.height
        assert len(report.totals) == report.states["due"] > 10
        stores = judged.workplace.stores
        days = stores.lake.partitions(AGENT_SESSIONS)
        assert sorted(report.dates) == [day for day in days if day in report.dates]
        Build(stores, [JUDGE_SCORES.name]).run(days)
        table = stores.lake.read(JUDGE_SCORES, days)
        keys = ["organization_id", "session_key"]
        assert table.height == len(report.totals)
        assert table.join(sessions, on=[*keys, "content_hash"], how="semi").height == table.height
        assert set(table["is_current"]) == {True}
        assert sum(table["judge_cost_usd"]) == pytest.approx(report.cost_usd)


def ingest_and_build(judged: Judged) -> None:
    """Ingest the landing folder and build all dates."""
    judged.workplace.ingest()
    judged.workplace.build()
