"""The night: due sessions are judged, everything built from them is updated, old data expires.

It is one run over a range of dates. Assets with partitions process all dates of the range, assets
of the whole lake are built once after them, and Dagster orders the steps by lineage. It is a run
of assets rather than of ops, so that every table shows its materializations and checks.
"""

from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.build.build import night_dates
from evaluation_pipelines.defs.automation import (
    LAST,
    NIGHT_RUN,
    NIGHTLY_EVALUATION,
    is_partition,
    range_tags,
)
from evaluation_pipelines.defs.judging import judge_scores
from evaluation_pipelines.defs.runs import is_unfinished, last_date_done
from evaluation_pipelines.erasure.expire import Expire, Expiry
from evaluation_pipelines.formatting import markdown_table
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores

ASSETS = (
    "judge_scores",
    "scorecards",
    "session_evaluations",
    "reputation_events",
    "reputation_scores",
    "agent_scores",
    "masque_lift",
    "missing_tools",
    "outcome_predictions",
    "judge_changes",
    "judge_anchors",
    "model_comparison",
    "model_comparison_pairs",
    "model_regressions",
    "model_comparison_report",
    "evaluation_books",
    "commit_outcomes",
    "analytics_database",
)
"""Assets of the nightly run."""

_SETTINGS = load_settings()

nightly_evaluation_job = dg.define_asset_job(
    NIGHTLY_EVALUATION,
    selection=dg.AssetSelection.assets(*ASSETS),
    tags=NIGHT_RUN,
    description="Judges what is due in a range of dates, then builds scorecards, reputation, the "
    "comparison with its report, closed books and the analysts' database. A judge that does not "
    "answer and dates that fail are reported. The other steps go on.",
)


@dg.schedule(
    name=NIGHTLY_EVALUATION,
    job=nightly_evaluation_job,
    cron_schedule=f"0 {_SETTINGS.nightly_hour} * * *",
    execution_timezone=_SETTINGS.nightly_time_zone,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Starts the nightly run at EVAL_NIGHTLY_HOUR. After missed nights one run catches "
    "up: it goes back to the last nightly run that succeeded and to the oldest session that is "
    "due.",
)
def nightly_evaluation(
    context: dg.ScheduleEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | dg.SkipReason:
    """Request one run over the dates since the last nightly run and those with due sessions."""
    if is_unfinished(context.instance, NIGHTLY_EVALUATION):
        return dg.SkipReason("the last nightly run is still running: it does the same work")
    # A tick may be late: sessions that have ended by now are judged, too.
    now = max(context.scheduled_execution_time, datetime.now(UTC))
    last_done = last_date_done(context.instance, NIGHTLY_EVALUATION)
    days = night_dates(stores, now, last_done, is_partition)
    if days is None:
        return dg.SkipReason("there are no sessions yet")
    return dg.RunRequest(
        run_config={"ops": {judge_scores.op.name: {"config": {"triggered_by": "schedule"}}}},
        tags=range_tags(*days) | LAST,
    )


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
    for message in result.busy:
        context.log.warning("not yet: %s", message)
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
