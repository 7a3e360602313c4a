"""The code location as Dagster loads it."""

from datetime import UTC, datetime, timedelta
from functools import cache

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

from evaluation_pipelines.definitions import defs
from evaluation_pipelines.schemas import Table
from evaluation_pipelines_tests.expected_assets import (
    ASSETS,
    CHECKS,
    COMPARED_TABLES,
    DAILY,
    TABLES,
)


@cache
def repository() -> dg.RepositoryDefinition:
    """Return the repository of the code location."""
    return defs().get_repository_def()


def graph() -> AssetGraph:
    """Return the assets and checks of the code location."""
    return repository().asset_graph


def checks_by_asset() -> dict[str, set[str]]:
    """Return the names of all checks by asset."""
    found: dict[str, set[str]] = {}
    for key in graph().asset_check_keys:
        found.setdefault(key.asset_key.to_user_string(), set()).add(key.name)
    return found


def test_the_code_location_holds_exactly_these_assets() -> None:
    # A mistyped dependency would appear here as an additional asset.
    keys = graph().get_all_asset_keys()

    assert {key.to_user_string() for key in keys} == ASSETS.keys()


@pytest.mark.parametrize("name", ASSETS)
def test_an_asset_has_its_description_group_kinds_inputs_and_owner(name: str) -> None:
    asset = graph().get(dg.AssetKey(name))
    group, kinds, code_version, parents, description = ASSETS[name]

    assert asset.group_name == group
    assert asset.kinds == kinds
    assert asset.code_version == code_version
    assert {key.to_user_string() for key in asset.parent_keys} == parents
    assert (asset.description or "").splitlines()[0] == description
    assert asset.owners == ["team:evaluation"]


@pytest.mark.parametrize("name", [*TABLES, *COMPARED_TABLES])
def test_a_table_shows_its_columns_with_types_and_descriptions(name: str) -> None:
    table: Table = (TABLES | COMPARED_TABLES)[name]
    schema = graph().get(dg.AssetKey(name)).metadata["dagster/column_schema"]
    shown = schema.value if isinstance(schema, dg.MetadataValue) else schema

    assert isinstance(shown, dg.TableSchema)
    assert [(each.name, each.type, each.description) for each in shown.columns] == [
        (each.name, str(each.dtype), each.description) for each in table.columns
    ]
    assert all(each.description for each in shown.columns)


@pytest.mark.parametrize("name", DAILY)
def test_a_table_has_one_partition_for_each_utc_day_up_to_today(name: str) -> None:
    partitions = graph().get(dg.AssetKey(name)).partitions_def

    assert isinstance(partitions, dg.DailyPartitionsDefinition)
    assert partitions.timezone == "UTC"
    keys = partitions.get_partition_keys(current_time=datetime(2026, 6, 1, 12, tzinfo=UTC))
    assert (keys[0], keys[-1]) == ("2025-01-01", "2026-06-01")


@pytest.mark.parametrize("name", [name for name in DAILY if name != "agent_events_landed"])
def test_a_backfill_of_a_daily_table_is_one_run(name: str) -> None:
    assert graph().get(dg.AssetKey(name)).backfill_policy == dg.BackfillPolicy.single_run()


def test_landed_events_are_external_so_that_no_backfill_requests_them() -> None:
    landed = graph().get(dg.AssetKey("agent_events_landed"))

    assert landed.is_external
    assert not landed.is_materializable


def test_assets_that_people_open_have_a_freshness_policy() -> None:
    found = {
        key.to_user_string(): graph().get(key).freshness_policy_or_from_metadata
        for key in graph().get_all_asset_keys()
    }
    hourly = dg.FreshnessPolicy.time_window(
        warn_window=timedelta(hours=3), fail_window=timedelta(hours=26)
    )
    built_hourly = (
        "analytics_database",
        "model_comparison_report",
        "reputation_scores",
        "agent_scores",
    )
    assert {name: policy for name, policy in found.items() if policy} == {
        "session_performance": dg.FreshnessPolicy.time_window(
            warn_window=timedelta(hours=36), fail_window=timedelta(days=4)
        ),
        **dict.fromkeys(built_hourly, hourly),
    }


def test_every_asset_has_exactly_these_checks_with_descriptions() -> None:
    assert checks_by_asset() == CHECKS
    for key in graph().asset_check_keys:
        description = graph().get_check_spec(key).description or ""
        assert description.endswith(".")
        assert "\n" not in description


def test_books_that_do_not_balance_block_what_follows_in_their_run() -> None:
    blocking = {
        key.name for key in graph().asset_check_keys if graph().get_check_spec(key).blocking
    }

    assert blocking == {"books_balance"}


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
