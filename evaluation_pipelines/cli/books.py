"""Command ``books``: the state of every session of a day, and whether all counts add up."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.cli.conventions import refuse_unused
from evaluation_pipelines.cli.filters import option_names, with_session_filter
from evaluation_pipelines.cli.output import (
    DATA,
    OutputFormat,
    format_option,
    one_line,
    pluralize,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.reporting.books import settled_books
from evaluation_pipelines.reporting.domain.book_states import (
    BY_PROFILE,
    STATES,
    title_of,
)
from evaluation_pipelines.reporting.domain.books import DayBooks, Equation
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.sessions.find import chosen_rows
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import read_stores
from evaluation_pipelines.views.listing import BOOK_LISTING
from evaluation_pipelines.views.sessions import sessions as sessions_of

State = StrEnum("State", {name: name for name in STATES})  # type: ignore[misc]


@with_session_filter
def books(
    dates: Annotated[str, typer.Argument(metavar="DATE", help="A UTC date, such as 2026-11-21.")],
    sessions: Annotated[State | None, typer.Option(help="List the sessions in this state.")] = None,
    form: Annotated[
        OutputFormat,
        format_option(*DATA, help_text="Output format. csv and json items are the sessions."),
    ] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Check that a day's sessions and events add up.

    Each session has one state, and each event is counted once. Session filters apply to
    --sessions, json and csv. The books always cover the whole day. Exits with 1 if they do not
    balance.
    """
    if sessions is None and form is OutputFormat.TABLE:  # which shows the whole day
        refuse_unused("books without --sessions", dict.fromkeys(option_names(which), True))
    session_date = _parse_date(dates)
    with read_stores(load_settings()) as stores:
        found = settled_books(stores, session_date, datetime.now(UTC))
        scored = sessions_of(stores, [session_date])["effective_100"].count()
        if form is OutputFormat.TABLE:
            found = found.seen(waiting_of(stores))
        chosen = chosen_rows(stores.lake, which, found.sessions)
    if sessions is not None:
        chosen = chosen.filter(pl.col("state") == str(sessions))
    if form is not OutputFormat.TABLE:
        write_rows(chosen, form, **_record(found, scored))
    elif sessions is not None:
        _print_summary(found, scored)
        _print_sessions(chosen, str(sessions))
    else:
        _print(found, scored)
    if not found.is_balanced:
        raise typer.Exit(1)


def _parse_date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{one_line(text)} is not a date. Use 2026-11-21") from error


def _print(found: DayBooks, scored: int) -> None:
    """Print the summary, the states with their reasons, and the equations."""
    _print_summary(found, scored)
    if found.is_balanced and not found.has_data:
        return
    if not found.sessions.is_empty():
        print_table("\nSessions", ("state", "sessions #", "reason"), _states(found), essential=2)
    print_line("\nEquations")
    for equation in found.equations:
        print_line(f"  {'=' if equation.is_balanced else '!'} {one_line(str(equation))}")
        for example in equation.examples if not equation.is_balanced else ():
            print_line(f"      {one_line(example)}")
    others = [
        (unattributed.what, unattributed.number, unattributed.note)
        for unattributed in found.unattributed
        if unattributed.number
    ]
    if others:
        print_table("\nNot part of a session", ("records", "number #", "note"), others, essential=2)
    print_line(f"\nJudge cost for this day: {_dollars(found.judge_cost_usd)}.")


def _print_summary(found: DayBooks, scored: int) -> None:
    broken = [equation for equation in found.equations if not equation.is_balanced]
    sessions, day = pluralize(found.sessions.height, "session"), found.session_date
    if not broken and not found.has_data:
        print_line(f"{day}: no data on this day.")
    elif not broken and found.sessions.is_empty():
        print_line(f"{day}: no session started on this day, and the books balance.")
    elif not broken:
        counts = (
            f"{sessions}, {scored:,} scored, {found.states[BY_PROFILE]:,} scored by their profile"
        )
        print_line(f"{day}: the books balance: {counts}.")
    else:
        problem = f"{len(broken)} of {len(found.equations)} equations do not add up"
        print_line(f"{day}: the books do NOT balance: {problem}.")
    if found.waits is not None:
        print_line(f"The day is {one_line(found.waits)}: evaluation-pipelines build --date {day}")


def _states(found: DayBooks) -> Iterator[tuple[object, ...]]:
    """Yield a row per state with sessions, then a row per reason if there are several."""
    for state, number in ((name, number) for name, number in found.states.items() if number):
        reasons = found.reasons(state)
        if len(reasons) <= 1:
            yield title_of(state), number, reasons[0][0] if reasons else STATES[state].meaning
            continue
        yield title_of(state), number, STATES[state].meaning
        for reason, times in reasons:
            yield "", times, reason


def _print_sessions(chosen: pl.DataFrame, state: str) -> None:
    columns = ("session key", "reason", "label", "model", "judgments #", "organization")
    names = [
        *("session_key", "reason", "classification_label", "model"),
        *("scorings", "organization_id"),
    ]
    title = f"\n{pluralize(chosen.height, 'session')} in the state: {title_of(state)}"
    if chosen.is_empty():
        print_line(title)
        return
    lines = [[BOOK_LISTING.cell(row, name) for name in names] for row in chosen.to_dicts()]
    print_table(title, columns, lines, essential=2)
    print_line(f"To change the state: {STATES[state].what_next}.")


def _dollars(cost_usd: float | None) -> str:
    return "unknown, because a price is unknown" if cost_usd is None else f"${cost_usd:.4f}"


def _record(found: DayBooks, scored: int) -> dict[str, Any]:
    return {
        "session_date": found.session_date,
        "as_of": found.as_of,
        "is_balanced": found.is_balanced,
        "waits": found.waits,
        "scored": scored,
        "states": found.states,
        "equations": [_equation(equation) for equation in found.equations],
        "unattributed": [
            {"what": unattributed.what, "number": unattributed.number, "note": unattributed.note}
            for unattributed in found.unattributed
        ],
        "judge_cost_usd": found.judge_cost_usd,
    }


def _equation(equation: Equation) -> dict[str, Any]:
    return {
        "name": equation.name,
        "whole": {"what": equation.whole.what, "number": equation.whole.number},
        "parts": [{"what": part.what, "number": part.number} for part in equation.parts],
        "difference": equation.difference,
        "examples": equation.examples,
    }
