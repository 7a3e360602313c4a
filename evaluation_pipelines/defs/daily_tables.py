"""Daily tables as assets, with the events, checks and weekly audit of scorecards.

They share one step, since a date that fails must neither stop the other dates nor count as
materialized. Separate steps succeed or fail for all dates of a run.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import chain

import dagster as dg

from evaluation_pipelines.build import TELEMETRY_TABLES, Build, DateBuilt, DateFailed
from evaluation_pipelines.defs.automation import (
    LAST,
    ONLY_DUE,
    PART_TAG,
    SESSION_DATES,
    LatestVersions,
    newest_part,
    parts_version,
    version_tags,
)
from evaluation_pipelines.defs.metadata import (
    WITH_TELEMETRY,
    CheckResults,
    check_specs,
    column_schema,
    logged_outputs,
    page_link,
    partition_metadata,
)
from evaluation_pipelines.defs.runs import LoggedProgress, is_nightly
from evaluation_pipelines.defs.telemetry.ingest import report_checks
from evaluation_pipelines.formatting import interval, markdown_table, number
from evaluation_pipelines.numerics.estimates import Estimate
from evaluation_pipelines.schemas import SCORECARDS, SESSION_EVALUATIONS, SESSION_PERFORMANCE
from evaluation_pipelines.schemas.scorecards import MAX_SHOWN, Announced, Announcement
from evaluation_pipelines.scorecards.blind_reviews import (
    calibration,
    draw_samples,
    open_samples,
    profile_leans,
    undrawn_dates,
)
from evaluation_pipelines.scorecards.domain.calibration import Agreement
from evaluation_pipelines.scorecards.domain.evaluation import labels_without_profile
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.storage.daily_table import BuiltPartition, DailyTable
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores


@dg.op(description="Draws yesterday's sample, and samples of missed nights.")
def draw_audit_sample(context: dg.OpExecutionContext, stores: dg.ResourceParam[Stores]) -> None:
    """Draw missing samples; a date keeps its sample, so running twice changes nothing."""
    now = datetime.now(UTC)
    dates = undrawn_dates(stores, now.date())
    drawn, waiting = draw_samples(stores, dates, now), len(open_samples(stores))
    context.log.info(
        "%d sessions of %d dates drawn. %d wait for review: page /reviews",
        drawn,
        len(dates),
        waiting,
    )
    context.add_output_metadata({"drawn": drawn, "waiting": waiting})


@dg.job(description="Draws random sessions for people to review.")
def draw_audit_samples() -> None:
    """Draw the audit samples in one step."""
    draw_audit_sample()


# Late enough that no session of yesterday is still open.
nightly_audit_sample = dg.ScheduleDefinition(
    name="nightly_audit_sample",
    job=draw_audit_samples,
    cron_schedule="30 2 * * *",
    tags=LAST,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Draws the audit sample of yesterday, every night at half past two.",
)


MAX_OBSERVATIONS = MAX_SHOWN
"""Observations of one run. If there would be more, the events of a date are only counted, in the
metadata of its materialization.

