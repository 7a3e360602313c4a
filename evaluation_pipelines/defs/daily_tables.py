"""The daily tables as assets: made date by date within one run.

They share one step, because a date that fails must not stop the others and must not count as
materialized: separate steps can only succeed or fail with all dates of a run.
"""

from collections.abc import Iterator
from datetime import date, timedelta

import dagster as dg

from evaluation_pipelines.defs.metadata import column_schema, partition_metadata
from evaluation_pipelines.defs.partitions import SESSION_DATES
from evaluation_pipelines.defs.progress import LoggedProgress
from evaluation_pipelines.defs.rule_book import RuleBook, check_specs
from evaluation_pipelines.defs.telemetry.checks import report_checks
from evaluation_pipelines.defs.versions import file_version, version_tags
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.stages.alerts import tell_of_parked_date
from evaluation_pipelines.stages.build import Build, DateFailed
from evaluation_pipelines.stages.daily_tables import Made
from evaluation_pipelines.stages.stores import Stores

CODE_VERSIONS = {
    AGENT_EVENTS.name: "1",
    AGENT_SESSIONS.name: "1",
    SESSION_PERFORMANCE.name: "1",
}
"""Grow one with its SQL or formula: the interface then shows which dates are from before."""

_UPSTREAM = {
    AGENT_EVENTS.name: AGENT_EVENTS_LANDED.name,
    AGENT_SESSIONS.name: AGENT_EVENTS.name,
    SESSION_PERFORMANCE.name: AGENT_SESSIONS.name,
}

_FRESH = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=36), fail_window=timedelta(days=4)
)
"""A working day without any session is worth a look, a long weekend without one is an alarm."""


def _spec(
    table: Table,
    group: str,
    engine: str,
    freshness: dg.FreshnessPolicy | None = None,
) -> dg.AssetSpec:
    return dg.AssetSpec(
        table.name,
        deps=[_UPSTREAM[table.name]],
        description=f"{table.grain.capitalize()}.",
        group_name=group,
        kinds={engine, "parquet"},
        owners=["team:evaluation"],
        code_version=CODE_VERSIONS[table.name],
        metadata={"dagster/column_schema": column_schema(table)},
        freshness_policy=freshness,
        # A date that fails yields no materialization; see the head of this file.
        skippable=True,
    )


def _specs() -> list[dg.AssetSpec]:
    return [
        _spec(AGENT_EVENTS, "telemetry", "duckdb"),
        _spec(AGENT_SESSIONS, "sessions", "duckdb"),
        _spec(SESSION_PERFORMANCE, "sessions", "polars", _FRESH),
    ]


@dg.multi_asset(
    specs=_specs(),
    check_specs=check_specs(),
    can_subset=True,
    partitions_def=SESSION_DATES,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def daily_tables(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> Iterator[dg.AssetCheckResult]:
    """Events, sessions and their performance of the dates of a run, one date after the other."""
    tables = [key.to_user_string() for key in context.selected_asset_keys]
    book = RuleBook()

    def publish(day: date, made: Made) -> None:
        name, path = made.table.name, stores.lake.partition(made.table, day)
        tags = version_tags(
            context.instance, CODE_VERSIONS[name], file_version(path), _UPSTREAM[name], day
        )
        context.log_event(
            dg.AssetMaterialization(
                name,
                partition=day.isoformat(),
                metadata=partition_metadata(made, path),
                tags=tags,
            )
        )
        book.note_made(day, made)

    days = [date.fromisoformat(key) for key in context.partition_keys]
    outcome = Build(stores, tables, publish).run(days, LoggedProgress(context.log))
    failed = [each for each in outcome if isinstance(each, DateFailed)]
    for each in failed:
        book.note_failed(each)
        if each.parked:
            reason = f"{each.table}: {each.error}"
            day, attempts = each.session_date, each.attempts
            tell_of_parked_date(stores.settings, day, attempts, reason, context.log)
    report_checks(context.instance, stores)
    yield from book.check_results(context.op_execution_context.selected_asset_check_keys)
    if failed:
        raise dg.Failure(
            f"{len(failed)} of {len(days)} dates could not be built, the others are published: "
            + "; ".join(f"{each.session_date}: {each.error}" for each in failed),
            metadata={each.session_date.isoformat(): each.error for each in failed},
            allow_retries=False,
        )


daily_tables_job = dg.define_asset_job(
    "build_daily_tables",
    # Not the checks of the whole lake: a build costs the same however long the history is.
    selection=dg.AssetSelection.assets(daily_tables).without_checks()
    | dg.AssetSelection.checks(*(each.key for each in check_specs())),
    description="Makes the daily tables of a range of dates; started by the sensor.",
)
