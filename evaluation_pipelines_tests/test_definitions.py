"""The code location as Dagster loads it: as it is written down, and what follows from that."""

import gc
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.definitions import data_version, source_asset
from dagster._core.definitions.assets.job import asset_job
from dagster._core.storage import tags

from evaluation_pipelines.definitions import defs
from evaluation_pipelines.defs import alerts, automation, metadata
from evaluation_pipelines.defs.automation import LATER_RUN
from evaluation_pipelines.schemas import TABLES
from evaluation_pipelines_tests.definitions_snapshot import SNAPSHOT, repository, text

NAMED = {table.name: table for table in TABLES}


def test_the_code_location_is_the_one_written_down() -> None:
    """Refresh it with: python -m evaluation_pipelines_tests.definitions_snapshot."""
    assert text() == SNAPSHOT.read_text(encoding="utf-8")


def test_tables_show_their_columns_and_one_partition_for_each_utc_day_up_to_today() -> None:
    graph, shown = repository().asset_graph, 0
    for key in graph.get_all_asset_keys():
        asset, table = graph.get(key), NAMED.get(key.to_user_string())
        if isinstance(asset.partitions_def, dg.DailyPartitionsDefinition):
            assert asset.partitions_def.timezone == "UTC"
            now = datetime(2026, 6, 1, 12, tzinfo=UTC)
            days = asset.partitions_def.get_partition_keys(current_time=now)
            assert (days[0], days[-1]) == ("2025-01-01", "2026-06-01")
        if table is not None and "dagster/column_schema" in asset.metadata:
            schema = asset.metadata["dagster/column_schema"]
            found = schema.value if isinstance(schema, dg.MetadataValue) else schema
            assert isinstance(found, dg.TableSchema)
            assert [(column.name, column.type, column.description) for column in found.columns] == [
                (column.name, str(column.dtype), column.description) for column in table.columns
            ]
            shown += 1
    assert shown == 22


@pytest.mark.parametrize(("model", "warnings"), [("", 1), ("judge-1", 0)])
def test_the_code_location_warns_once_if_no_judge_is_set(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, model: str, warnings: int
) -> None:
    monkeypatch.delenv("EVAL_JUDGE_MODEL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    if model:
        monkeypatch.setenv("EVAL_JUDGE_MODEL", model)
    defs()
    assert caplog.text.count("set EVAL_JUDGE_MODEL to the name of a model") == warnings


def test_nothing_of_the_code_location_is_looked_at_by_garbage_collections() -> None:
    before = gc.get_freeze_count()
    defs()
    assert gc.get_freeze_count() - before > 1_000
    assert gc.isenabled()


def test_the_nightly_run_builds_every_asset_with_a_condition() -> None:
    # The conditions ignore updates by the nightly run: an asset outside of it would stay outdated.
    built = repository().get_job("nightly_evaluation").asset_layer.selected_asset_keys
    graph = repository().asset_graph
    automated = {key for key in graph.get_all_asset_keys() if graph.get(key).automation_condition}

    assert automated <= built
    assert {key.to_user_string() for key in built - automated} == {
        "commit_outcomes",
        "judge_scores",
        "scorecards",
        "session_evaluations",
    }


def labels_of(condition: dg.AutomationCondition[dg.AssetKey]) -> list[str]:
    """Return the label, if any, of each operand of "and" and "or"."""
    if condition.name not in {"AND", "OR"}:
        return [condition.get_label() or ""]
    return [label for part in condition.children for label in labels_of(part)]


def test_every_condition_has_a_label_in_words() -> None:
    conditions = {
        condition
        for key in repository().asset_graph.get_all_asset_keys()
        if (condition := repository().asset_graph.get(key).automation_condition)
    }

    assert len(conditions) == 3
    for condition in conditions:
        assert " " in (condition.get_label() or "")
        assert all(" " in label for label in labels_of(condition))


def test_of_each_kind_of_later_run_there_is_one_at_a_time() -> None:
    settings = (Path(__file__).parents[1] / "dagster.yaml").read_text(encoding="utf-8")
    limits = yaml.safe_load(settings)["concurrency"]["runs"]["tag_concurrency_limits"]
    assert {"key": next(iter(LATER_RUN)), "limit": 1} in limits


def test_no_private_name_of_dagster_is_imported() -> None:
    package = Path(__file__).parents[1] / "evaluation_pipelines"
    private = re.compile(r"\b(dagster\._|dagster_shared\b|dagster_duckdb\._)")
    using = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if private.search(path.read_text(encoding="utf-8"))
    ]

    assert using == []


def test_steps_run_in_the_process_of_their_run() -> None:
    assert defs().executor is dg.in_process_executor


def test_names_that_dagster_stores_are_spelled_as_it_does() -> None:
    assert automation.ASSET_PARTITION_RANGE_START_TAG == tags.ASSET_PARTITION_RANGE_START_TAG
    assert automation.ASSET_PARTITION_RANGE_END_TAG == tags.ASSET_PARTITION_RANGE_END_TAG
    assert automation.PARTITION_NAME_TAG == tags.PARTITION_NAME_TAG
    assert alerts.WILL_RETRY_TAG == tags.WILL_RETRY_TAG
    assert alerts.IMPLICIT_ASSET_JOB_NAME == asset_job.IMPLICIT_ASSET_JOB_NAME
    assert (
        metadata.SOURCE_ASSET_OBSERVATION
        == source_asset.SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
    )
    for name in (
        *("CODE_VERSION_TAG", "DATA_VERSION_TAG", "INPUT_DATA_VERSION_TAG_PREFIX"),
        *("INPUT_EVENT_POINTER_TAG_PREFIX", "NULL_EVENT_POINTER"),
    ):
        assert getattr(automation, name) == getattr(data_version, name)


LOAD_WITHOUT_NETWORK = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        raise ConnectionError(f"loading the code location used the network: {event} {arguments}")

sys.addaudithook(refuse)
import dagster as dg
from evaluation_pipelines.definitions import defs
dg.Definitions.validate_loadable(defs())
"""


def test_loading_needs_no_environment_file_or_network_and_warns_of_no_judge_only(
    tmp_path: Path,
) -> None:
    loading = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOAD_WITHOUT_NETWORK],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    warning = (
        "no session is scored by a judge: no judge is configured: "
        "set EVAL_JUDGE_MODEL to the name of a model\n"
    )
    assert (loading.returncode, loading.stdout, loading.stderr) == (0, "", warning)
    assert list(tmp_path.iterdir()) == []
