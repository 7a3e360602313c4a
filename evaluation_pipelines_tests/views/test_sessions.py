"""The relation of sessions: what is stored, what is joined when it is read, and when."""

from datetime import timedelta

import polars as pl

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSIONS
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED
from evaluation_pipelines.scorecards.overrides import HumanVerdict, override
from evaluation_pipelines.scorecards.scorecard_queries import read_session_lookup
from evaluation_pipelines.sessions.domain.performance import tools_per_prompt
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.views.listing import SESSION_LISTING
from evaluation_pipelines.views.sessions import Sessions, sessions, with_details, with_live_judge
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, begun
from evaluation_pipelines_tests.service.answers import work
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, session
from evaluation_pipelines_tests.world.ledger import NOON

ONE = "one#baseline-1"


def row_of(rows: pl.DataFrame, key: str = ONE) -> dict[str, object]:
    return rows.filter(session_key=key).row(0, named=True)


def overridden(workplace: Workplace, score: float) -> None:
    verdict = HumanVerdict(score, "Ann", "it guessed")
    target = read_session_lookup(workplace.stores, [ONE]).find(SessionName(ONE))
    override(workplace.stores, target, verdict, "person", NOW)


def judge(workplace: Workplace, total: int) -> None:
    content = row_of(workplace.sessions())["content_hash"]
    scores = ScoreStore(workplace.ledger)
    day = workplace.lake.partitions(AGENT_SESSIONS)[0]
    new = begun(ONE, content_hash=str(content), session_date=day, organization_id="default")
    score_id = scores.create(new, NOON).score_id
    scores.complete(score_id, DONE | {"total_score": total, "sample_totals": [total]}, NOW)


def test_one_function_reads_the_same_as_the_memory_of_a_service(workplace: Workplace) -> None:
    fill(workplace, session("one"), session("two", DAY_S))
    overridden(workplace, 30)
    days = workplace.lake.partitions(AGENT_SESSIONS)
    rows = SESSION_LISTING.newest_first(sessions(workplace.stores, days, now=NOW))
    assert Sessions(workplace.stores).rows(now=NOW).select(rows.columns).equals(rows)
    detailed = with_details(workplace.stores, rows)
    assert set(SESSIONS.schema) <= set(detailed.columns)
    assert {name: detailed.schema[name] for name in SESSIONS.schema} == dict(SESSIONS.schema)
    chosen = sessions(workplace.stores, days, pl.col("session_id") == "two", now=NOW)
    assert chosen.equals(rows.filter(session_id="two"))


def test_a_build_is_seen_whatever_is_asked_for_first(workplace: Workplace) -> None:
    fill(workplace, session("one"))
    kept = Sessions(workplace.stores)
    first = kept.rows()
    for name, second, ask in (
        ("two", 60, kept.organizations),
        ("three", 120, lambda: kept.with_ranks(first)),
    ):
        fill(workplace, session(name, second))
        ask()
        assert name in kept.rows()["session_id"]


def test_an_override_counts_at_once_with_all_that_follows_from_it(workplace: Workplace) -> None:
    fill(workplace, session("one"))
    every = Sessions(workplace.stores)
    names = ("effective_100", "effective_source", "passed", "colour", "confidence", "quality_risk")
    before = row_of(every.rows())
    assert (before["effective_source"], before["passed"]) == ("scorecard", True)
    assert before["recommendation"] == "keep"  # by its counts
    overridden(workplace, 30)
    found = row_of(every.rows())
    # Below the limit of its profile: 0.5 of 100.
    assert [found[name] for name in names] == [30.0, "override", False, "red", 1.0, True]
    assert found["automatic_100"] == before["effective_100"]
    assert found["recommendation"] is None  # 30 of 100
    overridden(workplace, 80)
    found = row_of(every.rows())
    assert [found[name] for name in names] == [80.0, "override", True, "green", 1.0, False]
    assert found["recommendation"] == "keep"
    assert row_of(with_details(workplace.stores, every.rows()))["why"] is None


def test_a_judge_score_shows_at_once(workplace: Workplace) -> None:
    fill(workplace, session("one"), session("two", DAY_S))
    rows = Sessions(workplace.stores).rows()
    assert row_of(rows)["judge_total"] is None
    judge(workplace, 43)
    for found in (with_details(workplace.stores, rows), with_live_judge(workplace.stores, rows)):
        shown = row_of(found)
        assert (shown["judge_badge"], shown["judge_total"]) == ("43 red", 43.0)
        assert shown["judge_model"] == "judge-1"
        other = row_of(found, "two#baseline-1")
        assert (other["judge_badge"], other["judge_total"]) == ("Not scored", None)


def test_scores_are_withheld_from_whoever_may_review_a_session(workplace: Workplace) -> None:
    fill(workplace, session("one"), session("two", DAY_S))
    judge(workplace, 43)
    every, waiting = Sessions(workplace.stores), frozenset({("default", ONE)})
    shown = row_of(with_details(workplace.stores, every.rows(waiting)))
    blind = {column.name for column in SESSIONS.columns if column.blind}
    assert blind >= {"effective_100", "composite", "percentile_in_class", "judge_total", "why"}
    assert {name: shown[name] for name in blind} == dict.fromkeys(blind)
    assert (shown["awaits_review"], shown[IS_SCORED], shown["cost_usd"]) == (True, True, None)
    assert row_of(every.rows(waiting), "two#baseline-1")["effective_100"] is not None
    assert row_of(every.rows())["effective_100"] is not None  # others see it


def test_a_session_has_the_scores_of_its_own_organization(workplace: Workplace) -> None:
    fill(workplace, work("acme", "one", 0), work("beta", "one", 60, success="false"))
    rows = Sessions(workplace.stores).rows()
    assert rows.select("organization_id", "quality").rows() == [("beta", 0.0), ("acme", 10.0)]


def test_calls_for_each_prompt_have_no_limit(workplace: Workplace) -> None:
    fill(workplace, session("many", calls=["Read"] * 12), session("one", 60))
    rows = Sessions(workplace.stores).rows().sort("session_key")
    # One prompt each: 12 / 1, of which the dimension is 10, and 1 / 1.
    assert rows["tools_per_prompt"].to_list() == [12.0, 1.0]
    assert rows["autonomy"].to_list() == [10.0, 2.0]
    unknown = rows.with_columns(prompts=pl.Series([None, 0]))
    assert unknown.select(tools_per_prompt())["tools_per_prompt"].to_list() == [None, 1.0]


def test_a_session_ends_by_silence_while_nothing_is_built(workplace: Workplace) -> None:
    fill(workplace, session("one"))
    every, (ended_at,) = Sessions(workplace.stores), workplace.sessions()["ended_at"]
    idle = timedelta(minutes=workplace.settings.session_idle_minutes)
    times = [ended_at + idle + timedelta(seconds=second) for second in (0, 1)]
    assert [row_of(every.rows(now=time))["has_ended"] for time in times] == [False, True]
