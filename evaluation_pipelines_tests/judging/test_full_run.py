"""Full runs over captured telemetry of each agent and over generated days of a team."""

from datetime import date
from pathlib import Path

import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import Judged, fill, open_judged
from evaluation_pipelines_tests.telemetry.captures import Capture
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry


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
    assert len({each.session for each in judge.requests}) == judgeable.height


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
