"""Command ``lift``: the effect of each masque compared with no masque."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import polars as pl

from evaluation_pipelines.as_of import read_lake_as_of
from evaluation_pipelines.cli.filters import (
    AS_OF,
    DATES_TO_LIST,
    dates_in,
    parse_as_of,
    parse_dates,
    usual_dates,
    with_session_filter,
)
from evaluation_pipelines.cli.output import OutputFormat, pluralize, print_line, print_table
from evaluation_pipelines.cli.rows import FORMAT, write_rows
from evaluation_pipelines.comparison.domain.runs import PEOPLE
from evaluation_pipelines.comparison.masque_lift import compare_masques
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings

_DECIMALS = {"composite": 2, "failure_rate": 3, "cost_usd": 3, "active_s": 0}
"""Measure -> decimals, in the order of the columns."""


@with_session_filter
def lift(
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Compare sessions with and without a masque.

    Default: the last 28 complete dates.
    """
    then, settings = parse_as_of(as_of), load_settings()
    with read_lake_as_of(settings, then) as lake:
        days = lake.partitions(AGENT_SESSIONS)
        first, last = span = parse_dates(dates) or usual_dates(days, which, then)
        chosen = dates_in(days, span)
        rows = compare_masques(lake, settings, then or datetime.now(UTC), chosen, which)
    if form is not OutputFormat.TABLE:
        write_rows(rows, form, first_date=first, last_date=last)
    elif rows.is_empty():
        said = "No ended session had one masque from start to end"
        print_line(f"{said} from {first} to {last}. For other dates: --date.")
    else:
        _print(rows, f"Masque minus baseline from {first} to {last}, with 95% intervals")


def _print(rows: pl.DataFrame, title: str) -> None:
    is_compared = pl.col("composite_difference").is_not_null()
    known, others = rows.filter(is_compared), rows.filter(~is_compared)
    if not known.is_empty():
        columns = (
            *("masque", "task class", "sessions #", "baseline #"),
            *("composite #", "failure rate #", "cost, USD #", "active time, s #", "organization"),
        )
        cells = _differences(known.sort("composite_difference", descending=True))
        print_table(title, columns, cells, essential=5)
        print_line()
    if not others.is_empty():
        few = ("masque", "task class", "sessions #", "baseline #", "composite", "organization")
        print_table("Too few to compare", few, _states(others), essential=5)
    print_line(
        "\nObservational data: people choose the masque and the task, so a difference can have "
        "other causes."
    )
    unknown = known.filter(pl.col("clustered_by") != PEOPLE).height
    if unknown:
        print_line(
            f"The people of many sessions are unknown in {pluralize(unknown, 'row')}: intervals "
            "there take sessions as independent and are too narrow."
        )
    intervals = sum(known[f"{measure}_low"].count() for measure in _DECIMALS)
    if intervals:
        print_line(
            "A difference whose interval contains 0 may be chance. One interval in twenty misses "
            f"the true difference by chance: about {max(1, intervals // 20)} of the {intervals} "
            "here."
        )


def _differences(rows: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    for row in rows.iter_rows(named=True):
        yield (
            *(row["masque"], row["task_class"], row["sessions"], row["baseline_sessions"]),
            *(_difference(row, measure, decimals) for measure, decimals in _DECIMALS.items()),
            row["organization_id"],
        )


def _states(rows: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    for row in rows.iter_rows(named=True):
        yield (
            *(row["masque"], row["task_class"], row["sessions"], row["baseline_sessions"]),
            *(row["composite_state"], row["organization_id"]),
        )


def _difference(row: Mapping[str, Any], measure: str, decimals: int) -> str:
    difference = row[f"{measure}_difference"]
    if difference is None:
        return str(row[f"{measure}_state"])
    low, high = row[f"{measure}_low"], row[f"{measure}_high"]
    if low is None:
        return f"{difference:+.{decimals}f} ({row[f'{measure}_state']})"
    return f"{difference:+.{decimals}f} ({low:+.{decimals}f} to {high:+.{decimals}f})"
