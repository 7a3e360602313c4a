"""Reconciliation as the asset ``evaluation_books``, rebuilt when the tables of a date change.

It has a separate step, so that a job can select it, and so that books that do not balance delay no
telemetry: they are closed right after the build of a date, never in the same step.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime

import dagster as dg

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import OPEN_BOOKS, open_books_alert
from evaluation_pipelines.alerts.send import raise_alert
from evaluation_pipelines.build.build import Build, DateFailed
from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.defs.automation import WHEN_DATE_CHANGED
from evaluation_pipelines.defs.check_results import CheckResults, check_specs
from evaluation_pipelines.defs.daily_tables import asset_spec, materialization
from evaluation_pipelines.defs.event_storage import log_events
from evaluation_pipelines.defs.logged_outputs import logged_outputs
from evaluation_pipelines.defs.metadata import explaining_tables
from evaluation_pipelines.defs.partitions import SESSION_DATES
from evaluation_pipelines.defs.progress import LoggedProgress
from evaluation_pipelines.defs.versions import LatestVersions
from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.reporting.domain.reconciliation.equations import books_balance
from evaluation_pipelines.reporting.domain.reconciliation.states import STATES
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVALUATION_BOOKS
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores

_BOOKS = next(each for each in DAILY_TABLES if each.table is EVALUATION_BOOKS)

_STATES = markdown_table(
    ("state", "meaning", "what would change it"),
    [(state, each.meaning, each.what_next) for state, each in STATES.items()],
)
_DESCRIPTION = (
    f"{EVALUATION_BOOKS.grain.capitalize()}.\n\n"
    f"The state is the first of these that applies:\n\n{_STATES}\n\n"
    "The check `books_balance` compares the counts of ingest, of the tables and of the states; "
    "books that do not balance are not written."
)


@dg.multi_asset(
    specs=[
        asset_spec(_BOOKS).replace_attributes(
            description=_DESCRIPTION, automation_condition=WHEN_DATE_CHANGED
        )
    ],
    check_specs=check_specs([_BOOKS], blocking={books_balance.__name__}),
    can_subset=True,
    partitions_def=SESSION_DATES,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def evaluation_books(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> Iterator[dg.AssetCheckResult | dg.Output[None]]:
    """Close the books of the dates of a run that have landed events."""
    landed = {each.session_date for each in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)}
    days = landed.intersection(date.fromisoformat(key) for key in context.partition_keys)
    checks, now = CheckResults(), datetime.now(UTC)

    def report(published: Mapping[date, BuiltPartition]) -> None:
        latest = LatestVersions(context.instance, list(published))

        def events() -> Iterator[dg.AssetMaterialization]:
            for day, built in published.items():
                more = {"judge_cost_usd": dg.MetadataValue.text(_cost_usd(built))}
                yield materialization(stores, _BOOKS, day, built, more, latest)

        log_events(context, events())
        for day, built in published.items():
            checks.add_built(day, built)
            AlertStore(stores.ledger).end(OPEN_BOOKS, [str(day)], now)

    outcome = Build(stores, [EVALUATION_BOOKS.name], report).run(days, LoggedProgress(context.log))
    failed = [each for each in outcome if isinstance(each, DateFailed)]
    for each in failed:
        checks.add_failed(each)
        _observe(context, each)
        raise_alert(stores, open_books_alert(each.session_date, each.error), now, context.log)
    yield from checks.asset_check_results(context.op_execution_context.selected_asset_check_keys)
    if failed:
        reasons = "; ".join(f"{each.session_date}: {each.error}" for each in failed)
        raise dg.Failure(reasons, allow_retries=False)
    yield from logged_outputs(context, [EVALUATION_BOOKS.name])


def _cost_usd(built: BuiltPartition) -> str:
    """Return the cost of judging the sessions, or "unknown" if a price is unknown."""
    cost = built.frame["judge_cost_usd"]
    return "unknown" if cost.null_count() else str(round(float(cost.sum()), 6))


def _observe(context: dg.AssetExecutionContext, failed: DateFailed) -> None:
    """Show the tables of books that do not balance, which are not written."""
    if failed.broken is not None:
        context.log_event(
            dg.AssetObservation(
                EVALUATION_BOOKS.name,
                description=f"Not written: {failed.error}",
                partition=failed.session_date.isoformat(),
                metadata=explaining_tables(failed.broken),
            )
        )
