"""Command ``evaluations``: send evaluations to other programs, and list these."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluation_pipelines.cli.conventions import PARTLY
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.evaluations.deliveries import Deliveries, receiver_names
from evaluation_pipelines.evaluations.post import NotDeliveredError
from evaluation_pipelines.evaluations.send import retry_refused, send_evaluations
from evaluation_pipelines.formatting import minute
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

_NAMES = ("name", "position", "failures", "failing_since", "next_try_at", "last_error", "ended_at")


def evaluations(
    send: Annotated[
        bool,
        typer.Option("--send", help="First send changes, without waiting for a pause."),
    ] = False,
    refused: Annotated[
        bool, typer.Option("--refused", help="First send refused sessions again, one by one.")
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """List receivers of evaluations, and send to them.

    With --send or --refused, exits with 4 if a receiver does not have everything.
    """
    settings = load_settings()
    with open_stores(settings) if send or refused else read_stores(settings) as stores:
        if refused:
            _send_refused(stores)
        if send:
            for sent in send_evaluations(stores, _now, at_once=True):
                print_error(one_line(f"{sent}"))
        deliveries = Deliveries(stores.ledger)
        states, refusals = deliveries.states(), deliveries.refusals()
    if not receiver_names(settings):
        print_error(
            "No receiver of evaluations is set. Set EVAL_EXPORT_OTLP_ENDPOINT, "
            "EVAL_EXPORT_FILES_DIR or EVAL_WEBHOOKS: docs/settings.md."
        )
    elif not states:
        print_error("Nothing was sent yet. Send with evaluations --send, or run the service.")
    if form is not OutputFormat.TABLE:
        records = [record_of(refusal) for refusal in refusals]
        write_rows([record_of(state) for state in states], form, _NAMES, refused=records)
    elif states:
        rows = [
            (
                state.name,
                "ended" if state.ended_at else "failing" if state.failures else "current",
                state.failing_since and minute(state.failing_since),
                one_line(state.last_error or ""),
            )
            for state in states
        ]
        columns = ("receiver", "state", "failing since", "last error")
        print_table("Receivers of evaluations", columns, rows, essential=2)
        lost = [
            tuple(map(one_line, (refusal.session_key, refusal.receiver, refusal.reason)))
            for refusal in refusals
        ]
        if lost:
            print_table("\nRefused", ("session", "receiver", "reason"), lost, essential=2)
    if (send or refused) and (refusals or any(state.failures for state in states)):
        raise typer.Exit(PARTLY)


def _now() -> datetime:
    return datetime.now(UTC)


def _send_refused(stores: Stores) -> None:
    try:
        accepted, refused = retry_refused(stores, _now)
        print_error(
            f"refused before: {pluralize(accepted, 'session')} accepted, {refused:,} refused"
        )
    except NotDeliveredError as error:
        print_error(f"error: {error}. The refusals stay")
