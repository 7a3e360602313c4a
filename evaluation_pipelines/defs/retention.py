"""Nightly expiry: what is older than it is to be kept is deleted."""

from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import LAST
from evaluation_pipelines.erasure.expire import Expire, Expiry
from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.storage.stores import Stores


@dg.asset(
    group_name="telemetry",
    kinds={"parquet"},
    owners=["team:evaluation"],
    code_version="1",
)
def retention(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> dg.MaterializeResult[None]:
    """What has expired by the EVAL_KEEP_ settings is deleted; nothing unless they are set."""
    result = Expire(stores, clock=lambda: datetime.now(UTC)).run()
    for each in result.busy:
        context.log.warning("not yet: %s", each)
    return dg.MaterializeResult(metadata=_metadata(result))


def _metadata(result: Expiry) -> dict[str, int | str | dg.MetadataValue]:
    """Return what was taken out, the bytes that it had, and the oldest that is left."""
    dates = [
        (kind, len(days), f"{min(days)}", f"{max(days)}") for kind, days in result.dates.items()
    ]
    columns = ("what", "dates", "from", "to")
    return {
        "taken out": dg.MetadataValue.md(markdown_table(columns, dates)),
        "rows taken out": sum(result.rows.values()),
        "landing files deleted": len(result.files),
        "bytes freed": result.freed_bytes,
        **{f"oldest {kind}": f"{day}" for kind, day in result.oldest.items()},
        "left for the next night": len(result.busy),
    }


retention_job = dg.define_asset_job(
    "expire",
    selection=dg.AssetSelection.assets(retention),
    description="Deletes what is older than it is to be kept.",
)

# After the night has judged what is due, and books and databases are made.
nightly_retention = dg.ScheduleDefinition(
    name="nightly_retention",
    job=retention_job,
    cron_schedule="30 4 * * *",
    tags=LAST,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Deletes what has expired, every night at half past four.",
)
