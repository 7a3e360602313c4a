"""The daily tables as assets: all dates of a range are made within one run.

They share one step, because a date that fails must not stop the others and must not count as
materialized: separate steps can only succeed or fail with all dates of a run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

import dagster as dg

from evaluation_pipelines.alerts.domain.messages import of_parked_date
from evaluation_pipelines.alerts.send import alert
from evaluation_pipelines.build.build import Build, DateFailed
from evaluation_pipelines.build.daily_tables import OF_TELEMETRY
from evaluation_pipelines.defs.check_results import CheckResults, check_specs
from evaluation_pipelines.defs.event_storage import log_events
from evaluation_pipelines.defs.freshness import WITH_TELEMETRY
from evaluation_pipelines.defs.logged_outputs import reported_outputs
from evaluation_pipelines.defs.metadata import column_schema, partition_metadata
from evaluation_pipelines.defs.partitions import SESSION_DATES
from evaluation_pipelines.defs.progress import LoggedProgress
from evaluation_pipelines.defs.runs import is_of_the_night
from evaluation_pipelines.defs.scorecards.events import Observations, counted
from evaluation_pipelines.defs.telemetry.checks import report_checks
from evaluation_pipelines.defs.versions import LastReports, file_version, version_tags
from evaluation_pipelines.schemas import SESSION_EVALUATIONS, SESSION_PERFORMANCE
from evaluation_pipelines.storage.daily_table import BuiltPartition, DailyTable
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores


def asset_spec(daily: DailyTable) -> dg.AssetSpec:
    """What the interface knows of a daily table."""
    table = daily.table
    return dg.AssetSpec(
        table.name,
        deps=daily.upstream,
        description=f"{table.grain.capitalize()}.",
        group_name=daily.group,
        kinds={daily.engine, "parquet"},
        owners=["team:evaluation"],
        code_version=daily.code_version,
        metadata={"dagster/column_schema": column_schema(table)},
        freshness_policy=WITH_TELEMETRY if table is SESSION_PERFORMANCE else None,
        # A date that fails yields no materialization; see the head of this file.
        skippable=True,
    )


def materialization(
    stores: Stores,
    daily: DailyTable,
    day: date,
    made: BuiltPartition,
    more: Mapping[str, dg.MetadataValue],
    reports: LastReports,
) -> dg.AssetMaterialization:
    """What the interface is told of a partition that was made; it must be logged."""
    path = stores.lake.place(made.table, day)
    version = file_version(stores.lake.files(made.table, day))
    tags = version_tags(reports, daily.code_version, version, daily.upstream, day)
    reports.reported(daily.table.name, day, version)
    return dg.AssetMaterialization(
        daily.table.name,
        partition=day.isoformat(),
        metadata={**partition_metadata(made, daily.preview, path), **more},
        tags=tags,
    )


_DAILY = {each.table.name: each for each in OF_TELEMETRY}


@dg.multi_asset(
    specs=[asset_spec(each) for each in OF_TELEMETRY],
    check_specs=check_specs(OF_TELEMETRY),
    can_subset=True,
    partitions_def=SESSION_DATES,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def daily_tables(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> Iterator[dg.AssetCheckResult | dg.Output[None]]:
    """Events, sessions and their performance of the dates of a run, some dates at a time.

    The night builds those dates of which its judge has new scores, and all their tables: what is
    half built would stay due.
    """
    selected = [key.to_user_string() for key in context.selected_asset_keys]
    days = [date.fromisoformat(key) for key in context.partition_keys]
    is_night = is_of_the_night(context.run)
    if is_night:
        held = {each.session_date for each in RebuildQueue(stores.ledger).held(datetime.now(UTC))}
        days = sorted(held.intersection(days))
    book, reports = CheckResults(), LastReports(context.instance, days)
    announced = Observations(SESSION_EVALUATIONS.name)

    def publish(published: Mapping[date, BuiltPartition]) -> None:
        log_events(context, _events(stores, published, announced, reports))
        for day, made in published.items():
            if without := made.facts.get("no_profile"):
                context.log.info("%s: %d sessions that no profile matches", day, without)
            book.note_made(day, made)

    tables = _DAILY if is_night else selected
    outcome = Build(stores, tables, publish).run(days, LoggedProgress(context.log))
    failed = [each for each in outcome if isinstance(each, DateFailed)]
    for each in failed:
        for noted in [each] if each.table in selected else _passed_on(each, selected):
            book.note_failed(noted)
        if each.parked:
            reason = f"{each.table}: {each.error}"
            parked = of_parked_date(each.session_date, each.attempts, reason)
            alert(stores, parked, datetime.now(UTC), context.log)
    report_checks(context.instance, stores)
    yield from book.check_results(context.op_execution_context.selected_asset_check_keys)
    if failed and not is_night:
        raise dg.Failure(
            _told(failed, len(days)),
            metadata={each.session_date.isoformat(): each.error for each in failed},
            allow_retries=False,
        )
    if failed:  # they are tried again by themselves
        context.log.error("%s", _told(failed, len(days)))
    yield from reported_outputs(context, _DAILY)


def _events(
    stores: Stores,
    published: Mapping[date, BuiltPartition],
    announced: Observations,
    reports: LastReports,
) -> Iterator[dg.AssetObservation | dg.AssetMaterialization]:
    for day, made in published.items():
        # Before the materialization: the page of a partition puts what was observed later on top.
        yield from announced.of(made.news)
        daily = _DAILY[made.table.name]
        yield materialization(stores, daily, day, made, counted(made.news), reports)


def _passed_on(failed: DateFailed, selected: Sequence[str]) -> list[DateFailed]:
    """A failure at a table that the run was not asked for is one of those it was."""
    why = f"{failed.table}: {failed.error}"
    return [replace(failed, table=each, error=why, broken=None) for each in selected]


def _told(failed: Sequence[DateFailed], dates: int) -> str:
    return f"{len(failed)} of {dates} dates could not be built, the others are published: " + (
        "; ".join(f"{each.session_date}: {each.error}" for each in failed)
    )


daily_tables_job = dg.define_asset_job(
    "build_daily_tables",
    # Not the checks of the whole lake: a build costs the same however long the history is.
    selection=dg.AssetSelection.assets(daily_tables).without_checks()
    | dg.AssetSelection.checks(*(each.key for each in check_specs(OF_TELEMETRY))),
    description="Makes the daily tables of a range of dates; started by the sensor.",
)
