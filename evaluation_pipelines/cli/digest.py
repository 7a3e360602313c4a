"""Command ``digest``: a week in short, as text, page or message."""

from datetime import UTC, date, datetime, timedelta
from logging import NullHandler, getLogger
from pathlib import Path
from typing import Annotated

import typer

from evaluation_pipelines.attention.digest import digest_page, make_digest
from evaluation_pipelines.attention.domain.digest import Digest, Shift
from evaluation_pipelines.attention.send import NoWebhookError, send_digest
from evaluation_pipelines.cli.conventions import FAILED
from evaluation_pipelines.cli.filters import parse_dates
from evaluation_pipelines.cli.output import (
    DATA,
    OUTPUT_FILE,
    OutputFormat,
    format_option,
    json_text,
    print_error,
    write_output,
)
from evaluation_pipelines.cli.rows import record_of, rows_as_csv
from evaluation_pipelines.formatting import sanitize
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores, read_stores

_SHIFT = tuple(Shift.__slots__)
_LOG = getLogger("evaluation_pipelines.cli.digest")
_LOG.addHandler(NullHandler())


def digest(
    dates: Annotated[
        str | None,
        typer.Option(
            "--date", metavar="A[..B]", help="These UTC dates. Default: the last 7 complete days."
        ),
    ] = None,
    send: Annotated[
        bool, typer.Option("--send", help="Also post the text to EVAL_ALERT_WEBHOOK_URL, once.")
    ] = False,
    form: Annotated[
        OutputFormat,
        format_option(
            *DATA,
            OutputFormat.HTML,
            help_text="Output format. csv and json items are the changes.",
        ),
    ] = OutputFormat.TABLE,
    output: Annotated[Path | None, OUTPUT_FILE] = None,
) -> None:
    """Summarize a week: changes, verdicts, cost, losses.

    Compared with the same number of days before. Exclusions are listed.
    """
    settings, now = load_settings(), datetime.now(UTC)
    first, last = parse_dates(dates) or _last_week(now.date())
    with (open_stores if send else read_stores)(settings) as stores:
        found = make_digest(stores, first, last, now)
        write_output(_encode(found, form), output)
        if not send:
            return
        try:
            unsent = send_digest(stores, found, now, _LOG)
        except NoWebhookError as error:
            print_error(f"error: {error}")
            raise typer.Exit(FAILED) from None
    if unsent:
        print_error("error: the webhook rejected it. It is retried with the next alert")
        raise typer.Exit(FAILED)


def _last_week(today: date) -> tuple[date, date]:
    return today - timedelta(days=7), today - timedelta(days=1)


def _encode(found: Digest, form: OutputFormat) -> str:
    if form is OutputFormat.HTML:
        return digest_page(found)
    if form is OutputFormat.TABLE:
        return sanitize(found.text())
    changes = [record_of(shift) for shift in found.shifts]
    if form is OutputFormat.CSV:
        return rows_as_csv(changes, _SHIFT)
    return json_text({"items": changes, **record_of(found, "shifts")})
