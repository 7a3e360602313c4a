"""The night: one run that judges what is due and brings everything up to date after it.

Its dates are a range: what is made date by date looks at all of them, what is made of the whole
lake is made once, after them, and Dagster orders them by lineage. A run of assets is chosen over
ops, so that every table shows what the night made of it, with its checks.
"""

from datetime import UTC, datetime

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from evaluation_pipelines.build.night import night_dates
from evaluation_pipelines.defs.automation import NIGHT_RUN, NIGHTLY_EVALUATION
from evaluation_pipelines.defs.judging.assets import judge_scores
from evaluation_pipelines.defs.partitions import is_partition
from evaluation_pipelines.defs.runs import is_under_way, last_date_done
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
    "model_comparison",
    "model_comparison_pairs",
    "model_regressions",
    "model_comparison_report",
    "evaluation_books",
    "analytics_database",
)
"""What a night makes."""

_SETTINGS = load_settings()

nightly_evaluation_job = dg.define_asset_job(
    NIGHTLY_EVALUATION,
    selection=dg.AssetSelection.assets(*ASSETS),
    tags=NIGHT_RUN,
    description="The night, end to end: judges what is due of a range of dates, then makes "
    "scorecards, reputation, comparison with its report, closed books and the analysts' database. "
    "A judge that does not answer and dates that fail are told; the rest goes on without them.",
)


@dg.schedule(
    name=NIGHTLY_EVALUATION,
    job=nightly_evaluation_job,
    cron_schedule=f"0 {_SETTINGS.nightly_hour} * * *",
    execution_timezone=_SETTINGS.nightly_time_zone,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Starts the night, at EVAL_NIGHTLY_HOUR. After missed nights one run catches up: "
    "it goes back to the last night that succeeded and to the oldest session that is due.",
)
def nightly_evaluation(
    context: dg.ScheduleEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | dg.SkipReason:
    """One run over the dates since the last night, and over those with something to judge."""
    if is_under_way(context.instance, NIGHTLY_EVALUATION):
        return dg.SkipReason("the night before is still at work: it does what this one would")
    # A tick may come late; what has ended by then is judged along.
    now = max(context.scheduled_execution_time, datetime.now(UTC))
    last_done = last_date_done(context.instance, NIGHTLY_EVALUATION)
    days = night_dates(stores, now, last_done, is_partition)
    if days is None:
        return dg.SkipReason("there are no sessions yet")
    return dg.RunRequest(
        run_config={"ops": {judge_scores.op.name: {"config": {"triggered_by": "schedule"}}}},
        tags={
            ASSET_PARTITION_RANGE_START_TAG: days[0].isoformat(),
            ASSET_PARTITION_RANGE_END_TAG: days[1].isoformat(),
        },
    )
