"""Ingest in Dagster: its asset, and the checks of what was read."""

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from evaluation_pipelines.defs.automation import (
    DATA_VERSION_TAG,
    SESSION_DATES,
    is_partition,
    landed_version,
)
from evaluation_pipelines.defs.metadata import column_schema
from evaluation_pipelines.defs.runs import LoggedProgress
from evaluation_pipelines.formatting import markdown_table
from evaluation_pipelines.outcomes.table import write_late
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.landing import summarize_skipped
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.prices import read_own_prices
from evaluation_pipelines.telemetry.unread_files import ingest_lags

_WINDOW = timedelta(days=1)


@dg.asset_check(
    asset=AGENT_EVENTS_LANDED.name, description="Few lines of the last day were unreadable."
)
def quarantine_share_is_low(stores: dg.ResourceParam[Stores]) -> dg.AssetCheckResult:
    """Fail if the share of quarantined lines is above EVAL_QUARANTINE_MAX_SHARE."""
    return _quarantine_share(stores)


@dg.asset_check(asset=AGENT_EVENTS_LANDED.name, description="No date is parked.")
def no_date_is_parked(stores: dg.ResourceParam[Stores]) -> dg.AssetCheckResult:
    """Fail if a date failed so often that it is not retried automatically."""
    return _parked_dates(stores)


def report_checks(instance: dg.DagsterInstance, stores: Stores) -> None:
    """Run the checks now, since no run materializes landed events and checks them afterwards."""
    for check, result in (
        (quarantine_share_is_low, _quarantine_share(stores)),
        (no_date_is_parked, _parked_dates(stores)),
    ):
        key = check.check_key
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=result.passed,
                metadata=result.metadata,
            )
        )


def _quarantine_share(stores: Stores) -> dg.AssetCheckResult:
    totals = IngestBatches(stores.ledger).totals(since=datetime.now(UTC) - _WINDOW)
    share = totals.quarantined / totals.lines if totals.lines else 0.0
    limit = stores.settings.quarantine_max_share
    return dg.AssetCheckResult(
        passed=share <= limit,
        metadata={
            "expected": f"at most {limit:.2%} of the lines read in the last 24 hours",
            "found": f"{share:.2%}: {totals.quarantined:,} of {totals.lines:,}",
            "where": stores.lake.where("quarantine"),
        },
    )


def _parked_dates(stores: Stores) -> dg.AssetCheckResult:
    parked = [row for row in RebuildQueue(stores.ledger).all() if row.parked and not row.is_built]
    return dg.AssetCheckResult(
        passed=not parked,
        metadata={
            "expected": "no parked date",
            "found": f"{len(parked)} parked dates",
            **{
                queued_date.session_date.isoformat(): queued_date.last_error or ""
                for queued_date in parked
            },
        },
    )


_FILES_SHOWN = 20
"""Files with the most unread bytes in the metadata of a run; ``status`` shows all files."""

agent_events_landed = dg.AssetSpec(
    AGENT_EVENTS_LANDED.name,
    description=f"{AGENT_EVENTS_LANDED.sentence} Reported by ingest.",
    group_name="telemetry",
    kinds={"parquet", "opentelemetry"},
    owners=["team:evaluation"],
    partitions_def=SESSION_DATES,
    metadata={"dagster/column_schema": column_schema(AGENT_EVENTS_LANDED)},
)


@dg.op(pool="ingest")
def read_landing_folder(context: dg.OpExecutionContext, stores: dg.ResourceParam[Stores]) -> None:
    """Read the new lines of the landing folder, every byte once.

    New rows of ClickHouse are written there first; if that fails, so does the step at its end. It
    fails, too, if another process holds the lock for too long: then nothing was read.
    """
    for fault in read_own_prices(stores.settings.prices_path).faults:
        context.log.warning(fault)
    report = IngestReport()
    try:
        Ingest(stores, with_otel_logs=True).run(LoggedProgress(context.log), report)
    finally:  # dates committed before an error are reported, too
        _report_dates(context, stores, report)
    write_late(stores)
    if report.busy is not None:
        raise dg.Failure(f"nothing was read: {report.busy}")
    if report.otel_logs is not None and report.otel_logs.rows:
        context.log.info("otel_logs: %s", report.otel_logs)
    for names, reason in summarize_skipped(report.skipped):
        context.log.warning("not read: %s: %s", names, reason)
    report_checks(context.instance, stores)
    context.add_output_metadata(_metadata(stores, report))
    if report.otel_logs is not None and (why_not := report.otel_logs.why_not) is not None:
        raise dg.Failure(f"the landing folder was read, but not all of ClickHouse: {why_not}")


def _metadata(stores: Stores, report: IngestReport) -> dict[str, dg.MetadataValue | int]:
    """Return what was read, and how much of each file is unread."""
    lags = sorted(ingest_lags(stores)[0], key=lambda lag: -(lag.unread_bytes or 0))
    rows = [
        (
            lag.path,
            None if lag.unread_bytes is None else f"{lag.unread_bytes:,}",
            lag.newest_event and f"{lag.newest_event:%F %T}",
        )
        for lag in lags[:_FILES_SHOWN]
    ]
    table = markdown_table(("file", "unread bytes", "last event (UTC)"), rows)
    return {
        "files": report.files,
        **asdict(report.counts),
        "duplicates": dg.MetadataValue.text("counted by agent_events, when a date is built"),
        "dates_touched": dg.MetadataValue.text(", ".join(map(str, sorted(report.dates)))),
        "unread_bytes": sum(lag.unread_bytes or 0 for lag in lags),
        "lag": dg.MetadataValue.md(table),
    }


def _report_dates(context: dg.OpExecutionContext, stores: Stores, report: IngestReport) -> None:
    for day in sorted(report.dates):
        if is_partition(day):
            for event in landed_events(stores, day):
                context.log_event(event)
        else:
            context.log.warning("%s is not a partition (yet): kept, not built", day)


def landed_events(stores: Stores, day: date) -> tuple[dg.AssetObservation, dg.AssetMaterialization]:
    """Return the Dagster events that report new events of a date."""
    parts = Manifest(stores.ledger).current(AGENT_EVENTS_LANDED.name, day)
    rows = sum(part.row_count for part in parts)
    key, partition = agent_events_landed.key, day.isoformat()
    version = {DATA_VERSION_TAG: landed_version(rows)}
    # Dagster reads the version of an external asset from observations only.
    observed = dg.AssetObservation(key, partition=partition, tags=version)
    materialized = dg.AssetMaterialization(
        key,
        partition=partition,
        metadata={"dagster/partition_row_count": rows, "parts": len(parts)},
        tags=version,
    )
    return observed, materialized


@dg.job(description="Reads the new lines of the landing folder. Started by a sensor.")
def ingest_landing() -> None:
    """Ingest in one step; a second run waits in the pool."""
    read_landing_folder()
