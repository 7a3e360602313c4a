"""Queries of the page for analysts on rows of which the demo has none, worked out by hand."""

from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import (
    JUDGE_SCORES,
    SCORECARDS,
)
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines_tests.docs.documents import ROOT, blocks
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world.rows import START, Row
from evaluation_pipelines_tests.world.scorecards import profile
from evaluation_pipelines_tests.world.stored import (
    card,
    evaluation,
    override,
    put,
    put_sessions,
)

HOUR = timedelta(hours=1)


def judged(total: float, spread: float | None, **columns: object) -> Row:
    """A completed score of the present content."""
    defaults: Row = {
        "judge_model": "judge-1",
        "judge_profile_id": "p",
        "judge_profile_version": 1,
        "status": "completed",
        "is_current": True,
        "total_score": total,
        "score_spread": spread,
        "inconsistent_total": False,
        "judge_cost_usd": 0.25,
    }
    return defaults | columns


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An analysts' database with judged, corrected and resumed sessions."""
    with open_workplace(tmp_path_factory.mktemp("analysts")) as place:
        ProfileStore(place.ledger).register(profile(), START)
        put_sessions(place.lake, [evaluation(number) for number in (1, 2, 3)])
        scores = [
            judged(60.0, 4.0),
            judged(80.0, None, inconsistent_total=True, judge_cost_usd=None),
            judged(10.0, None, is_current=False),
            judged(10.0, None, status="failed"),
        ]
        put(place.lake, JUDGE_SCORES, scores)
        cards = [
            card(1, 40.0, HOUR),
            card(1, 70.0, 2 * HOUR, content_hash="1"),
            card(2, 50.0, HOUR),
            card(3, 50.0, HOUR),
            card(3, 40.0, 2 * HOUR, content_hash="1"),
        ]
        put(place.lake, SCORECARDS, cards)
        # Automatic 8 of 10: once too high by 30 points, once by none, once too low by 10.
        told = [override(1, 50.0), override(2, 80.0, is_confirmation=True), override(3, 90.0)]
        OverrideStore(place.ledger).add(told, NOW)
        return publish_analytics(place.stores, NOW).link


def test_every_query_of_the_page_runs(database: Path) -> None:
    text = (ROOT / "docs" / "analysts.md").read_text("utf-8")
    queries = [block.body for block in blocks(text) if block.language == "sql"]
    with duckdb.connect(str(database), read_only=True) as connection:
        assert all(connection.sql(query).columns for query in queries)
    assert sum("as metric" in query for query in queries) == 1


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        # Mean of 60 and 80, deviations of 10 from it: sqrt(200 / 1) = 14.1. One of two is
        # inconsistent, one of two has a price.
        ("judge_scores", [("judge-1", "p", 1, 2, 70.0, 14.1, 4.0, 50.0, 0.25)]),
        # (30 + 0 - 10) / 3 = 6.7 and (30 + 0 + 10) / 3 = 13.3.
        ("overrides", [("p", 1, "person", 3, 1, 6.7, 13.3)]),
    ],
)
def test_the_queries_about_judges_and_people_give_what_they_say(
    database: Path, table: str, expected: list[tuple[object, ...]]
) -> None:
    text = (ROOT / "docs" / "analysts.md").read_text("utf-8")
    section = text.partition("## Judges and overrides")[2].partition("\n## ")[0]
    (query,) = [block.body for block in blocks(section) if f"from {table}\n" in block.body]
    with duckdb.connect(str(database), read_only=True) as connection:
        assert connection.sql(query).fetchall() == expected
