"""Reports as of a past time are the same as at that time, whatever came later."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from evaluation_pipelines.as_of import as_of
from evaluation_pipelines.build import Build
from evaluation_pipelines.build.build import publish_scores, unpublished_dates
from evaluation_pipelines.comparison.compare_models import compare_models
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.masque_lift import compare_masques
from evaluation_pipelines.judging.domain.missing_tools import Period
from evaluation_pipelines.judging.run import RunRequest, judge
from evaluation_pipelines.judging.score_requests import look_up
from evaluation_pipelines.judging.score_table import missing_tools
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.reputation.domain.signals import identity_id
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.updates import (
    bridge_sessions,
    open_reputation,
    reputation_as_of,
    scored_agents,
    weekly_scores,
)
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    JUDGE_SCORES,
    MASQUE_LIFT,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
)
from evaluation_pipelines.scorecards.blind_reviews import calibration
from evaluation_pipelines.scorecards.overrides import HumanVerdict, override, overrides_with_states
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, find_target, query_cards
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import says, score_reply
from evaluation_pipelines_tests.judged import open_judged, session_with_texts
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import claude, line

JUNE_1 = date(2026, 6, 1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""Start of the first session of the builders."""

HOURS = {
    name: NOON + timedelta(hours=n) for name, n in {"first": 1, "second": 4, "third": 6}.items()
}
TABLES = (AGENT_SESSIONS, SESSION_PERFORMANCE, TOOL_REPORTS, JUDGE_SCORES, SESSION_EVALUATIONS)


class Shown(NamedTuple):
    """Every report at one time."""

    tables: dict[str, list[dict[str, Any]]]
    cards: list[dict[str, Any]]
    comparison: list[dict[str, Any]]
    overrides: list[dict[str, Any]]
    calibration: str
    lift: list[dict[str, Any]]
    missing: list[dict[str, Any]]
    judged: tuple[int | None, ...]


def look(stores: Stores, now: datetime, then: datetime | None = None) -> Shown:
    """Return every report as of ``now``, or as of ``then``."""
    seen = stores if then is None else as_of(stores, then)
    question = Question(NOON - timedelta(days=7), NOON + timedelta(days=7), min_runs=2)
    days = seen.lake.partitions(AGENT_SESSIONS)
    comparison = compare_models(stores, question, now, then)
    lift = compare_masques(seen.lake, seen.settings, then or now, days)
    assert lift.schema == MASQUE_LIFT.schema
    judged = [look_up(seen, SessionName(f"s{n}"), then or now).score for n in (1, 2)]
    return Shown(
        {table.name: seen.lake.read(table, days).to_dicts() for table in TABLES},
        query_cards(seen, CardQuery(since=NOON - timedelta(days=1), history=True)).to_dicts(),
        comparison.models.drop("computed_at").to_dicts(),
        overrides_with_states(seen).to_dicts(),
        repr(calibration(seen, overrides_with_states(seen))),
        lift.to_dicts(),
        missing_tools(seen, Period(JUNE_1, date(2026, 6, 2))).tools.to_dicts(),
        tuple(None if score is None else score.total_score for score in judged),
    )


class Life(NamedTuple):
    """Stores, the reports at three times, and reputation at the first of them."""

    stores: Stores
    shown: dict[str, Shown]
    reputation: "Reputation"


Reputation = tuple[list[dict[str, Any]], list[dict[str, Any] | None]]


def agent_reputation(store: ReputationStore, now: datetime) -> Reputation:
    """Return the output of the reputation commands for the only agent."""
    identity = str(identity_id("default", "claude-code"))
    return scored_agents(store, now).to_dicts(), weekly_scores(store, identity, now)


def run_pipeline(place: Workplace, now: datetime, *lines: bytes) -> None:
    """Run the pipeline at a time: ingest, build, judge, and build again with the scores."""
    place.land("logs.jsonl", b"".join(lines), "ab")
    Ingest(place.stores, lambda: now).run()
    build(place, now)
    judge(place.stores, RunRequest("tests"), [JUNE_1], clock=lambda: now)
    publish_scores(place.stores, unpublished_dates(place.stores), clock=lambda: now)
    build(place, now)


def build(place: Workplace, now: datetime) -> None:
    """Build the dates that are due."""
    job = Build(place.stores, clock=lambda: now)
    job.run(job.pending_dates())


