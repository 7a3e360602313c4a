"""The closed books as an asset: made when the tables of a date have changed, and in the night.

It has a step of its own, so that a job can select it, and so that books which do not balance hold
no telemetry back: they are made right after the build of a date and never within it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime

import dagster as dg

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import OPEN_BOOKS, of_open_books
from evaluation_pipelines.alerts.send import alert
from evaluation_pipelines.build.build import Build, DateFailed
from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.defs.automation import WHEN_DATE_CHANGED
from evaluation_pipelines.defs.check_results import CheckResults, check_specs
from evaluation_pipelines.defs.daily_tables import asset_spec, materialization
from evaluation_pipelines.defs.event_storage import log_events
from evaluation_pipelines.defs.logged_outputs import reported_outputs
from evaluation_pipelines.defs.metadata import explaining_tables
from evaluation_pipelines.defs.partitions import SESSION_DATES
from evaluation_pipelines.defs.progress import LoggedProgress
from evaluation_pipelines.defs.versions import LastReports
from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.reporting.domain.reconciliation.equations import books_balance
from evaluation_pipelines.reporting.domain.reconciliation.states import STATES
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVALUATION_BOOKS
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.manifest import Manifest

_BOOKS = next(each for each in DAILY_TABLES if each.table is EVALUATION_BOOKS)

_STATES = markdown_table(
    ("state", "meaning", "what would change it"),
    [(state, each.meaning, each.what_next) for state, each in STATES.items()],
)
_DESCRIPTION = (
    f"{EVALUATION_BOOKS.grain.capitalize()}.\n\n"
    f"The first of these states that holds:\n\n{_STATES}\n\n"
    "The check `books_balance` adds up what ingest counted, what the tables hold and the states; "
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
    """Close the books of the dates of a run that ever had telemetry."""
    landed = {each.session_date for each in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)}
    days = landed.intersection(date.fromisoformat(key) for key in context.partition_keys)
    book, now = CheckResults(), datetime.now(UTC)

    def publish(published: Mapping[date, BuiltPartition]) -> None:
        reports = LastReports(context.instance, list(published))

        def events() -> Iterator[dg.AssetMaterialization]:
            for day, made in published.items():
                more = {"judge_cost_usd": dg.MetadataValue.text(_cost(made))}
                yield materialization(stores, _BOOKS, day, made, more, reports)

        log_events(context, events())
        for day, made in published.items():
            book.note_made(day, made)
            AlertStore(stores.ledger).end_of(OPEN_BOOKS, [str(day)], now)

    outcome = Build(stores, [EVALUATION_BOOKS.name], publish).run(days, LoggedProgress(context.log))
    failed = [each for each in outcome if isinstance(each, DateFailed)]
    for each in failed:
        book.note_failed(each)
        _show(context, each)
        alert(stores, of_open_books(each.session_date, each.error), now, context.log)
    yield from book.check_results(context.op_execution_context.selected_asset_check_keys)
    if failed:
        raise dg.Failure(_told(failed), allow_retries=False)
    yield from reported_outputs(context, [EVALUATION_BOOKS.name])


def _cost(made: BuiltPartition) -> str:
    """What judging the sessions has cost, in USD."""
    cost = made.frame["judge_cost_usd"]
    return "unknown" if cost.null_count() else str(round(float(cost.sum()), 6))


def _show(context: dg.AssetExecutionContext, failed: DateFailed) -> None:
    """Books that do not balance are not written: what they say is shown all the same."""
    if failed.broken is not None:
        context.log_event(
            dg.AssetObservation(
                EVALUATION_BOOKS.name,
                description=f"Not written: {failed.error}",
                partition=failed.session_date.isoformat(),
                metadata=explaining_tables(failed.broken),
            )
        )


def _told(failed: Sequence[DateFailed]) -> str:
    return "; ".join(f"{each.session_date}: {each.error}" for each in failed)
