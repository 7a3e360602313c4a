"""The judge's scores as an asset: making a date judges what is due of it, and nothing else.

It spends money, so it is no part of the builds that new telemetry starts. A backfill may be
repeated at will: what is scored is not due, and the table is written from the ledger in any case.
"""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta

import dagster as dg

from evaluation_pipelines.alerts.domain.messages import of_unjudged
from evaluation_pipelines.alerts.send import alert
from evaluation_pipelines.build.build import DateFailed
from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.build.judge_scores import publish_scores
from evaluation_pipelines.defs.check_results import CheckResults, check_specs
from evaluation_pipelines.defs.daily_tables import asset_spec, materialization
from evaluation_pipelines.defs.event_storage import log_events
from evaluation_pipelines.defs.judging.config import JudgeConfig
from evaluation_pipelines.defs.judging.metadata import report_metadata, scores_metadata
from evaluation_pipelines.defs.logged_outputs import reported_outputs
from evaluation_pipelines.defs.partitions import SESSION_DATES
from evaluation_pipelines.defs.progress import LoggedProgress
from evaluation_pipelines.defs.runs import is_of_the_night
from evaluation_pipelines.defs.versions import LastReports
from evaluation_pipelines.judging.judge import judge, utc_now
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.stores import Stores

_HELD_FOR = timedelta(hours=1)
"""The night builds what it has judged, at once; should it die before, others do after this."""

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

    In the night a judge that does not answer is an alert, and everything else goes on.
    """
    is_night = is_of_the_night(context.run)
    days = [date.fromisoformat(key) for key in context.partition_keys]
    log, order = context.log, config.order(context.run.run_id)
    report = judge(stores, order, days, config.overrides(), LoggedProgress(log))
    tell(context, report)
    book = CheckResults()
    failed = export(context, stores, days, report, book, _HELD_FOR if is_night else None)
    yield from book.check_results(context.op_execution_context.selected_asset_check_keys)
    problems = [f"{each.session_date} was not written: {each.error}" for each in failed]
    problems += [f"{day} could not be read: {why}" for day, why in report.unreadable.items()]
    if report.is_endpoint_down:
        problems.append(f"the judge stopped early, the rest stays due: {report.stopped}")
    if problems and not is_night:
        raise dg.Failure("; ".join(problems), allow_retries=False)
    if problems:
        now = utc_now()
        alert(stores, of_unjudged(now.date(), "; ".join(problems)), now, log)
    yield from reported_outputs(context, [JUDGE_SCORES.name])


def tell(context: dg.OpExecutionContext | dg.AssetExecutionContext, report: JudgeReport) -> None:
    """Put what a run did into its log and among the events of the asset."""
    if report.skipped is not None:
        context.log.warning("nothing was judged: %s", report.skipped)
    else:
        context.log.info("%s", report.summary())
    metadata = report_metadata(report)
    context.log_event(dg.AssetObservation(JUDGE_SCORES.name, metadata=metadata))


def export(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    stores: Stores,
    days: list[date],
    report: JudgeReport,
    book: CheckResults,
    held_for: timedelta | None = None,
) -> list[DateFailed]:
    """Write the scores of the dates that have sessions; gives those that could not be written.

    ``held_for`` is as in ``publish_scores``.
    """
    of_run = dg.MetadataValue.text(report.skipped or report.summary())

    def publish(published: Mapping[date, BuiltPartition]) -> None:
        reports = LastReports(context.instance, list(published))

        def events() -> Iterator[dg.AssetMaterialization]:
            for day, made in published.items():
                more = {**scores_metadata(made.frame), "this_run": of_run}
                yield materialization(stores, _SCORES, day, made, more, reports)

        log_events(context, events())
        for day, made in published.items():
            book.note_made(day, made)

    there = {*stores.lake.partitions(AGENT_SESSIONS), *ScoreStore(stores.ledger).dates()}
    failed = publish_scores(stores, set(days) & there, publish, held_for=held_for)
    for each in failed:
        book.note_failed(each)
    return failed


judge_due_job = dg.define_asset_job(
    "judge_due",
    selection=dg.AssetSelection.assets(judge_scores).without_checks()
    | dg.AssetSelection.checks(*(each.key for each in check_specs([_SCORES]))),
    description="Judges what is due of a range of dates; started by a sensor.",
)
