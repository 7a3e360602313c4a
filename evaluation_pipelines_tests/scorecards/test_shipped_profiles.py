"""Shipped profiles: a plainly good session is green, one whose calls failed is not."""

from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.profiles.sync import SHIPPED, read_profile
from evaluation_pipelines.schemas import (
    SESSION_EVALUATIONS,
    SESSION_KEY,
    TOOL_REPORTS,
)
from evaluation_pipelines.scorecards.domain.criteria import JUDGE_RESULTS, TRIGGERED
from evaluation_pipelines.scorecards.domain.scorecard import score_cards
from evaluation_pipelines_tests.scorecard_builders import answered, evidence_of
from evaluation_pipelines_tests.workplace import open_workplace

AGENTS = ("claude_code", "codex", "gemini_cli", "opencode", "qwen_code")
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
        for agent in AGENTS:
            path = DATA / agent / "logs.pbjson.jsonl"
            workplace.land(f"{agent}.jsonl", path.read_bytes())
        workplace.ingest()
        workplace.build()
        reports, evaluations = (
            workplace.lake.read(each, workplace.lake.partitions(each))
            for each in (TOOL_REPORTS, SESSION_EVALUATIONS)
        )
    scores = reports.select(*SESSION_KEY, "effectiveness_score")
    rows = evaluations.join(scores, on=SESSION_KEY)
    good = rows.filter(effectiveness_score=100.0, status="completed")
    lost = rows.filter(pl.col("effectiveness_score") <= 60)
    assert (good.height >= 15, lost.height >= 8) == (True, True)
    assert good.filter(pl.col("effective_100") < 75).is_empty()
    assert lost.filter(pl.col("effective_100") >= 75).is_empty()
