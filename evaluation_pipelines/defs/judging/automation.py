"""When sessions are judged by themselves: fresh ones at once, everything that is due at night."""

import hashlib
import json
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from evaluation_pipelines.defs.judging.assets import judge_due_job, judge_scores
from evaluation_pipelines.defs.partitions import is_partition
from evaluation_pipelines.defs.runs import CANCELED, canceled_lately, failed_lately, is_under_way
from evaluation_pipelines.domain.judging.due import NIGHTLY
from evaluation_pipelines.domain.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.stages.judging.plans import load_plans
from evaluation_pipelines.stages.judging.publishing import unpublished_dates
from evaluation_pipelines.stages.judging.survey import Survey, survey
from evaluation_pipelines.stages.stores import Stores

_FRESH_DAYS = 2
"""Older sessions wait for the night: a look at every date costs more the longer the history is."""

_SECONDS_AFTER_FAILURE = 600
_ASK_AGAIN_AFTER = timedelta(hours=1)
"""The same sessions are not asked for again before: what kept them from being judged (a limit of
the day, say) most likely still does."""

_SETTINGS = load_settings()


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
    if is_under_way(context.instance, judge_due_job.name):
        return None
    if failed_lately(context.instance, judge_due_job.name, _SECONDS_AFTER_FAILURE):
        return dg.SkipReason("the last judge run failed less than ten minutes ago")
    if canceled_lately(context.instance, judge_due_job.name):
        return dg.SkipReason(CANCELED)
    now = datetime.now(UTC)
    found = _survey(stores, now, since=now.date() - timedelta(days=_FRESH_DAYS))
    days = _days(found)
    if not days:
        return None
    waiting = _fingerprint(found)
    asked = json.loads(context.cursor or "{}")
    if asked.get("waiting") == waiting and _is_recent(asked["asked_at"], now):
        many = f"{len(found.candidates)} sessions wait that the last run did not judge"
        return dg.SkipReason(f"{many}: see its report; they are asked for again within the hour")
    cursor = json.dumps({"waiting": waiting, "asked_at": now.isoformat()})
    limit = {"max_sessions": stores.settings.judge_fresh_sessions}
    return dg.SensorResult([_request(days, "sensor", limit)], cursor=cursor)


@dg.schedule(
    job=judge_due_job,
    cron_schedule=f"0 {_SETTINGS.judge_nightly_hour} * * *",
    execution_timezone=_SETTINGS.judge_time_zone,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Judges all that is due, every night. After missed nights one run catches up.",
)
def nightly_judging(
    _context: dg.ScheduleEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | dg.SkipReason:
    """One run over the dates on which something is due."""
    if (why_not := stores.settings.why_no_judge) is not None:
        return dg.SkipReason(why_not)
    found = _survey(stores, datetime.now(UTC), since=None)
    # With what a run that was killed had judged and not written into the lake.
    days = _days(found) | set(filter(is_partition, unpublished_dates(stores)))
    if not days:
        stood = ", ".join(f"{number} {state}" for state, number in sorted(found.states.items()))
        return dg.SkipReason(f"nothing is due ({stood or 'there are no sessions'})")
    return _request(days, "schedule", {})


def _survey(stores: Stores, now: datetime, since: date | None) -> Survey:
    """What is due of all dates, or of those since a day and of those with unfinished scorings."""
    days = set(stores.lake.partitions(AGENT_SESSIONS))
    if since is not None:
        unfinished = {each.session_date for each in stores.ledger.scores.open_scores()}
        days = {each for each in days if each >= since} | unfinished
    plans = load_plans(stores, now)
    # One unknown key would spoil a whole tick.
    return survey(stores, plans, sorted(filter(is_partition, days)), now, NIGHTLY)


def _days(found: Survey) -> set[date]:
    """The dates on which a run has something to do."""
    due = {each.window.session_date for each in found.candidates}
    return due | {score.session_date for score, _ in found.lost}


def _fingerprint(found: Survey) -> str:
    wanted = [
        f"{each.window.organization_id} {each.window.session_key} {each.window.content_hash}"
        for each in found.candidates
    ]
    return hashlib.sha256("\n".join(sorted(wanted)).encode()).hexdigest()


def _is_recent(time: str, now: datetime) -> bool:
    return now - datetime.fromisoformat(time) < _ASK_AGAIN_AFTER


def _request(days: Collection[date], by: str, limits: dict[str, int]) -> dg.RunRequest:
    config = {"config": {"triggered_by": by, **limits}}
    return dg.RunRequest(
        run_config={"ops": {judge_scores.op.name: config}},
        tags={
            ASSET_PARTITION_RANGE_START_TAG: min(days).isoformat(),
            ASSET_PARTITION_RANGE_END_TAG: max(days).isoformat(),
        },
    )
