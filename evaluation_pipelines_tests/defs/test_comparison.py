"""The comparison as assets: tables, report and checks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from evaluation_pipelines.comparison.domain.compare import CHECKS, Comparison
from evaluation_pipelines.schemas import MODEL_COMPARISON, MODEL_COMPARISON_PAIRS
from evaluation_pipelines.schemas.table import CheckResult
from evaluation_pipelines_tests.defs.code_location import CodeLocation
from evaluation_pipelines_tests.world.runs import scores
from evaluation_pipelines_tests.world.stored import evaluation, put_sessions


def put_models(location: CodeLocation) -> None:
    """Write 40 recent runs each of a good and a bad model."""
    start = datetime.now(UTC) - timedelta(days=3)
    rows = [
        evaluation(100 * side + at, score, model=f"model-{'ab'[side]}", started_at=start)
        for side, mean in enumerate((85.0, 60.0))
        for at, score in enumerate(scores(mean, 40, 5, side + 1))
    ]
    put_sessions(location.workplace.lake, rows, start.date())


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, object]:
    (made,) = [
        event.step_materialization_data.materialization.metadata
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey(asset)
    ]
    return {name: value.value for name, value in made.items()}


def test_tables_are_written_with_their_checks(location: CodeLocation) -> None:
    put_models(location)
    result = location.execute_assets(
        "model_comparison", "model_comparison_pairs", "model_regressions"
    )
    assert result.success
    lake = location.workplace.lake
    assert lake.read_whole(MODEL_COMPARISON)["rank"].to_list() == [1, 2]
    assert lake.read_whole(MODEL_COMPARISON_PAIRS)["verdict"].to_list() == ["A better"]
    checks = {
        check_evaluation.check_name: check_evaluation.passed
        for check_evaluation in result.get_asset_check_evaluations()
    }
    assert checks == {
        "models_and_pairs_stand_once": True,
        "figures_lie_in_their_intervals": True,
        "every_session_is_accounted_for": True,
        "no_model_got_worse": True,
    }
    shown = metadata(result, "model_comparison")
    assert shown["dagster/row_count"] == 2
    assert "| code | model\\-a | ranked | 1 | 40 |" in str(shown["preview"])


def test_the_report_shows_its_answer_a_table_and_a_picture(location: CodeLocation) -> None:
    put_models(location)
    result = location.execute_assets("model_comparison_report")
    shown = metadata(result, "model_comparison_report")
    assert str(shown["answer"]).startswith("| Label | Quality | Value |")
    assert "80 of 80 sessions are ranked\\." in str(shown["answer"])
    assert "* Quality: **model\\-a" in str(shown["answer"])
    assert "| Model | Rank | Sessions |" in str(shown["models"])
    assert "](data:image/svg+xml;base64," in str(shown["cost and quality"])
    assert "in the ranking" not in str(shown["sessions not ranked"])  # all of them are
    report = Path(location.workplace.settings.reports_dir) / "model_comparison.html"
    assert str(shown["report"]) == str(report.absolute())
    assert report.exists()


def test_a_comparison_that_fails_a_check_keeps_the_previous_one(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_models(location)
    names = ("model_comparison", "model_comparison_pairs", "model_regressions")
    assert location.execute_assets(*names).success
    before = location.workplace.lake.read_whole(MODEL_COMPARISON)

    def broken(_: Comparison) -> CheckResult:
        name = "every_session_is_accounted_for"
        return CheckResult("model_comparison", name, passed=False, expected="81", found="80")

    monkeypatch.setattr(
        "evaluation_pipelines.defs.comparison.CHECKS", (*CHECKS[:2], broken, CHECKS[3])
    )
    with pytest.raises(dg.Failure, match="every_session_is_accounted_for: 80"):
        location.execute_assets(*names)
    assert location.workplace.lake.read_whole(MODEL_COMPARISON).equals(before)
