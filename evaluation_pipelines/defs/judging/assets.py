"""Judge scores as an asset: materializing a date judges the sessions of it that are due.

It costs money, so builds of new telemetry do not include it. A backfill may be repeated: scored
sessions are not due, and the table is written from the ledger in any case.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta

import dagster as dg

from evaluation_pipelines.attention.send import note_judge, note_whole_run
from evaluation_pipelines.build import DAILY_TABLES, DateFailed
from evaluation_pipelines.build.judge_scores import publish_scores
from evaluation_pipelines.defs.automation import SESSION_DATES, LatestVersions, is_partition
from evaluation_pipelines.defs.check_results import CheckResults, check_specs
from evaluation_pipelines.defs.daily_tables import asset_spec, materialization, report_unbuilt
from evaluation_pipelines.defs.judging.config import JudgeConfig
from evaluation_pipelines.defs.judging.event_log import EventLog
from evaluation_pipelines.defs.judging.metadata import report_metadata, scores_metadata
from evaluation_pipelines.defs.metadata import logged_outputs
from evaluation_pipelines.defs.runs import LoggedProgress, is_nightly
from evaluation_pipelines.judging.find_due import find_due_in_lake
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import judge, utc_now
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.stores import Stores

_HELD_FOR = timedelta(hours=1)
"""Time in which the nightly run builds the dates it has judged; the sensor builds them later."""

_SCORES = next(each for each in DAILY_TABLES if each.table is JUDGE_SCORES)


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
    problems = [f"{each.session_date} was not written: {each.error}" for each in failed]
    problems += [f"{day} could not be read: {why}" for day, why in report.unreadable.items()]
    note_judge(stores, report, utc_now(), log)
    if report.is_endpoint_down and not nightly:
        problems.append(f"the judge stopped early, the rest stays due: {report.stop_reason}")
    if problems and not nightly:
        raise dg.Failure("; ".join(problems), allow_retries=False)
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
    for each in failed:
        checks.add_failed(each)
    return failed


def _with_sessions(stores: Stores, days: Iterable[date]) -> set[date]:
    known = {*stores.lake.partitions(AGENT_SESSIONS), *ScoreStore(stores.ledger).dates()}
    return known.intersection(days)


judge_due_job = dg.define_asset_job(
    "judge_due",
    selection=dg.AssetSelection.assets(judge_scores).without_checks()
    | dg.AssetSelection.checks(*(each.key for each in check_specs([_SCORES]))),
    description="Judges what is due in a range of dates; started by a sensor.",
)
