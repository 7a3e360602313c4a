"""Fresh sessions are judged at once; everything else that is due waits for the night."""

import hashlib
import json
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from evaluation_pipelines.defs.automation import NIGHTLY_EVALUATION
from evaluation_pipelines.defs.judging.assets import judge_due_job, judge_scores
from evaluation_pipelines.defs.partitions import is_partition
from evaluation_pipelines.defs.runs import CANCELED, canceled_lately, failed_lately, is_under_way
from evaluation_pipelines.judging.find_due import DueSessions, find_due_in_lake
from evaluation_pipelines.storage.stores import Stores

_FRESH_DAYS = 2
"""Older sessions wait for the night: a look at every date costs more the longer the history is."""

_SECONDS_AFTER_FAILURE = 600
_ASK_AGAIN_AFTER = timedelta(hours=1)
"""The same sessions are not asked for again before: what kept them from being judged (a limit of
the day, say) most likely still does."""


@dg.sensor(
    job=judge_due_job,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts a judge run of a few sessions when some have ended and are not scored.",
)
def fresh_sessions_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SensorResult | dg.SkipReason | None:
    """At most one judge run at a time; the cursor remembers which sessions were asked for last."""
    if (why_not := stores.settings.why_no_judge) is not None:
        return dg.SkipReason(why_not)
    # A run of ours would wait for the night's, in a place that telemetry needs.
    if any(is_under_way(context.instance, job) for job in (judge_due_job.name, NIGHTLY_EVALUATION)):
        return None
    if failed_lately(context.instance, judge_due_job.name, _SECONDS_AFTER_FAILURE):
        return dg.SkipReason("the last judge run failed less than ten minutes ago")
    if canceled_lately(context.instance, judge_due_job.name):
        return dg.SkipReason(CANCELED)
    now = datetime.now(UTC)
    # One unknown key would spoil a whole tick.
    found = find_due_in_lake(stores, now, now.date() - timedelta(days=_FRESH_DAYS), is_partition)
    if not found.days:
        return None
    waiting = _fingerprint(found)
    asked = json.loads(context.cursor or "{}")
    if asked.get("waiting") == waiting and _is_recent(asked["asked_at"], now):
        many = f"{len(found.candidates)} sessions wait that the last run did not judge"
        return dg.SkipReason(f"{many}: see its report; they are asked for again within the hour")
    cursor = json.dumps({"waiting": waiting, "asked_at": now.isoformat()})
    limit = {"max_sessions": stores.settings.judge_fresh_sessions}
    return dg.SensorResult([_request(found.days, limit)], cursor=cursor)


def _fingerprint(found: DueSessions) -> str:
    wanted = [
        f"{each.window.organization_id} {each.window.session_key} {each.window.content_hash}"
        for each in found.candidates
    ]
    return hashlib.sha256("\n".join(sorted(wanted)).encode()).hexdigest()


def _is_recent(time: str, now: datetime) -> bool:
    return now - datetime.fromisoformat(time) < _ASK_AGAIN_AFTER


def _request(days: Collection[date], limits: dict[str, int]) -> dg.RunRequest:
    config = {"config": {"triggered_by": "sensor", **limits}}
    return dg.RunRequest(
        run_config={"ops": {judge_scores.op.name: config}},
        tags={
            ASSET_PARTITION_RANGE_START_TAG: min(days).isoformat(),
            ASSET_PARTITION_RANGE_END_TAG: max(days).isoformat(),
        },
    )
