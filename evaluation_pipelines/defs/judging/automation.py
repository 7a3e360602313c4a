"""Sensor that judges fresh sessions; other sessions that are due wait for the nightly run."""

import hashlib
import json
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from evaluation_pipelines.defs.automation import LAST, NIGHTLY_EVALUATION, is_partition, range_tags
from evaluation_pipelines.defs.judging.assets import judge_due_job, judge_scores
from evaluation_pipelines.defs.judging.request import judge_session_now, score_session
from evaluation_pipelines.defs.runs import (
    CANCELED,
    canceled_recently,
    failed_recently,
    is_unfinished,
)
from evaluation_pipelines.judging.find_due import Candidate, DueSessions, find_due_in_lake
from evaluation_pipelines.storage.stores import Stores

_FRESH_DAYS = 2
"""Older sessions wait for the nightly run, since the cost of checking all dates grows."""

_SECONDS_AFTER_FAILURE = 600
_RETRY_AFTER = timedelta(hours=1)
"""The same sessions are not requested again before: the reason why they were not judged, such as a
daily limit, most likely still applies."""


@dg.sensor(
    jobs=[judge_due_job, judge_session_now],
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts a judge run of a few sessions when some have ended without a score.",
)
def fresh_sessions_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SensorResult | dg.SkipReason:
    """Request one judge run at a time; the cursor has the sessions that were requested last.

    In batch mode sessions wait for the nightly run, and only requests of people are judged.
    """
    if (why_not := stores.settings.why_no_judge) is not None:
        return dg.SkipReason(why_not)
    # It would wait for the nightly run, and occupy a run slot that telemetry needs.
    if any(
        is_unfinished(context.instance, job) for job in (judge_due_job.name, NIGHTLY_EVALUATION)
    ):
        return dg.SkipReason("a judge run has not ended")
    if failed_recently(context.instance, judge_due_job.name, _SECONDS_AFTER_FAILURE):
        return dg.SkipReason("the last judge run failed less than ten minutes ago")
    if canceled_recently(context.instance, judge_due_job.name):
        return dg.SkipReason(CANCELED)
    now = datetime.now(UTC)
    # A request for an unknown partition fails the whole tick.
    found = find_due_in_lake(stores, now, now.date() - timedelta(days=_FRESH_DAYS), is_partition)
    if stores.settings.judge_mode == "batch":
        asked = [_request_now(each) for each in found.candidates if each.is_request]
        nothing = dg.SkipReason("no person has asked for a score; the others wait for the night")
        return dg.SensorResult(asked, skip_reason=None if asked else nothing)
    why_off = stores.settings.why_no_automatic_judging
    found = found if why_off is None else found.requested()
    if not found.days:
        none_due = f"no session of the last {_FRESH_DAYS} days waits for the judge"
        return dg.SkipReason(why_off or none_due)
    fingerprint = _fingerprint(found)
    last = json.loads(context.cursor or "{}")
    if last.get("waiting") == fingerprint and _is_recent(last["asked_at"], now):
        number = f"{len(found.candidates)} sessions wait that the last run did not judge"
        return dg.SkipReason(f"{number}: see its report; they are requested again within the hour")
    cursor = json.dumps({"waiting": fingerprint, "asked_at": now.isoformat()})
    limit = {"max_sessions": stores.settings.judge_fresh_sessions}
    return dg.SensorResult([_request(found.days, limit)], cursor=cursor)


def _request_now(candidate: Candidate) -> dg.RunRequest:
    """Return the request to judge a session that a person has asked for."""
    score, window = candidate.unfinished, candidate.window
    by = None if score is None else score.score_triggered_by
    session = {"session": window.session_key, "organization": window.organization_id, "by": by}
    return dg.RunRequest(
        run_key=None if score is None else score.score_id,
        job_name=judge_session_now.name,
        run_config={"ops": {score_session.name: {"config": session}}},
    )


def _fingerprint(found: DueSessions) -> str:
    contents = [
        f"{each.window.organization_id} {each.window.session_key} {each.window.content_hash}"
        for each in found.candidates
    ]
    return hashlib.sha256("\n".join(sorted(contents)).encode()).hexdigest()


def _is_recent(time: str, now: datetime) -> bool:
    return now - datetime.fromisoformat(time) < _RETRY_AFTER


def _request(days: Collection[date], limits: dict[str, int]) -> dg.RunRequest:
    config = {"config": {"triggered_by": "sensor", **limits}}
    return dg.RunRequest(
        job_name=judge_due_job.name,
        run_config={"ops": {judge_scores.op.name: config}},
        tags=range_tags(min(days), max(days)) | LAST,
    )
