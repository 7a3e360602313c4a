"""Command ``judge status``: batches at the provider."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any

import typer

from evaluation_pipelines.cli.judging.score_output import time_of
from evaluation_pipelines.cli.output import OutputFormat, print_line, print_table
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.formatting import usd
from evaluation_pipelines.judging.ledger.batch_store import BatchStore, JudgeBatch
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import read_stores

_COLUMNS = (
    *("batch", "state", "at the provider", "requests #", "answered #", "failed #"),
    *("reserved #", "sent (UTC)", "expected by (UTC)", "model", "note"),
)


_LEASE = ("lease_owner", "lease_expires_at_us")
_NAMES = [
    *(each.name for each in fields(JudgeBatch) if each.name not in _LEASE),
    "reserved_usd",
]


def show_batches(
    every: Annotated[bool, typer.Option("--all", help="Also batches that have ended.")] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Show the batches that are out there, as they were when they were last polled."""
    with read_stores(load_settings()) as stores:
        store = BatchStore(stores.ledger)
        batches = store.newest(100)[::-1] if every else store.unfinished()
        reserved = store.reserved_usd()
    if form is not OutputFormat.TABLE:
        records = [_record(each, reserved.get(each.owner)) for each in batches]
        write_rows(records, form, _NAMES)
    elif not batches:
        print_line("No batch is out there.")
    else:
        _print(batches, reserved)


def _print(batches: Sequence[JudgeBatch], reserved: dict[str, float]) -> None:
    rows = [
        (
            *(each.batch_id[:8], each.state, each.provider_status, each.requests),
            *(each.completed_requests, each.failed_requests, usd(reserved.get(each.owner))),
            *(time_of(each.submitting_at_us), time_of(each.expected_by_us)),
            *(each.judge_model, each.error_message),
        )
        for each in batches
    ]
    print_table("Batches of the judge", _COLUMNS, rows, essential=4)


def _record(batch: JudgeBatch, reserved_usd: float | None) -> dict[str, Any]:
    return {**record_of(batch, *_LEASE), "reserved_usd": reserved_usd}