def more(name: str, second: float) -> bytes:
    """Return another prompt of a session and a tool call that fails."""
    return line(
        claude("user_prompt", second, session__id=name, prompt="And now the tests."),
        claude(
            "tool_result",
            second + 9,
            session__id=name,
            tool_name="Bash",
            success="false",
            error="1",
        ),
        claude("assistant_response", second + 12, session__id=name, response="They fail."),
    )


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """Two sessions: one is resumed two hours later, then a person corrects the other."""
    folder: Path = tmp_path_factory.mktemp("life")
    with (
        open_judge_endpoint() as endpoint,
        open_judged(folder, endpoint.base_url, judge_concurrency=1) as opened,
    ):
        place, shown = opened.workplace, {}
        endpoint.script_turn("score", *(says(score_reply(n)) for n in (64, 60, 68)))
        endpoint.script_turn("missing-tools", *map(says, ("1. Grep: a", "None.", "1. make: b")))
        run_pipeline(place, HOURS["first"], session_with_texts("s1"), session_with_texts("s2", 60))
        shown["first"] = look(place.stores, HOURS["first"])
        with open_reputation(place.settings, HOURS["first"]) as store:
            bridge_sessions(place.stores, store, [JUNE_1], HOURS["first"])
            reputation = agent_reputation(store, HOURS["first"])
        run_pipeline(
            place, HOURS["second"], more("s1", 2 * 3600), session_with_texts("s3", 3 * 3600)
        )
        shown["second"] = look(place.stores, HOURS["second"])
        sync_profiles(place.stores, HOURS["third"])
        target = find_target(place.stores, SessionName("s2"))
        override(place.stores, target, HumanVerdict(20.0, "Ada", "no"), "person", HOURS["third"])
        run_pipeline(place, HOURS["third"])
        shown["third"] = look(place.stores, HOURS["third"])
        yield Life(place.stores, shown, reputation)


@pytest.mark.parametrize("when", HOURS)
def test_every_report_as_of_a_time_is_the_one_shown_at_that_time(life: Life, when: str) -> None:
    later = look(life.stores, HOURS["third"] + timedelta(days=9), HOURS[when])
    for report, shown in life.shown[when]._asdict().items():
        assert getattr(later, report) == shown, report


def test_the_three_times_differ_as_they_should(life: Life) -> None:
    """Otherwise the test above would prove nothing."""
    first, second, third = life.shown.values()
    prompts = [
        [row["prompts"] for row in shown.tables["agent_sessions"]] for shown in life.shown.values()
    ]
    # s1 has a second prompt after its resumption, and s3 has come.
    assert prompts == [[1, 1], [2, 1, 1], [2, 1, 1]]
    # Two of each content, by general-performance and by default, which has a judge: 2 sessions x 2;
    # then s1 again and s3: (2 + 2) x 2.
    assert (len(first.cards), len(second.cards)) == (4, 8)
    assert {row["profile_id"] for row in first.cards} == {"default", "general-performance"}
    assert first.tables["session_performance"][0] != second.tables["session_performance"][0]
    assert first.judged == (64, 60)
    assert second.judged == third.judged
    assert second.judged != first.judged
    assert [len(shown.overrides) for shown in (first, second, third)] == [0, 0, 1]
    assert first.comparison != second.comparison != third.comparison


def test_between_the_end_of_a_resumption_and_its_score_the_old_score_does_not_count(
    life: Life,
) -> None:
    """The window is open again: only a score of exactly its content would count."""
    resumed = as_of(life.stores, NOON + timedelta(hours=2, minutes=5))
    rows = resumed.lake.read(SESSION_EVALUATIONS, [JUNE_1])
    found = rows.filter(session_id="s1").row(0, named=True)
    assert (found["effective_100"], found["reason"]) == (None, "it has not ended yet")


def test_what_happened_at_the_very_time_had_happened(life: Life) -> None:
    """The prompt of s1 is of noon."""
    at_noon = as_of(life.stores, NOON).lake.read(AGENT_EVENTS, [JUNE_1])
    assert set(at_noon["event_time"]) == {NOON}
    assert set(at_noon["session_id"]) == {"s1"}


def test_before_anything_there_is_nothing(life: Life) -> None:
    past = as_of(life.stores, NOON - timedelta(hours=1))
    for table in (*TABLES, AGENT_EVENTS, SCORECARDS):
        assert past.lake.read(table, [JUNE_1]).is_empty()
    assert ProfileStore(past.ledger).registry().versions == ()
    assert past.lake.select(SESSION_EVALUATIONS, pl.col("model") == "m").is_empty()


def test_the_past_is_read_only_and_names_tables_without_a_past(life: Life) -> None:
    past = as_of(life.stores, HOURS["first"])
    with pytest.raises(LakeError, match=r"agent_sessions: the past is read-only"):
        past.lake.write(AGENT_SESSIONS.no_rows, AGENT_SESSIONS, JUNE_1)
    with pytest.raises(LakeError, match="masque_lift is not kept as of a past time"):
        past.lake.read(MASQUE_LIFT, [JUNE_1])
    with pytest.raises(LakeError, match="masque_lift is not kept as of a past time"):
        past.lake.read_whole(MASQUE_LIFT)


def test_reputation_as_of_a_time_is_the_one_shown_at_that_time(life: Life) -> None:
    with reputation_as_of(life.stores, HOURS["first"]) as store:
        assert agent_reputation(store, HOURS["first"]) == life.reputation
    with reputation_as_of(life.stores, HOURS["third"]) as store:
        (agent,), weeks = agent_reputation(store, HOURS["third"])
    # s1 went on with a failure and was scored again, s2 was corrected to 20: only s3 passes.
    evaluated = life.shown["third"].tables["session_evaluations"]
    assert [row["passed"] for row in evaluated] == [False, False, True]
    assert (agent["eval_count"], agent["pass_rate"]) == (3, pytest.approx(1 / 3))
    newest = weeks[-1]
    assert newest is not None
    assert newest["total_events"] == 3
