"""The code location as Dagster loads it."""

from datetime import UTC, datetime, timedelta
from functools import cache

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

from evaluation_pipelines.definitions import defs
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
    MASQUE_LIFT,
    MISSING_TOOLS,
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    Table,
)

COMPARED = {"model_comparison", "model_comparison_pairs", "model_regressions"}

# Asset -> group, kinds, code version, inputs, description.
ASSETS = {
    "agent_events_landed": (
        "telemetry",
        {"parquet", "opentelemetry"},
        None,
        set(),
        "One row per event as filed by ingest; a re-sent event appears again. Reported by ingest.",
    ),
    "agent_events": (
        "telemetry",
        {"parquet", "duckdb"},
        "2",
        {"agent_events_landed"},
        "One row per event, deduplicated.",
    ),
    "agent_sessions": (
        "sessions",
        {"parquet", "duckdb"},
        "3",
        {"agent_events"},
        "One row per session window (one masque worn once, or the baseline).",
    ),
    "session_performance": (
        "sessions",
        {"parquet", "polars"},
        "1",
        {"agent_sessions"},
        "One row per session window with its five dimensions.",
    ),
    "judge_scores": (
        "judging",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "agent_events"},
        "One row per scoring of a session window by the judge, as the ledger has it.",
    ),
    "scorecards": (
        "scorecards",
        {"parquet", "polars"},
        "1",
        {
            "agent_events",
            "agent_sessions",
            "session_performance",
            "tool_reports",
            "judge_scores",
        },
        "One row per session content and profile version.",
    ),
    "session_evaluations": (
        "scorecards",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "session_performance", "judge_scores", "scorecards"},
        "One row per session window: the one score that counts, and where it comes from.",
    ),
    "tool_reports": (
        "sessions",
        {"parquet", "polars"},
        "1",
        {"agent_events", "agent_sessions"},
        "One row per session window with tool calls: what they were worth.",
    ),
    "masque_lift": (
        "sessions",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "session_performance"},
        "One row per masque and kind of task: its clean sessions against the baseline.",
    ),
    "missing_tools": (
        "judging",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "judge_scores"},
        "One row per tool that judges say was missing, and period of 28 days.",
    ),
    "judge_changes": (
        "judging",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "judge_scores"},
        "One row per change of the judge of a profile: its model, rubric or profile version.",
    ),
    "judge_anchors": (
        "judging",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "judge_scores"},
        "One row per session that was drawn to be scored by both judges of a change.",
    ),
    "model_comparison": (
        "comparison",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "session_evaluations"},
        "One row per label, judge profile version, source of the scores, model and provider.",
    ),
    "model_comparison_pairs": (
        "comparison",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "session_evaluations"},
        "One row per pair of models scored alike within a label; A comes first in the alphabet.",
    ),
    "model_regressions": (
        "comparison",
        {"parquet", "polars"},
        "1",
        {"agent_sessions", "session_evaluations"},
        "One row per model scored alike within a label: its last weeks against the days before.",
    ),
    "model_comparison_report": (
        "comparison",
        {"html"},
        "1",
        COMPARED,
        "The comparison as a report: one self-contained HTML file, and markdown.",
    ),
    "reputation_events": (
        "reputation",
        {"clickhouse"},
        "1",
        {"session_evaluations"},
        "One row per signal about an identity: every evaluated session is one.",
    ),
    "external_signals": (
        "reputation",
        {"clickhouse", "parquet"},
        "1",
        set(),
        "One row per file of signals or evaluations of other systems.",
    ),
    "reputation_scores": (
        "reputation",
        {"clickhouse", "parquet"},
        "1",
        {"reputation_events", "external_signals"},
        "One row per identity: its reputation over 90 days.",
    ),
    "agent_scores": (
        "reputation",
        {"clickhouse", "polars", "parquet"},
        "1",
        {"reputation_events", "external_signals"},
        "One row per agent: 0 to 1000 over its last 500 evaluations.",
    ),
    "evaluation_books": (
        "comparison",
        {"parquet", "polars"},
        "1",
        {
            "agent_events",
            "agent_sessions",
            "session_performance",
            "judge_scores",
            "scorecards",
            "session_evaluations",
        },
        "One row per session window: the one state it is in, why, and what would change that.",
    ),
    "analytics_database": (
        "comparison",
        {"duckdb"},
        "1",
        {
            "agent_events",
            "agent_sessions",
            "session_performance",
            "judge_scores",
            "tool_reports",
            "scorecards",
            "session_evaluations",
            "evaluation_books",
            "masque_lift",
            "missing_tools",
            "judge_changes",
            "judge_anchors",
            *COMPARED,
            "external_signals",
            "reputation_scores",
            "agent_scores",
        },
        "One read-only DuckDB file with all tables, swapped in as a link; readers never block it.",
    ),
}

DAILY = {
    "agent_events_landed": AGENT_EVENTS_LANDED,
    "agent_events": AGENT_EVENTS,
    "agent_sessions": AGENT_SESSIONS,
    "session_performance": SESSION_PERFORMANCE,
    "judge_scores": JUDGE_SCORES,
    "scorecards": SCORECARDS,
    "session_evaluations": SESSION_EVALUATIONS,
    "tool_reports": TOOL_REPORTS,
    "evaluation_books": EVALUATION_BOOKS,
}
TABLES = {
    **DAILY,
    "masque_lift": MASQUE_LIFT,
    "missing_tools": MISSING_TOOLS,
    "judge_changes": JUDGE_CHANGES,
    "judge_anchors": JUDGE_ANCHORS,
}

COMPARED_TABLES = {
    each.name: each for each in (MODEL_COMPARISON, MODEL_COMPARISON_PAIRS, MODEL_REGRESSIONS)
}

CHECKS = {
    "agent_events_landed": {"quarantine_share_is_low", "no_date_is_parked"},
    "agent_events": {"every_date_was_built", "keys_are_unique"},
    "agent_sessions": {
        "every_date_was_built",
        "keys_are_unique",
        "every_event_is_in_a_session",
        "sequences_have_no_gaps",
    },
    "session_performance": {
        "every_date_was_built",
        "keys_are_unique",
        "scores_are_in_range",
        "every_score_has_its_session",
        "scores_match_sessions",
    },
    "judge_scores": {
        "every_date_was_built",
        "keys_are_unique",
        "totals_are_in_range",
        "every_scoring_has_its_session",
    },
    "judge_changes": {"every_judge_change_is_measured"},
    "scorecards": {
        "every_date_was_built",
        "keys_are_unique",
        "cards_are_on_their_scale",
        "every_card_has_its_session",
        "every_criterion_is_known",
        "profiles_are_sound",
        "profiles_are_calibrated",
    },
    "session_evaluations": {
        "every_date_was_built",
        "keys_are_unique",
        "every_score_has_its_session",
        "effective_scores_have_a_source",
    },
    "tool_reports": {
        "every_date_was_built",
        "keys_are_unique",
        "every_report_has_its_session",
        "calls_add_up",
    },
    "evaluation_books": {"every_date_was_built", "keys_are_unique", "books_balance"},
    "model_comparison": {
        "models_and_pairs_stand_once",
        "figures_lie_in_their_intervals",
        "every_session_is_accounted_for",
    },
    "model_regressions": {"no_model_got_worse"},
    "reputation_events": {"every_signal_has_its_session"},
    "external_signals": {"every_line_is_usable"},
    "reputation_scores": {"reputation_is_in_range"},
    "agent_scores": {"agent_scores_are_in_range"},
}


"""Daily tables that are not built for new telemetry."""


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
