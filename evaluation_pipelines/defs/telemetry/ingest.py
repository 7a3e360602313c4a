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
from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.stages.ingest import Ingest
from evaluation_pipelines.stages.stores import Stores

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
    report = Ingest(stores).run(LoggedProgress(context.log))
    for passed in report.passed_over:
        context.log.warning("not read: %s: %s", passed.path, passed.reason)
    for path in report.busy:
        context.log.warning("another ingest is reading %s", path)
    for day in sorted(report.dates):
        if is_partition(day):
            _report(context, stores, day)
        else:
            context.log.warning("%s is not a partition (yet): kept, not built", day)
    report_checks(context.instance, stores)
    context.add_output_metadata({"files": report.files, **asdict(report.counts)})


def _report(context: dg.OpExecutionContext, stores: Stores, day: date) -> None:
    """Tell the instance that a date got new events."""
    parts = stores.ledger.parts.current(AGENT_EVENTS_LANDED.name, day)
    rows = sum(each.row_count for each in parts)
    key, partition = agent_events_landed.key, day.isoformat()
    version = {DATA_VERSION_TAG: landed_version(rows)}
    # Of an external asset, only an observation says that there is a new version.
    context.log_event(dg.AssetObservation(key, partition=partition, tags=version))
    context.log_event(
        dg.AssetMaterialization(
            key,
            partition=partition,
            metadata={"dagster/partition_row_count": rows, "parts": len(parts)},
            tags=version,
        )
    )


@dg.job(description="Reads everything new in the landing folder; started by its sensor.")
def ingest_landing() -> None:
    """One run at a time: a second one waits in its pool."""
    read_landing_folder()
