"""One session for people: everything the stores hold, its measures and its lost calls."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.as_of import as_of
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.domain.prompt.sanitizer import shown_texts
from evaluation_pipelines.reporting.domain.session_facts import lost_calls
from evaluation_pipelines.reporting.session_view import EffectiveScore, SessionView, session_view
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.scorecards.domain.overrides import OVERRIDE_COLUMNS
from evaluation_pipelines.scorecards.overrides import HumanVerdict, override, overrides_with_states
from evaluation_pipelines.scorecards.scorecard_queries import find_target
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.sessions.percentiles import ranked_performance
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judged import JUNE_1, Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.workplace import NOW
from evaluation_pipelines_tests.world import claude, line

KEY = "s1#baseline-1"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
RULES = {"bots": {"agent_id": "bot"}}
INCIDENT: dict[str, Any] = {"classification__label": "incident"}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """Sessions of June 1; s1 has two scorings and two overrides, the second not built yet."""
    folder = tmp_path_factory.mktemp("viewed")
    with (
        open_judge_endpoint() as endpoint,
        open_judged(folder, endpoint.base_url, exclude_sessions=RULES) as opened,
    ):
        fill(
            opened.workplace,
            session_with_texts("s1", **INCIDENT),
            session_with_texts("s2", 100, classification__label="simple"),
            session_with_texts("s3", 200, agent__id="bot", **INCIDENT),
            line(claude("user_prompt", 300, session__id="s4", prompt="Hello"), **INCIDENT),
            session_with_texts("twice", 400, organization__id="left"),
            session_with_texts("twice", 500, organization__id="right"),
        )
        for hours in (1, 2):
            opened.now = NOW + timedelta(hours=hours)
            opened.run(extra=ExtraDue(force=True))
        RebuildQueue(opened.workplace.ledger).touch([JUNE_1], NOW)
        opened.workplace.build()
        correct(opened, "s1", 20, "Ada", hours=3)
        correct(opened, "s2", 70, "Ada", hours=3)
        opened.workplace.build()
        correct(opened, "s1", 30, "Bob", hours=4)
        yield opened


def correct(judged: Judged, session: str, score: float, annotator: str, hours: int) -> None:
    stores = judged.workplace.stores
    target = find_target(stores, SessionName(session))
    verdict = HumanVerdict(score, annotator, "wrong")
    override(stores, target, verdict, "person", NOW + timedelta(hours=hours))


def view(judged: Judged, session: str, organization: str | None = None) -> SessionView:
    query = SessionName(session, organization)
    return session_view(judged.workplace.stores, query, NOW + timedelta(hours=5))


def stored(judged: Judged, table: Table, session: str) -> list[dict[str, Any]]:
    rows = judged.workplace.lake.read(table, [JUNE_1])
    return rows.filter(pl.col("session_key") == f"{session}#baseline-1").to_dicts()


@pytest.mark.parametrize("name", ["s1", KEY])
def test_rows_are_those_of_the_tables(judged: Judged, name: str) -> None:
    found = view(judged, name)

    assert [found.session] == stored(judged, AGENT_SESSIONS, "s1")
    ranked = ranked_performance(judged.workplace.lake, [JUNE_1], pl.lit(value=True))
    assert [found.performance] == ranked.filter(session_key=KEY).to_dicts()
    query = SessionName(name)
    as_stored = session_view(judged.workplace.stores, query, ranked=False).performance
    assert [as_stored] == stored(judged, SESSION_PERFORMANCE, "s1")
    assert [found.tool_report] == stored(judged, TOOL_REPORTS, "s1")
    assert found.session_date == JUNE_1


def test_a_session_without_tool_calls_has_no_tool_report(judged: Judged) -> None:
    assert stored(judged, TOOL_REPORTS, "s4") == []
    assert view(judged, "s4").tool_report is None


def test_judge_scores_are_those_of_the_ledger_newest_first(judged: Judged) -> None:
    scores = view(judged, "s1").judge_scores

    assert list(scores) == judged.scores(KEY)[::-1]
    assert len(scores) == 2
    assert scores[0].scored_at_us > scores[1].scored_at_us
    assert {score.status for score in scores} == {"completed"}


def test_scorecards_are_current_and_have_the_newest_overrides(judged: Judged) -> None:
    cards = {scorecard["profile_id"]: scorecard for scorecard in view(judged, "s1").scorecards}
    rows = {row["profile_id"]: row for row in stored(judged, SCORECARDS, "s1")}

    assert set(cards) == set(rows) == {"incident-llm", "general-performance"}
    automatic = [name for name in SCORECARDS.schema if name not in OVERRIDE_COLUMNS]
    for profile, card in cards.items():
        assert {name: card[name] for name in automatic} == {
            name: rows[profile][name] for name in automatic
        }
    assert rows["incident-llm"]["human_override"]["annotator"] == "Ada"
    assert cards["incident-llm"]["human_override"]["annotator"] == "Bob"
    assert (cards["incident-llm"]["effective_score"], cards["incident-llm"]["is_best_match"]) == (
        30,
        True,
    )
    assert cards["general-performance"]["human_override"] is None


def test_the_evaluation_is_that_of_the_table_with_the_newest_override(judged: Judged) -> None:
    (row,) = stored(judged, SESSION_EVALUATIONS, "s1")
    assert (row["effective_100"], row["effective_source"]) == (20, "override")
    assert view(judged, "s1").evaluation == EffectiveScore(
        30, "override", None, "Bob", 20, row["judge_total"]
    )

    (row,) = stored(judged, SESSION_EVALUATIONS, "s4")
    evaluation = view(judged, "s4").evaluation
    assert evaluation == EffectiveScore(
        row["effective_100"],
        row["effective_source"],
        row["reason"],
        None,
        row["effective_100"],
        row["judge_total"],
    )


def test_overrides_are_those_of_the_session_newest_first(judged: Judged) -> None:
    overrides = view(judged, "s1").overrides
    everything = overrides_with_states(judged.workplace.stores)

    of_session = everything.filter(pl.col("session_key") == KEY)
    assert list(overrides) == of_session.to_dicts()[::-1]
    assert [(override["annotator"], override["state"]) for override in overrides] == [
        ("Bob", "live"),
        ("Ada", "replaced"),
    ]
    assert view(judged, "s4").overrides == ()


def test_the_state_with_the_judge(judged: Judged) -> None:
    scored, computed, excluded = (view(judged, name) for name in ("s1", "s2", "s3"))

    assert (scored.profile and scored.profile.id, scored.has_ended) == ("incident-llm", True)
    assert (scored.judge_state and scored.judge_state.state, scored.excluded_by) == ("scored", None)
    assert (computed.profile and computed.profile.id) == "efficiency-simple"
    assert computed.judge_state is None
    assert excluded.excluded_by == "bots"
    assert excluded.judge_state is not None
    assert excluded.judge_state.state == "excluded"
    assert excluded.evaluation is not None
    assert excluded.evaluation.source == "none"


def test_a_session_has_not_ended_before_it_is_idle(judged: Judged) -> None:
    early = NOON + timedelta(minutes=1)
    found = session_view(judged.workplace.stores, SessionName("s1"), early)

    assert found.has_ended is False
    assert found.judge_state is not None
    assert found.judge_state.state == "not_terminal"


def test_an_ambiguous_name_needs_the_organization(judged: Judged) -> None:
    for name in ("twice", "twice#baseline-1"):
        with pytest.raises(SessionNotFoundError, match=r"add --organization .left, right."):
            view(judged, name)
        assert view(judged, name, "right").session["organization_id"] == "right"
        found = view(judged, name, "left")
        assert {scorecard["organization_id"] for scorecard in found.scorecards} == {"left"}


def test_a_past_view_has_what_existed_then(judged: Judged) -> None:
    stores = as_of(judged.workplace.stores, NOW + timedelta(hours=1))
    found = session_view(stores, SessionName("s1"))

    assert list(found.judge_scores) == judged.scores(KEY)[:1]
    assert found.overrides == ()
    assert {scorecard["human_override"] is None for scorecard in found.scorecards} == {True}
    assert found.evaluation is not None
    assert found.evaluation.source != "override"
    assert (found.has_ended, found.judge_state) == (True, None)


def test_a_past_view_of_a_running_session_has_its_events_up_to_the_time(judged: Judged) -> None:
    stores = as_of(judged.workplace.stores, NOON + timedelta(seconds=1.5))
    found = session_view(stores, SessionName("s1"))

    assert (found.session["total_tools"], found.has_ended) == (1, False)
    assert found.performance is not None
    assert found.performance["session_key"] == KEY
    assert found.tool_report is not None
    assert found.tool_report["total_calls"] == 1
    assert (found.judge_scores, found.scorecards, found.profile) == ((), (), None)
    assert found.evaluation is not None
    assert found.evaluation.score_100 is None


def test_calls_beyond_the_first_hundred_are_counted() -> None:
    call = {"call": 7, "tool": "Bash", "parameters": "secret", "error": "text"}
    (found,) = lost_calls({"failures": [call] * 102}, None)
    assert (found.heading, len(found.lines), found.more) == ("Failed", 100, 2)
    assert found.lines[0] == (7, "Bash", "", "")
    loop = {"first_call": 3, "tool": None, "parameters": None}
    (found,) = lost_calls({"loops": [loop], "repeats": None}, shown_texts(()))
    assert found.lines == ((3, "", "", ""),)


def test_lost_calls_are_shown_without_secrets() -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    parameters = json.dumps({"command": f"curl -H 'x-api-key: {key}'"})
    call = {"call": 1, "tool": "Bash", "parameters": parameters, "error": f"refused: {key}"}
    (found,) = lost_calls({"failures": [call]}, shown_texts(()))
    ((_, _, shown, error),) = found.lines
    assert "curl" in shown
    assert "refused" in error
    assert key not in shown + error