A backfill has thousands of events, and Dagster stores each as slowly as a whole partition.
"""


@dataclass(slots=True)
class Observations:
    """Observations of a run; the ledger has every event in ``service_events``."""

    asset: str
    _count: int = 0

    def of(self, announced: Announced) -> list[dg.AssetObservation]:
        """Return an observation for each event of a date, or none if they would be too many."""
        number = announced.counts.total()
        if self._count + number > MAX_OBSERVATIONS:
            return []
        self._count += number
        return [_observation(self.asset, event) for event in announced.events]


def event_counts(announced: Announced) -> dict[str, dg.MetadataValue]:
    """Return the number of new events of each kind as metadata of their partition."""
    kinds = sorted(announced.counts.items())
    return {f"new {kind}": dg.MetadataValue.int(number) for kind, number in kinds}


def _observation(asset: str, event: Announcement) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset,
        partition=event.session_date.isoformat(),
        description=event.kind,
        metadata={
            "event": event.kind,
            "event_id": event.event_id,
            "session_key": event.session_key,
            "effective_100": event.effective_100,
            "payload": dg.MetadataValue.json(event.payload_values()),
        },
        tags={"event": event.kind},
    )


_HEADINGS = (
    *("profile", "version", "sample", "n", "off by > 10"),
    *("bias", "mean error", "Spearman", "kappa"),
)


@dg.asset_check(
    asset=SCORECARDS.name,
    description="No profile is corrected in one direction beyond chance.",
)
def profiles_are_calibrated(stores: dg.ResourceParam[Stores]) -> dg.AssetCheckResult:
    """Warn if the corrections of a profile version lean one way beyond chance."""
    overrides = overrides_with_states(stores)
    notices = [lean.notice for lean in profile_leans(stores, overrides) if lean.is_beyond_chance]
    return dg.AssetCheckResult(
        passed=not notices,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "expected": "corrections in both directions, or few of them",
            "found": "\n".join(notices) or "no profile version to recalibrate",
            "agreement, automatic minus human": dg.MetadataValue.md(
                markdown_table(
                    _HEADINGS, [_row(agreement) for agreement in calibration(stores, overrides)]
                )
            ),
        },
    )


def _row(agreement: Agreement) -> tuple[object, ...]:
    return (
        agreement.profile_id,
        agreement.profile_version,
        agreement.sample,
        agreement.n,
        _format_estimate(agreement.off),
        agreement.missing or _format_estimate(agreement.bias),
        *(
            _format_estimate(estimate)
            for estimate in (agreement.mae, agreement.spearman, agreement.kappa)
        ),
    )


def _format_estimate(estimate: Estimate) -> str:
    ends = interval(number(estimate.low, 2), number(estimate.high, 2))
    return f"{number(estimate.value, 2)} ({ends})" if ends else number(estimate.value, 2)


NO_SESSIONS = "No session started on this day."
"""What the interface shows about an empty date."""


def asset_spec(daily: DailyTable) -> dg.AssetSpec:
    """Return the asset of a daily table."""
    table = daily.table
    return dg.AssetSpec(
        table.name,
        deps=daily.upstream,
        description=table.sentence,
        group_name=daily.group,
        kinds={daily.engine, "parquet"},
        owners=["team:evaluation"],
        code_version=daily.code_version,
        metadata={"dagster/column_schema": column_schema(table)},
        freshness_policy=WITH_TELEMETRY if table is SESSION_PERFORMANCE else None,
        # A date that fails has no materialization; see the docstring of this module.
        skippable=True,
    )


def materialization(
    stores: Stores,
    daily: DailyTable,
    day: date,
    built: BuiltPartition,
    more: Mapping[str, dg.MetadataValue],
    latest: LatestVersions,
    description: str | None = None,
) -> dg.AssetMaterialization:
    """Return the event of a published partition, which the caller must log.

    Args:
        stores: The lake with the files of the partition.
        daily: Table of the partition.
        day: Session date.
        built: The partition.
        more: Further metadata.
        latest: Latest versions of the inputs; updated with the version of the partition.
        description: What the interface shows about the event.
    """
    path = stores.lake.place(built.table, day)
    parts = Manifest(stores.ledger).current(built.table.name, day)
    version = parts_version(parts)
    tags = version_tags(latest, daily.code_version, version, daily.upstream, day)
    latest.update(daily.table.name, day, version)
    return dg.AssetMaterialization(
        daily.table.name,
        description=description,
        partition=day.isoformat(),
        metadata={
            **partition_metadata(built, daily.preview, path),
            **page_link(stores.settings, daily.table, day),
            **more,
        },
        tags=tags | {PART_TAG: newest_part(parts)},
    )


def report_unbuilt(
    context: dg.AssetExecutionContext, stores: Stores, daily: DailyTable, days: Collection[date]
) -> None:
    """Log the dates of a run that it has nothing to build of: Dagster counts others as failed."""
    latest = LatestVersions(context.instance, sorted(days))
    for day in latest.days:
        built = stored_partition(stores, daily, day, daily.preview)
        why = "Not built again: it has no landed events." if built.row_count else NO_SESSIONS
        context.log_event(materialization(stores, daily, day, built, {}, latest, why))


def stored_partition(
    stores: Stores, daily: DailyTable, day: date, columns: Sequence[str] | None
) -> BuiltPartition:
    """Return some or all columns of a partition as the lake has it, without results of checks."""
    return BuiltPartition(daily.table, stores.lake.read(daily.table, [day], columns), ())


_DAILY = {daily.table.name: daily for daily in TELEMETRY_TABLES}


@dg.multi_asset(
    specs=[asset_spec(table) for table in TELEMETRY_TABLES],
    check_specs=check_specs(TELEMETRY_TABLES),
    can_subset=True,
    partitions_def=SESSION_DATES,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def daily_tables(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> Iterator[dg.AssetCheckResult | dg.Output[None]]:
    """Build events, sessions and their scores of the dates of a run, in batches of dates.

    A nightly run builds the dates whose judge scores it has published, and all tables of them: a
    date with some of its tables rebuilt would stay due. All tables are also built of a date that
    lacks an input of the selected ones.
    """
    selected = [key.to_user_string() for key in context.selected_asset_keys]
    days = [date.fromisoformat(key) for key in context.partition_keys]
    nightly, only_due = is_nightly(context.run), ONLY_DUE.items() <= context.run.tags.items()
    if nightly:
        held = {
            queued_date.session_date
            for queued_date in RebuildQueue(stores.ledger).held(datetime.now(UTC))
        }
        days = sorted(held.intersection(days))
    checks, latest = CheckResults(), LatestVersions(context.instance, days)
    observations = Observations(SESSION_EVALUATIONS.name)

    def report(published: Mapping[date, BuiltPartition]) -> None:
        for event in _events(stores, published, observations, latest):
            context.log_event(event)
        for day, built in published.items():
            _log_unmatched(context, built, day)
            checks.add_built(day, built)

    outcome: list[DateBuilt | DateFailed] = []
    for tables, dates in _plan(stores, tuple(_DAILY) if nightly else selected, days):
        job = Build(stores, tables, report, only_due=only_due)
        outcome += job.run(dates, LoggedProgress(context.log))
    failed = [result for result in outcome if isinstance(result, DateFailed)]
    for shown in chain.from_iterable(_at_selected(result, selected) for result in failed):
        checks.add_failed(shown)
    report_checks(context.instance, stores)
    yield from checks.asset_check_results(context.op_execution_context.selected_asset_check_keys)
    if failed and not nightly:
        raise dg.Failure(
            _failure_text(failed, len(days)),
            metadata={result.session_date.isoformat(): result.error for result in failed},
            allow_retries=False,
        )
    if failed:  # the sensor retries these dates
        context.log.error("%s", _failure_text(failed, len(days)))
    yield from logged_outputs(context, _DAILY)


def _log_unmatched(context: dg.AssetExecutionContext, built: BuiltPartition, day: date) -> None:
    """Log each label of the day that no profile matches."""
    if built.table is SESSION_EVALUATIONS:
        for label, number in labels_without_profile(built.frame).items():
            context.log.info("%s: no profile matches %s: %d sessions", day, label, number)


def _plan(
    stores: Stores, selected: Sequence[str], days: Iterable[date]
) -> Iterator[tuple[Sequence[str], set[date]]]:
    """Yield tables and the dates of which to build them: all tables where inputs are missing.

    A date that was never built has none of its tables: they become current together.
    """
    inputs = {name for table in selected for name in _DAILY[table].upstream}
    complete, days = set(days), set(days)
    for name in _DAILY.keys() & inputs - set(selected):
        complete.intersection_update(stores.lake.partitions(_DAILY[name].table))
    if complete:
        yield selected, complete
    if incomplete := days - complete:
        yield tuple(_DAILY), incomplete


def _events(
    stores: Stores,
    published: Mapping[date, BuiltPartition],
    observations: Observations,
    latest: LatestVersions,
) -> Iterator[dg.AssetObservation | dg.AssetMaterialization]:
    for day, built in published.items():
        # Observations come first: the page of a partition shows its latest event on top.
        yield from observations.of(built.announced)
        daily = _DAILY[built.table.name]
        yield materialization(stores, daily, day, built, event_counts(built.announced), latest)


def _at_selected(failed: DateFailed, selected: Sequence[str]) -> list[DateFailed]:
    """Return a failure at a table outside the run as a failure of each selected table."""
    if failed.table in selected:
        return [failed]
    error = f"{failed.table}: {failed.error}"
    return [replace(failed, table=table, error=error, broken=None) for table in selected]


def _failure_text(failed: Sequence[DateFailed], dates: int) -> str:
    return f"{len(failed)} of {dates} dates could not be built, the others are published: " + (
        "\n".join(f"{result.session_date}: {result.error}" for result in failed)
    )


daily_tables_job = dg.define_asset_job(
    "build_daily_tables",
    # Without the checks of the whole lake: the cost of a build must not grow with the history.
    selection=dg.AssetSelection.assets(daily_tables).without_checks()
    | dg.AssetSelection.checks(*(spec.key for spec in check_specs(TELEMETRY_TABLES))),
    description="Builds the daily tables of a range of dates. Started by a sensor.",
)
