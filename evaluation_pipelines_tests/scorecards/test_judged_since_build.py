"""Dates that were judged since they were built."""

from datetime import UTC, datetime
from pathlib import Path

from evaluation_pipelines.build.judge_scores import publish_scores
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.scorecard_tables import judged_since_build
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judged import fresh_session, open_judged
from evaluation_pipelines_tests.scorecards.calls_profile import build


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
