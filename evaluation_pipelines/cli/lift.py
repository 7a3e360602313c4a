"""Command that shows what masques are worth."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.as_of import read_lake_as_of
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, parse_as_of, parse_days, within
from evaluation_pipelines.cli.output import print_line, print_table
from evaluation_pipelines.cli.tools import ReportFormat
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.sessions.masque_lift import compare_masques
from evaluation_pipelines.settings import load_settings

_SHOWN = {"composite": 2, "failure_rate": 3, "cost_usd": 3, "active_s": 0}
"""Measure -> decimals."""


def lift(
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[
        ReportFormat, typer.Option("--format", help="How to print it.")
    ] = ReportFormat.TEXT,
) -> None:
    """Show what each masque is worth: its clean sessions beside those without a masque."""
    days = None if dates is None else parse_days(dates)
    then, settings = parse_as_of(as_of), load_settings()
    with read_lake_as_of(settings, then) as lake:
        chosen = within(lake.partitions(AGENT_SESSIONS), days)
        rows = compare_masques(lake, settings, then or datetime.now(UTC), chosen)
    if form is ReportFormat.JSON:
        print_line(json.dumps(rows.to_dicts(), indent=2, default=str))
    elif rows.is_empty():
        print_line("No session of these dates that has ended wore one masque from begin to end.")
    else:
        _print(rows)


def _print(rows: pl.DataFrame) -> None:
    known = rows.filter(pl.col("composite_state") == "shown")
    others = rows.filter(pl.col("composite_state") != "shown")
    title = "Masque minus baseline, with 95 % intervals"
    if not known.is_empty():
        columns = (
            *("masque", "kind of task", "sessions #", "baseline #"),
            *("composite #", "failure rate #", "cost, USD #", "active time, s #", "organization"),
        )
        cells = _compared(known.sort("composite_difference", descending=True))
        print_table(title, columns, cells, essential=5)
        print_line()
    if not others.is_empty():
        few = ("masque", "kind of task", "sessions #", "baseline #", "composite", "organization")
        print_table("Too few to compare", few, _not_yet(others), essential=5)
    print_line(
        "\nObservational: people choose the masque and the task, so a difference may have other "
        "causes."
    )
    intervals = 4 * known.height
    if intervals:
        print_line(
            "An interval that holds 0 may be chance; one in twenty misses the true difference by "
            f"chance, of {intervals} here about {max(1, intervals // 20)}."
        )


def _compared(rows: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    for row in rows.iter_rows(named=True):
        yield (
            *(row["masque"], row["task_class"], row["sessions"], row["baseline_sessions"]),
            *(_difference(row, measure, places) for measure, places in _SHOWN.items()),
            row["organization_id"],
        )


def _not_yet(rows: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    for row in rows.iter_rows(named=True):
        yield (
            *(row["masque"], row["task_class"], row["sessions"], row["baseline_sessions"]),
            *(row["composite_state"], row["organization_id"]),
        )


def _difference(row: Mapping[str, Any], measure: str, places: int) -> str:
    difference = row[f"{measure}_difference"]
    if difference is None:
        return str(row[f"{measure}_state"])
    low, high = row[f"{measure}_low"], row[f"{measure}_high"]
    return f"{difference:+.{places}f} ({low:+.{places}f} to {high:+.{places}f})"
