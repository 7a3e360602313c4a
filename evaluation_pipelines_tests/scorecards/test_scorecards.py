"""Scorecards in a whole pipeline: rebuilds, growing sessions, new versions, open sessions."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.build.build import publish_scores
from evaluation_pipelines.profiles.sync import SHIPPED, read_profile, set_profile
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    TOOL_REPORTS,
)
from evaluation_pipelines.scorecards.domain.criteria import JUDGE_RESULTS, TRIGGERED
from evaluation_pipelines.scorecards.domain.evaluation import NOT_ENDED
from evaluation_pipelines.scorecards.domain.scorecard import score_cards
from evaluation_pipelines.scorecards.scorecard_tables import judged_since_build
from evaluation_pipelines.scorecards.store import EventStore
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judged import fresh_session, open_judged
from evaluation_pipelines_tests.scorecards.calls_profile import (
    DAY,
    build,
    cards,
    evaluation,
    profile_file,
    work,
)
from evaluation_pipelines_tests.telemetry.captures import RECORDED
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line
from evaluation_pipelines_tests.world.lake_files import contents
from evaluation_pipelines_tests.world.scorecards import answered, evidence_of

ENDED = datetime.fromisoformat("2026-06-01T12:00:31Z")


def digests(workplace: Workplace) -> list[tuple[str, str | None, str | None]]:
    """Return table, slot and checksum of every part."""
    return [
        (table.name, part.slot, part.sha256)
        for table in (SCORECARDS, SESSION_EVALUATIONS)
        for part in workplace.lake.parts(table)
    ]


def test_a_session_gets_a_card_of_every_profile_that_applies(scored: Workplace) -> None:
    (mine,) = cards(scored)
    assert mine["overall_score"] == pytest.approx(90)  # 1 call of 10
    assert (mine["is_best_match"], mine["scored_at"]) == (True, NOW)
    assert [card["is_best_match"] for card in cards(scored, "general-performance")] == [False]
    # Two profiles list the label alone; one is shipped.
    assert [card["is_best_match"] for card in cards(scored, "efficiency-simple")] == [False]

    row = evaluation(scored)
    assert (row["effective_100"], row["effective_source"]) == (pytest.approx(90), "scorecard")
    assert (row["profile_id"], row["card_id"]) == ("calls", mine["card_id"])
    assert [part.slot for part in scored.lake.parts(SCORECARDS, [DAY])] == [
        "calls-v1",
        "efficiency-simple-v2",
        "general-performance-v2",
    ]


def test_building_again_changes_no_byte_and_announces_nothing_twice(scored: Workplace) -> None:
    before, events = digests(scored), EventStore(scored.ledger).after(0, 100)
    assert [event.kind for event in events] == ["evaluation.model_feedback"]
    RebuildQueue(scored.ledger).touch([DAY], NOW)
    build(scored, NOW + timedelta(days=1))

    assert digests(scored) == before
    assert EventStore(scored.ledger).after(0, 100) == events


def test_a_session_that_grew_gets_a_new_card_and_keeps_the_old_one(scored: Workplace) -> None:
    scored.land("more.jsonl", work(second=60))
    later = NOW + timedelta(days=1)
    build(scored, later)

    old, new = sorted(cards(scored), key=lambda card: card["scored_at"])
    assert (old["scored_at"], new["scored_at"]) == (NOW, later)
    assert old["content_hash"] != new["content_hash"]
    assert evaluation(scored)["card_id"] == new["card_id"]
    assert len(EventStore(scored.ledger).after(0, 100)) == 2


def test_history_is_scored_again_when_asked_and_old_cards_stay(scored: Workplace) -> None:
    path = profile_file(scored, version=2, worst=2)
    first = (SCORECARDS.name, DAY, "calls-v1")
    before = contents(scored.lake, SCORECARDS)[first]
    set_profile(scored.stores, path, NOW, rescore_history=True)
    build(scored)

    assert contents(scored.lake, SCORECARDS)[first] == before
    by_version = {card["profile_version"]: card for card in cards(scored)}
    assert by_version[2]["overall_score"] == pytest.approx(50)  # 1 call of 2
    assert evaluation(scored)["card_id"] == by_version[2]["card_id"]


def test_an_open_session_is_scored_when_it_ends_without_new_telemetry(
    workplace: Workplace,
) -> None:
    profile_file(workplace)
    workplace.land("logs.jsonl", work())
    just_after = ENDED + timedelta(minutes=1)
    build(workplace, just_after)

    assert cards(workplace) == []
    row = evaluation(workplace)
    assert (row["effective_source"], row["reason"]) == ("none", NOT_ENDED)
    # As its card will say, but in no figure: passed, quality_risk and the others are of 100 alone.
    assert row["provisional_100"] == pytest.approx(90)
    counting = ("effective_100", "automatic_100", "passed", "quality_risk", "confidence")
    assert [row[name] for name in counting] == [None] * 5
    assert EventStore(workplace.ledger).after(0, 10) == []
    job = Build(workplace.stores, clock=lambda: just_after + timedelta(minutes=28))
    assert job.pending_dates() == []

    build(workplace, just_after + timedelta(minutes=30))
    assert len(cards(workplace)) == 1
    row = evaluation(workplace)
    assert (row["effective_source"], row["provisional_100"]) == ("scorecard", None)
    assert len(EventStore(workplace.ledger).after(0, 10)) == 1


def test_a_disqualified_session_is_so_while_it_is_open(workplace: Workplace) -> None:
    profile_file(workplace, more="disqualifiers: ['rm -rf']")
    parameters = '{"command": "rm -rf /srv"}'
    workplace.land("logs.jsonl", work(tool_parameters=parameters))
    build(workplace, ENDED)
    assert evaluation(workplace)["provisional_100"] == 0


def test_a_card_stays_while_its_session_is_open_again(scored: Workplace) -> None:
    """A late hook event moves the end of a session and does not change its content."""
    before = cards(scored)
    scored.land("late.jsonl", line(claude("hook_execution_start", 60, session__id="s1")))
    build(scored, ENDED + timedelta(minutes=2))

    assert cards(scored) == before
    row = evaluation(scored)
    assert (row["effective_source"], row["provisional_100"]) == ("scorecard", None)
    assert len(EventStore(scored.ledger).after(0, 10)) == 1


def test_a_placeholder_never_counts(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", work(label="incident"))
    build(workplace.with_settings(allow_fallback=True))

    (card,) = cards(workplace, "incident-llm")
    assert (card["overall_score"], card["fallback"]) == (50, True)
    row = evaluation(workplace)
    assert (row["effective_source"], row["profile_id"]) == ("scorecard", "general-performance")
    assert row["reason"].startswith("general-performance counts until incident-llm scores it")


def test_a_date_is_judged_since_its_build_until_the_next_one(tmp_path: Path) -> None:
    """Files have the time of their machine, so that this test runs at that time, too."""
    with open_judge_endpoint() as judge, open_judged(tmp_path, judge.base_url) as judged:
        workplace, stores = judged.workplace, judged.workplace.stores
        workplace.land("logs.jsonl", fresh_session("s1"))
        build(workplace, datetime.now(UTC))
        assert judged_since_build(stores) == set()
        judged.now = datetime.now(UTC)
        judged.run()
        days = set(workplace.lake.partitions(AGENT_SESSIONS))
        assert judged_since_build(stores) == days
        publish_scores(stores, days)
        assert judged_since_build(stores) == days  # published, not evaluated
        build(workplace, datetime.now(UTC))
        assert judged_since_build(stores) == set()


DATA = Path(__file__).parents[1] / "data"
KEY = "s1#baseline-1"


@pytest.mark.parametrize(
    ("seconds", "calls", "effectiveness", "score"),
    [
        # 7 of 7 calls good within 48 s: 60 + 25 + 15.
        (48, 7, 100.0, 100.0),
        # Just as good, in 3 minutes: 60 + 25 * (300 - 180) / (300 - 60) + 15.
        (180, 7, 100.0, 87.5),
        # Half of the calls failed, as fast: 60 * 0.5 + 25 + 15.
        (48, 7, 50.0, 70.0),
        # And a tenth of them was good, with 14 calls: 60 * 0.1 + 25 + 15 * (20 - 14) / (20 - 8).
        (48, 14, 10.0, 38.5),
    ],
)
def test_efficiency_of_simple_tasks(
    seconds: float, calls: int, effectiveness: float, score: float
) -> None:
    profile = read_profile(SHIPPED / "efficiency-simple.yaml")
    work = answered(session_key=KEY, active_s=float(seconds), prompts=1, total_tools=calls)
    given = evidence_of([work], effectiveness={KEY: effectiveness})
    made = score_cards(profile, given, JUDGE_RESULTS.to_frame(), TRIGGERED.to_frame()).cards
    assert made["overall_score"].to_list() == [pytest.approx(score)]


def test_genuine_sessions_are_green_exactly_without_lost_calls(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        for agent in RECORDED:
            path = DATA / agent / "logs.pbjson.jsonl"
            workplace.land(f"{agent}.jsonl", path.read_bytes())
        workplace.ingest()
        workplace.build()
        reports, evaluations = (
            workplace.lake.read(table, workplace.lake.partitions(table))
            for table in (TOOL_REPORTS, SESSION_EVALUATIONS)
        )
    scores = reports.select(*SESSION_KEY, "effectiveness_score")
    rows = evaluations.join(scores, on=SESSION_KEY)
    good = rows.filter(effectiveness_score=100.0, status="completed")
    lost = rows.filter(pl.col("effectiveness_score") <= 60)
    assert (good.height >= 15, lost.height >= 8) == (True, True)
    assert good.filter(pl.col("effective_100") < 75).is_empty()
    assert lost.filter(pl.col("effective_100") >= 75).is_empty()
