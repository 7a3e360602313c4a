"""The lift of masques, and the checks of the whole lake."""

from datetime import UTC, datetime

import dagster as dg
from dagster_duckdb import DuckDBResource
from duckdb import DuckDBPyConnection

from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.defs.automation import LAST, WHEN_INPUTS_SETTLED
from evaluation_pipelines.defs.daily_tables import profiles_are_calibrated
from evaluation_pipelines.defs.metadata import column_schema, frame_metadata
from evaluation_pipelines.outcomes.from_git import read_git
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    MASQUE_LIFT,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.sql_files import read_sql
from evaluation_pipelines.storage.store import StoredFiles
from evaluation_pipelines.storage.stores import Stores

_PREVIEW = (
    *("organization_id", "masque", "task_class", "composite_difference"),
    *("composite_low", "composite_high", "sessions", "baseline_sessions"),
)


@dg.asset(
    deps=[AGENT_SESSIONS.name, SESSION_PERFORMANCE.name],
    description=f"{MASQUE_LIFT.sentence}\n\nObserved: the masque need not be the cause.",
    group_name="sessions",
    kinds={"polars", "parquet"},
    owners=["team:evaluation"],
    code_version="1",
    metadata={"dagster/column_schema": column_schema(MASQUE_LIFT)},
    automation_condition=WHEN_INPUTS_SETTLED,
)
def masque_lift(stores: dg.ResourceParam[Stores]) -> dg.MaterializeResult[None]:
    """Compare the sessions of each masque with the baseline, by kind of task."""
    lift = write_masque_lift(stores, datetime.now(UTC))
    shown = lift.filter(composite_state="shown")
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": lift.height,
            "with enough sessions": shown.height,
            "preview": frame_metadata(shown.select(_PREVIEW)),
            "path": dg.MetadataValue.path(stores.lake.place(MASQUE_LIFT, None)),
        }
    )


@dg.asset(
    deps=[AGENT_SESSIONS.name, SESSION_OUTCOMES.name],
    group_name="sessions",
    kinds={"git", "parquet"},
    owners=["team:evaluation"],
    code_version="1",
)
def commit_outcomes(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> dg.MaterializeResult[None]:
    """Ask EVAL_GIT_REPOSITORIES which commits were merged or reverted, and count living lines."""
    report = read_git(stores, datetime.now(UTC))
    for message in report.refused:
        context.log.warning("%s", message)
    return dg.MaterializeResult(
        metadata={
            "commits": report.asked,
            "found": report.found,
            "found by author, time and branch": report.inferred,
            "dates written": len(report.dates),
            "repositories not read": "\n".join(report.refused) or "none",
        }
    )


@dg.asset_check(
    asset=SESSION_PERFORMANCE.name,
    description="On every date of the lake, sessions and scores match and have the same content.",
)
def scores_match_sessions(
    stores: dg.ResourceParam[Stores], duckdb: DuckDBResource
) -> dg.AssetCheckResult:
    """Find dates of which only one table was rebuilt."""
    try:
        lake = stores.lake.snapshot()
        files_of = {table: lake.files(table) for table in (AGENT_SESSIONS, SESSION_PERFORMANCE)}
    except LakeError as error:
        return dg.AssetCheckResult(passed=False, metadata={"found": str(error)})
    if not any(files_of.values()):
        return dg.AssetCheckResult(passed=True, metadata={"found": "no dates yet"})
    with duckdb.get_connection() as connection:
        try:
            connection.execute("set enable_progress_bar = false")
            for table, files in files_of.items():
                _create_view(connection, table, files)
            unmatched = connection.sql(read_sql("unmatched_scores")).pl()
        finally:
            connection.close()  # the resource leaves it open after an error
    return dg.AssetCheckResult(
        passed=unmatched.is_empty(),
        metadata={
            "expected": "a score for every session window and a window for every score",
            "found": f"{unmatched.height:,} without the other",
            "examples": frame_metadata(unmatched.head(10)),
        },
    )


def _create_view(connection: DuckDBPyConnection, table: Table, files: StoredFiles) -> None:
    if files:
        files.store.attach(connection)
        view = connection.read_parquet(files.names, union_by_name=True, hive_partitioning=False)
        view.create_view(table.name)
    else:
        connection.register(table.name, table.no_rows.to_arrow())


lake_checks_job = dg.define_asset_job(
    "check_lake",
    selection=dg.AssetSelection.checks(scores_match_sessions, profiles_are_calibrated),
    description="Checks all dates of the lake, and automatic scores against human ones.",
)

# At a quiet hour: it reads every date of the lake.
nightly_lake_check = dg.ScheduleDefinition(
    name="nightly_lake_check",
    job=lake_checks_job,
    cron_schedule="0 3 * * *",
    tags=LAST,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Checks all dates of the lake, every night at three.",
)
