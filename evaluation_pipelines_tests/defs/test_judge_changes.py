"""Changes of judges as assets: tables, check and metadata."""

import time
from datetime import UTC, datetime

import dagster as dg
import pytest

from evaluation_pipelines.schemas import JUDGE_CHANGES
from evaluation_pipelines_tests.defs.code_location import CodeLocation, range_tags
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.world import DAY_S, NOON_NS


def asked(location: CodeLocation) -> tuple[dict[str, str], dict[str, bool]]:
    """Materialize the assets; return the metadata of the changes, and the checks."""
    result = location.execute_assets("judge_changes", "judge_anchors")
    made = {
        event.asset_key.to_user_string(): event
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    }
    assert made.keys() == {"judge_changes", "judge_anchors"}
    metadata = made["judge_changes"].step_materialization_data.materialization.metadata
    checks = {
        evaluation.check_name: evaluation.passed
        for evaluation in result.get_asset_check_evaluations()
    }
    return {name: _shown(value) for name, value in metadata.items()}, checks


def _shown(value: dg.MetadataValue) -> str:
    return str(value.value)


def test_without_a_judge_there_is_no_change(location: CodeLocation) -> None:
    metadata, checks = asked(location)

    assert metadata["dagster/row_count"] == "0"
    assert metadata["answer"].startswith("No judge has changed")
    assert checks == {"every_judge_change_is_measured": True}


def test_a_change_without_anchors_is_a_warning(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, model in ((3, "judge-1"), (2, "judge-2")):
        monkeypatch.setenv("EVAL_JUDGE_MODEL", model)
        began = time.time() - number * DAY_S
        sessions = [
            session_with_texts(f"s{number}-{index}", began + index - NOON_NS / 1e9)
            for index in range(3)
        ]
        fill(location.workplace, *sessions)
        day = datetime.fromtimestamp(began, UTC).date()
        assert location.execute("judge_due", range_tags(day, day)).success
    assert judge.requests

    metadata, checks = asked(location)
    assert checks == {"every_judge_change_is_measured": False}
    answer = metadata["answer"].replace("\\", "")
    assert "default: another model since" in answer
    assert "Not measured yet" in answer
    (row,) = location.workplace.lake.read_whole(JUDGE_CHANGES).to_dicts()
    assert (row["state"], row["trend"]) == ("not drawn", "cut")
