"""Judge scores as an asset, batches, requests, and the sensors that start judge runs.

Materializing a date judges the sessions of it that are due. It costs money, so builds of new
telemetry do not include it. A backfill may be repeated: scored sessions are not due, and the table
is written from the ledger in any case.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from logging import Logger

import dagster as dg
import polars as pl
from pydantic import Field

from evaluation_pipelines.attention.send import note_judge, note_whole_run
from evaluation_pipelines.build import DAILY_TABLES, DateFailed
from evaluation_pipelines.build.build import publish_scores
from evaluation_pipelines.defs.automation import (
    LAST,
    NIGHTLY_EVALUATION,
    SESSION_DATES,
    LatestVersions,
    is_partition,
    range_tags,
)
from evaluation_pipelines.defs.daily_tables import asset_spec, materialization, report_unbuilt
from evaluation_pipelines.defs.metadata import (
    CheckResults,
    check_specs,
    histogram_metadata,
    logged_outputs,
)
from evaluation_pipelines.defs.runs import (
    CANCELED,
    LoggedProgress,
    canceled_recently,
    failed_recently,
    is_nightly,
    is_unfinished,
)
from evaluation_pipelines.formatting import markdown_table
from evaluation_pipelines.judging.batch.collect import has_work
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.domain.prompt.rubric import TOTAL_POINTS, USUAL_MEAN
from evaluation_pipelines.judging.endpoint.replies import one_line_excerpt
from evaluation_pipelines.judging.find_due import Candidate, DueSessions, find_due_in_lake
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.run import RunRequest, judge, judge_session, utc_now
from evaluation_pipelines.judging.score_requests import RequestResult
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES, SCORE_FLAGS
from evaluation_pipelines.scorecards.blind_reviews import note_request
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent
from evaluation_pipelines.storage.stores import Stores

PATIENCE_S = 24 * 3600.0
"""Time that a run waits for another process that judges."""


class JudgeConfig(dg.Config):
    """Configuration of a run over a range of dates; by default it judges what is due."""

    force: bool = Field(
        default=False, description="Judge scored sessions and permanent failures again."
    )
    obsolete: bool = Field(
        default=False,
        description="Judge sessions scored with outdated prompts again.",
    )
    failed: bool = Field(default=False, description="Judge failed sessions again, without a wait.")
    include_thin: bool = Field(
        default=False, description="Judge sessions without logged text, too."
    )
    profile: str | None = Field(default=None, description="Only this judge profile.")
    model: str | None = Field(default=None, description="Model instead of EVAL_JUDGE_MODEL.")
    samples: int | None = Field(
        default=None, ge=1, le=15, description="How often each session is scored."
    )
    sample_rate: float | None = Field(
        default=None, ge=0, le=1, description="Share of the sessions to judge."
    )
    max_sessions: int | None = Field(
        default=None, ge=0, description="Limit on sessions, in addition to EVAL_JUDGE_MAX_SESSIONS."
    )
    max_cost_usd: float | None = Field(
        default=None, ge=0, description="Limit on cost, in addition to EVAL_JUDGE_MAX_COST_USD."
    )
    triggered_by: str | None = Field(
        default=None, description="Requester of the run. By default the id of the run."
    )

    def run_request(self, run_id: str) -> RunRequest:
        """Return the request to judge."""
        return RunRequest(
            triggered_by=self.triggered_by or run_id,
            extra=ExtraDue(
                force=self.force,
                include_thin=self.include_thin,
                obsolete=self.obsolete,
                failed=self.failed,
            ),
            max_sessions=self.max_sessions,
            max_cost_usd=self.max_cost_usd,
            patience_s=PATIENCE_S,
        )

    def overrides(self) -> PlanOverrides:
        """Return the values that replace settings."""
        return PlanOverrides(self.profile, self.model, self.samples, self.sample_rate)


class SessionConfig(dg.Config):
    """Configuration of a run that scores one session."""

    session: str = Field(description="A session key, or a session id that has one window.")
    organization: str | None = Field(
        default=None, description="Organization, if several have this session."
    )
    force: bool = Field(default=False, description="Judge it again even if already judged.")
    by: str | None = Field(
        default=None, description="Requester of the score. By default the id of the run."
    )


_MAX_LINES = 20
"""Events of one look that are logged each; more would flood the event log of Dagster."""


class EventLog:
    """Logs the events of scorings since the last look: failures as info, others as debug."""

    def __init__(self, log: Logger, scores: ScoreStore) -> None:
        """Begin with the events that follow the newest one."""
        self._log, self._scores = log, scores
        newest = scores.newest_events(1)
        self._seen = newest[-1].event_id if newest else 0

    def __call__(self) -> None:
        """Log the new events; beyond ``_MAX_LINES``, failures first, only their number."""
        events = self._scores.events_after(self._seen)
        if not events:
            return
        self._seen = events[-1].event_id
        failed = [event for event in events if event.type == "scoring.failed"]
        others = [event for event in events if event.type != "scoring.failed"]
        shown = {other.event_id for other in [*failed, *others][:_MAX_LINES]}
        for event in events:
            if event.event_id in shown:
                log = self._log.info if event in failed else self._log.debug
                log("%s", _line(event))
        if left := len(events) - len(shown):
            self._log.debug("%d more score events: evaluation-pipelines judge list events", left)


def _line(event: ServiceEvent) -> str:
    """Return one printable line: neither key nor detail can imitate another line of the log."""
    detail = "" if event.detail is None else f": {one_line_excerpt(event.detail)}"
    return f"{event.type} {one_line_excerpt(event.session_key or '')}{detail}"


_LIMITS = (0.0, float(TOTAL_POINTS))
_MARKS = {"usual from": USUAL_MEAN[0], "to": USUAL_MEAN[1]}
_CELL_LETTERS = 60


def report_metadata(report: JudgeReport) -> dict[str, dg.MetadataValue]:
    """Return the metadata of one judge run."""
    if report.skip_reason is not None:
        return {"skipped": dg.MetadataValue.text(report.skip_reason)}
    metadata: dict[str, dg.MetadataValue] = {
        name: dg.MetadataValue.float(round(value, 6))
        if isinstance(value, float)
        else dg.MetadataValue.int(value)
        for name, value in report.metrics().items()
    }
    if report.mean is not None:
        metadata["mean_total"] = dg.MetadataValue.float(report.mean)
        metadata["totals"] = histogram_metadata(
            report.totals, "total", _LIMITS, _MARKS, f"{len(report.totals):,} sessions were scored"
        )
    for name, counted in (
        ("failed_by_reason", report.failed),
        ("deferred_by_reason", report.deferred),
        ("could_not_go_on", report.discarded),
        ("failure_tags", report.tags),
        ("redactions", report.redactions),
        ("where_sessions_stood", report.states),
    ):
        if counted:
            metadata[name] = _counts(counted)
    if report.stop_reason is not None:
        metadata["stopped"] = dg.MetadataValue.text(report.stop_reason)
    return metadata


def scores_metadata(scores: pl.DataFrame) -> dict[str, dg.MetadataValue]:
    """Return totals, cost, tokens and tags of the rows of ``judge_scores`` of a date."""
    done = scores.filter(pl.col("status") == "completed")
    failed = scores.filter(pl.col("status") == "failed")
    totals = done["total_score"].drop_nulls().to_list()
    cost = scores["judge_cost_usd"]
    metadata: dict[str, dg.MetadataValue] = {
        "cost_usd": dg.MetadataValue.float(round(float(cost.sum()), 6)),
        "scorings_of_unknown_price": dg.MetadataValue.int(_unpriced(scores)),
        "tokens": dg.MetadataValue.int(_tokens(scores)),
        "totals": histogram_metadata(
            totals, "total", _LIMITS, _MARKS, f"{len(totals)} judgments have a total"
        ),
    }
    if totals:
        metadata["mean_total"] = dg.MetadataValue.float(sum(totals) / len(totals))
    models = done["judge_model"].unique().sort().to_list()
    metadata["judge_models"] = dg.MetadataValue.text(", ".join(models) or "none")
    flags = [name for name in SCORE_FLAGS for _ in range(int(done[name].sum()))]
    tags = done["failure_tags"].explode(empty_as_null=True).drop_nulls().to_list()
    for name, values in (
        ("flags", flags),
        ("failure_tags", tags),
        ("failed_by_reason", _reasons(failed)),
    ):
        if values:
            metadata[name] = _counts(Counter(values))
    return metadata


def _unpriced(scores: pl.DataFrame) -> int:
    # Replies in batches have no latency.
    facts = ("latency_ms", "output_tokens", "total_score", "failed_reply")
    answered = pl.any_horizontal(pl.col(name).is_not_null() for name in facts)
    return scores.filter(answered & pl.col("judge_cost_usd").is_null()).height


def _tokens(scores: pl.DataFrame) -> int:
    return sum(
        int(scores[name].sum()) for name in ("input_tokens", "cached_tokens", "output_tokens")
    )


def _reasons(failed: pl.DataFrame) -> list[str]:
    return failed["error_message"].fill_null("no reason given").to_list()


def _counts(counted: Mapping[str, int]) -> dg.MetadataValue:
    rows = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return dg.MetadataValue.md(markdown_table(("what", "times"), rows, _CELL_LETTERS))


_HELD_FOR = timedelta(hours=1)
"""Time in which the nightly run builds the dates it has judged; the sensor builds them later."""

_SCORES = next(table for table in DAILY_TABLES if table.table is JUDGE_SCORES)


@dg.multi_asset(
    specs=[asset_spec(_SCORES)],
    check_specs=check_specs([_SCORES]),
    can_subset=True,
    partitions_def=SESSION_DATES,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool="judge",
)
def judge_scores(
    context: dg.AssetExecutionContext, config: JudgeConfig, stores: dg.ResourceParam[Stores]
) -> Iterator[dg.AssetCheckResult | dg.Output[None]]:
    """Judge what is due of the dates of a run, and write their scores from the ledger.

    In a nightly run a judge that does not answer raises an alert, and the later steps go on.
    """
    nightly = is_nightly(context.run)
    days = [date.fromisoformat(key) for key in context.partition_keys]
    log, request = context.log, config.run_request(context.run.run_id)
    events = EventLog(log, ScoreStore(stores.ledger))
    report = judge(stores, request, days, config.overrides(), LoggedProgress(log, events))
    events()
    report_run(context, report)
    checks = CheckResults()
    report_unbuilt(context, stores, _SCORES, set(days) - _with_sessions(stores, days))
    failed = publish(context, stores, days, report, checks, _HELD_FOR if nightly else None)
    yield from checks.asset_check_results(context.op_execution_context.selected_asset_check_keys)
    problems = [f"{result.session_date} was not written: {result.error}" for result in failed]
    problems += [f"{day} could not be read: {why}" for day, why in report.unreadable.items()]
    note_judge(stores, report, utc_now(), log)
    if report.is_endpoint_down and not nightly:
        problems.append(f"the judge stopped early, the rest stays due: {report.problem}")
    if problems and not nightly:
        raise dg.Failure("\n".join(problems), allow_retries=False)
    if nightly:
        readable = _all_readable(stores)
        note_whole_run(stores, report, problems, utc_now(), log, all_readable=readable)
    yield from logged_outputs(context, [JUDGE_SCORES.name])


def _all_readable(stores: Stores) -> bool:
    """Return False if the sessions of a date cannot be read, of whatever date; a judge reads."""
    if stores.settings.why_no_judge is not None:
        return True
    return not find_due_in_lake(stores, utc_now(), None, is_partition).unreadable


def report_run(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, report: JudgeReport
) -> None:
    """Log the report of a judge run, and add it to the events of the asset."""
    if report.skip_reason is not None:
        context.log.warning("nothing was judged: %s", report.skip_reason)
    else:
        context.log.info("%s", report.summary())
    metadata = report_metadata(report)
    context.log_event(dg.AssetObservation(JUDGE_SCORES.name, metadata=metadata))


def publish(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    stores: Stores,
    days: list[date],
    report: JudgeReport,
    checks: CheckResults,
    held_for: timedelta | None = None,
) -> list[DateFailed]:
    """Write the scores of the dates that have sessions, and log their materializations.

    Args:
        context: Context of the step.
        stores: Lake and ledger.
        days: Session dates.
        report: Report of the judge run, shown with each date.
        checks: Receives the check results.
        held_for: As in ``publish_scores``.

    Returns:
        The dates that could not be written.
    """
    this_run = dg.MetadataValue.text(report.skip_reason or report.summary())

    def log(published: Mapping[date, BuiltPartition]) -> None:
        latest = LatestVersions(context.instance, list(published))
        for day, built in published.items():
            more = {**scores_metadata(built.frame), "this_run": this_run}
            context.log_event(materialization(stores, _SCORES, day, built, more, latest))
            checks.add_built(day, built)

    failed = publish_scores(stores, _with_sessions(stores, days), log, held_for=held_for)
    for result in failed:
        checks.add_failed(result)
    return failed


def _with_sessions(stores: Stores, days: Iterable[date]) -> set[date]:
    known = {*stores.lake.partitions(AGENT_SESSIONS), *ScoreStore(stores.ledger).dates()}
    return known.intersection(days)


judge_due_job = dg.define_asset_job(
    "judge_due",
    selection=dg.AssetSelection.assets(judge_scores).without_checks()
    | dg.AssetSelection.checks(*(spec.key for spec in check_specs([_SCORES]))),
    description="Judges what is due in a range of dates. Started by a sensor.",
)


# Not in the pool of the nightly run: a user waits for the answer, and the ledger keeps the session
# from being scored twice.
@dg.op
def score_session(
    context: dg.OpExecutionContext, config: SessionConfig, stores: dg.ResourceParam[Stores]
) -> None:
    """Request the score of a session, and wait for it."""
    settings = stores.settings
    if settings.why_no_judge is not None:
        raise dg.Failure(settings.why_no_judge, allow_retries=False)
    query = SessionName(config.session, config.organization)
    request = RunRequest(config.by or context.run_id)
    requested, report = judge_session(
        stores, load_plans(stores, utc_now()), query, request, force=config.force
    )
    metadata = _metadata(requested)
    score = requested.score
    if requested.answer.http_status == 202 and score is not None:
        key = score.organization_id, score.session_key
        note_request(stores, request.triggered_by, key, utc_now())
    context.add_output_metadata(metadata)
    if report is not None and requested.score is not None:
        report_run(context, report)
        publish(context, stores, [requested.score.session_date], report, CheckResults())
    if requested.answer.http_status >= 400:
        raise dg.Failure(_refusal(requested, config.session), metadata, allow_retries=False)
    if score is not None and score.is_open:
        reason = report.summary() if report is not None else "another process is scoring it"
        raise dg.Failure(f"{score.session_key} is not scored yet: {reason}", allow_retries=False)


@dg.job(description="Scores one session now. Its configuration has the session key.")
def judge_session_now() -> None:
    """Answer by the same status table as the terminal program."""
    score_session()


def _refusal(requested: RequestResult, session: str) -> str:
    reasons = {
        "conflict": "it is being judged. Wait for the result, or do not force",
        "not_terminal": "it has not ended yet",
        "expired": "its text has expired. A score that it has stays",
        "unknown": "the lake has no such session",
    }
    answer = requested.answer
    return f"{session}: {reasons[answer.action]} (HTTP {answer.http_status})"


def _metadata(requested: RequestResult) -> dict[str, dg.MetadataValue]:
    """Return what happened; the score itself may be withheld from who reads the run."""
    answer, score = requested.answer, requested.score
    found: dict[str, dg.MetadataValue] = {
        "answer": dg.MetadataValue.text(answer.action),
        "http_status": dg.MetadataValue.int(answer.http_status),
    }
    if score is not None:
        found["score_id"] = dg.MetadataValue.text(str(score.score_id))
        found["status"] = dg.MetadataValue.text(score.status)
    return found


_SECONDS_AFTER_FAILURE = 600


@dg.op(pool="judge")
def collect_batches(context: dg.OpExecutionContext, stores: dg.ResourceParam[Stores]) -> None:
    """Store the results of batches that have ended, and send the next turns of their sessions."""
    events = EventLog(context.log, ScoreStore(stores.ledger))
    progress = LoggedProgress(context.log, events)
    request = RunRequest(context.run_id, patience_s=PATIENCE_S, only_continue=True)
    report = judge(stores, request, stores.lake.partitions(AGENT_SESSIONS), progress=progress)
    events()
    report_run(context, report)
    failed = publish(context, stores, sorted(report.dates), report, CheckResults())
    problems = [f"{result.session_date} was not written: {result.error}" for result in failed]
    why = report.stop_reason or report.explanations.get(LeftOpenReason.ENDPOINT_DOWN)
    problems += [] if why is None else [why]
    if problems:
        raise dg.Failure("\n".join(problems), allow_retries=False)


@dg.job(description="Collects batches of the judge that have ended. Started by a sensor.")
def collect_judge_batches() -> None:
    """Collect once; what has not ended waits for the next run."""
    collect_batches()


@dg.sensor(
    job=collect_judge_batches,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Polls the batches of the judge, and starts their collection when one has ended.",
)
def judge_batches_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | dg.SkipReason:
    """Request one run at a time; without batches nothing is polled."""
    if (why_not := stores.settings.why_no_judge) is not None:
        return dg.SkipReason(why_not)
    jobs = (collect_judge_batches.name, judge_due_job.name, NIGHTLY_EVALUATION)
    if any(is_unfinished(context.instance, job) for job in jobs):
        return dg.SkipReason("a run that collects batches has not ended")
    if failed_recently(context.instance, collect_judge_batches.name, _SECONDS_AFTER_FAILURE):
        return dg.SkipReason("the last collection failed less than ten minutes ago")
    if canceled_recently(context.instance, collect_judge_batches.name):
        return dg.SkipReason(CANCELED)
    if has_work(stores, utc_now):
        return dg.RunRequest(tags=LAST)
    waiting = len(BatchStore(stores.ledger).unfinished())
    return dg.SkipReason(f"{waiting} batches at the provider, none to collect")


_FRESH_DAYS = 2
"""Older sessions wait for the nightly run, since the cost of checking all dates grows."""

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
        asked = [_request_now(candidate) for candidate in found.candidates if candidate.is_request]
        nothing = dg.SkipReason("no person has asked for a score. The others wait for the night")
        return dg.SensorResult(asked, skip_reason=None if asked else nothing)
    why_off = stores.settings.why_no_automatic_judging
    found = found if why_off is None else found.requested()
    if not found.days:
        none_due = f"no session of the last {_FRESH_DAYS} days waits for the judge"
        return dg.SkipReason(why_off or none_due)
    fingerprint = _fingerprint(found)
    last = json.loads(context.cursor or "{}")
    if last.get("waiting") == fingerprint and _is_recent(last["asked_at"], now):
        number = f"{len(found.candidates):,} sessions wait that the last run did not judge"
        return dg.SkipReason(f"{number}: see its report. They are requested again within the hour")
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
        f"{window.organization_id} {window.session_key} {window.content_hash}"
        for window in (candidate.window for candidate in found.candidates)
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
