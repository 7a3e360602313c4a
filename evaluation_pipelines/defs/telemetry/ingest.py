"""Ingest as a job: what has landed becomes parts of ``agent_events_landed``.

The table is an external asset: a backfill cannot ask for telemetry that nobody sent. Ingest
reports one materialization for each date that got new events.
"""

from dataclasses import asdict
from datetime import date

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from evaluation_pipelines.defs.metadata import column_schema
from evaluation_pipelines.defs.partitions import SESSION_DATES, is_partition
from evaluation_pipelines.defs.progress import LoggedProgress
from evaluation_pipelines.defs.telemetry.checks import report_checks
from evaluation_pipelines.defs.versions import landed_version
from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines.telemetry.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.unread_files import ingest_lags

_FILES_SHOWN = 20
"""In the metadata of a run: those with the most unread bytes; `status` shows all."""

agent_events_landed = dg.AssetSpec(
    AGENT_EVENTS_LANDED.name,
    description=f"{AGENT_EVENTS_LANDED.grain.capitalize()}. Reported by ingest.",
    group_name="telemetry",
    kinds={"parquet", "opentelemetry"},
    owners=["team:evaluation"],
    partitions_def=SESSION_DATES,
    metadata={"dagster/column_schema": column_schema(AGENT_EVENTS_LANDED)},
)


@dg.op(pool="ingest")
def read_landing_folder(context: dg.OpExecutionContext, stores: dg.ResourceParam[Stores]) -> None:
    """Read everything new in the landing folder, every byte once."""
    report = IngestReport()
    try:
        Ingest(stores).run(LoggedProgress(context.log), report)
    finally:  # what was committed before an error is there, and is told
        _report_dates(context, stores, report)
    for passed in report.passed_over:
        context.log.warning("not read: %s: %s", passed.path, passed.reason)
    for path in report.busy:
        context.log.warning("another ingest is reading %s", path)
    report_checks(context.instance, stores)
    context.add_output_metadata(_metadata(stores, report))


def _metadata(stores: Stores, report: IngestReport) -> dict[str, dg.MetadataValue | int]:
    """What was read, in numbers, and what is still to be read of each file."""
    lags = sorted(ingest_lags(stores)[0], key=lambda each: -(each.unread_bytes or 0))
    rows = [
        (each.path, each.unread_bytes, each.newest_event and f"{each.newest_event:%F %T}")
        for each in lags[:_FILES_SHOWN]
    ]
    table = markdown_table(("file", "unread bytes", "newest event (UTC)"), rows)
    return {
        "files": report.files,
        **asdict(report.counts),
        "duplicates": dg.MetadataValue.text("counted by agent_events, when a date is built"),
        "dates_touched": dg.MetadataValue.text(", ".join(map(str, sorted(report.dates)))),
        "unread_bytes": sum(each.unread_bytes or 0 for each in lags),
        "lag": dg.MetadataValue.md(table),
    }


def _report_dates(context: dg.OpExecutionContext, stores: Stores, report: IngestReport) -> None:
    for day in sorted(report.dates):
        if is_partition(day):
            for event in landed_reports(stores, day):
                context.log_event(event)
        else:
            context.log.warning("%s is not a partition (yet): kept, not built", day)


def landed_reports(
    stores: Stores, day: date
) -> tuple[dg.AssetObservation, dg.AssetMaterialization]:
    """What tells the instance that a date got new events."""
    parts = Manifest(stores.ledger).current(AGENT_EVENTS_LANDED.name, day)
    rows = sum(each.row_count for each in parts)
    key, partition = agent_events_landed.key, day.isoformat()
    version = {DATA_VERSION_TAG: landed_version(rows)}
    # Of an external asset, only an observation says that there is a new version.
    observed = dg.AssetObservation(key, partition=partition, tags=version)
    materialized = dg.AssetMaterialization(
        key,
        partition=partition,
        metadata={"dagster/partition_row_count": rows, "parts": len(parts)},
        tags=version,
    )
    return observed, materialized


@dg.job(description="Reads everything new in the landing folder; started by its sensor.")
def ingest_landing() -> None:
    """One run at a time: a second one waits in its pool."""
    read_landing_folder()
