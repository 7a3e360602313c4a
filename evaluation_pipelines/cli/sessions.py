"""Command ``sessions``: the sessions of the lake with their scores."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated

import typer

from evaluation_pipelines.as_of import read_lake_as_of, read_stores_as_of
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, dates_in, parse_as_of, parse_dates
from evaluation_pipelines.cli.default_command import DefaultCommandGroup
from evaluation_pipelines.cli.filters import options_text, with_session_filter
from evaluation_pipelines.cli.options import ORGANIZATION, SESSION
from evaluation_pipelines.cli.output import (
    OutputFormat,
    format_option,
    one_line,
    pluralize,
    print_error,
    print_json,
    print_line,
)
from evaluation_pipelines.cli.rows import FORMAT, write_rows
from evaluation_pipelines.cli.session_groups import sessions_by
from evaluation_pipelines.cli.session_lines import session_key_of
from evaluation_pipelines.cli.session_names import named_session
from evaluation_pipelines.cli.session_scores import (
    StoredScore,
    print_stored_sessions,
    stored_scores,
    waiting_of,
)
from evaluation_pipelines.judging.domain.badge import Badge
from evaluation_pipelines.people.view import hidden_columns
from evaluation_pipelines.schemas import AGENT_SESSIONS, RANKED_PERFORMANCE, SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.find_session import SessionRow, session_rows
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores

_NAMES = tuple(dict.fromkeys([*AGENT_SESSIONS.schema, *RANKED_PERFORMANCE.schema]))
_LIMIT = 50
_PAIRS = {"tool_mix", "session_attributes"}
"""Columns of keys and values."""


class SessionsGroup(DefaultCommandGroup):
    """Command group that treats ``sessions`` as ``sessions list``."""

    default = "list"
    runs_alone = True


app = typer.Typer(
    cls=SessionsGroup,
    help="Sessions with their scores: sessions lists them, sessions show SESSION tells all of one, "
    "sessions by person|team|repository... compares.",
)


@app.command("list")
@with_session_filter
def list_sessions(
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help=f"Only the newest N. Default: {_LIMIT} in a table, else all."
        ),
    ] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[
        OutputFormat,
        format_option(
            OutputFormat.TABLE,
            OutputFormat.JSON,
            OutputFormat.CSV,
            help_text="Output format; json and csv have all columns, unrounded.",
        ),
    ] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List sessions of the lake with their scores, oldest first. The same as `sessions`.

    The table has no scores of sessions for which a blind review is due (scorecards audit).
    """
    date_range = parse_dates(dates)
    settings, then = load_settings(), parse_as_of(as_of)
    with read_lake_as_of(settings, then) as lake:
        days = dates_in(lake.partitions(AGENT_SESSIONS), date_range)
        rows = stored_sessions(lake, days, which, ranked=form is not OutputFormat.TABLE)
        usual = _LIMIT if form is OutputFormat.TABLE else len(rows)
        hidden = hidden_columns(settings.people_view)
        names = [name for name in _NAMES if name not in hidden]
        newest = rows[-(limit or usual or 1) :]
        if newest:
            with read_stores_as_of(settings, then) as stores:
                _print_newest(stores, newest, form, names)
        elif form is not OutputFormat.TABLE:
            write_rows([], form, [*names, *_scored(_NO_SCORE)])
        print_remark = print_line if form is OutputFormat.TABLE else print_error
        if len(rows) > len(newest):
            older = pluralize(len(rows) - len(newest), "older session")
            print_remark(f"{older} not shown: use --limit or --date")
        if not rows:
            print_remark(_no_sessions(lake, which, has_dates=dates is not None))


app.command("by")(sessions_by)


@app.command("show")
def show_session(
    session: Annotated[str, SESSION],
    transcript: Annotated[
        bool, typer.Option("--transcript", help="Also every step with its texts.")
    ] = False,
    organization: Annotated[str | None, ORGANIZATION] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Show all of one session: who, what, scores with their reasons, overrides and lost calls.

    Texts are those that were logged, without secrets. csv has no transcript.
    """
    from evaluation_pipelines.cli import session_show  # slow to import
    from evaluation_pipelines.judging.current_rubrics import current_rubrics
    from evaluation_pipelines.judging.score_requests import SessionQuery
    from evaluation_pipelines.reporting.session_timeline import session_timeline
    from evaluation_pipelines.reporting.session_view import session_view

    settings, then = load_settings(), parse_as_of(as_of)
    hidden = hidden_columns(settings.people_view)
    with read_stores_as_of(settings, then) as stores:
        name = named_session(stores.lake, session, organization)
        view = session_view(stores, SessionQuery(name, organization), then)
        now, timeline = then or datetime.now(UTC), None
        if transcript:
            timeline = session_timeline(stores, view.session, now, None, slice(None))
        if form is OutputFormat.TABLE:
            is_withheld = session_key_of(view.session) in waiting_of(stores)
        if form is OutputFormat.JSON:
            rubrics = current_rubrics(stores)
            print_json(session_show.session_record(view, rubrics, hidden, timeline))
    if form is OutputFormat.JSON:
        return
    if form is OutputFormat.CSV:
        write_rows([session_show.session_row(view, hidden)], form)
    else:
        minutes = stores.settings.session_idle_minutes
        session_show.print_session(view, hidden, is_withheld=is_withheld, idle_minutes=minutes)
        if transcript:
            session_show.print_timeline(timeline)


def stored_sessions(
    lake: Lake, dates: list[date], which: SessionFilter = ALL_SESSIONS, *, ranked: bool = False
) -> list[SessionRow]:
    """Return sessions of the lake with their scores, in the order they started.

    With ``ranked`` they have ``percentile_in_class``, which takes the 28 days before as well.
    """
    sessions = lake.read(AGENT_SESSIONS, dates, where=which.condition())
    if ranked:
        from evaluation_pipelines.sessions.percentiles import ranked_performance  # loads DuckDB

        return session_rows(sessions, ranked_performance(lake, dates))
    return session_rows(sessions, lake.read(SESSION_PERFORMANCE, dates))


def _print_newest(
    stores: Stores, newest: Sequence[SessionRow], form: OutputFormat, names: Sequence[str]
) -> None:
    """Print sessions; ``names`` are the columns of JSON and CSV."""
    if form is OutputFormat.TABLE:
        print_stored_sessions(stores, newest)
        return
    scores = stored_scores(stores, newest)
    records = [_record(row, names) | _scored(scores[session_key_of(row)]) for row in newest]
    write_rows(records, form, [*names, *_scored(_NO_SCORE)])


def _no_sessions(lake: Lake, which: SessionFilter, *, has_dates: bool) -> str:
    """Say what there are no sessions of: a lake, some dates, or a filter."""
    said = f"There are no sessions in {lake.store.address('')}"
    if not lake.partitions(AGENT_SESSIONS):
        return f"{said} yet. Run evaluation-pipelines ingest and build, or set EVAL_DATA_DIR."
    chosen = "" if which.is_empty else f" with {one_line(options_text(which))}"
    return f"{said}{chosen}{' on these dates' if has_dates else ''}."


def _record(row: SessionRow, names: Sequence[str]) -> dict[str, object]:
    """Return columns of a session, with lists of keys and values as objects."""
    return {name: _value(name, row[name]) for name in names}


_NO_SCORE = StoredScore(None, "none", None, Badge())


def _scored(score: StoredScore) -> dict[str, object]:
    """Return the columns about scores that follow those of the tables."""
    judged = score.badge
    return {
        "effective_100": score.effective_100,
        "provisional_100": score.provisional_100,
        "effective_source": score.effective_source,
        "judge_badge": judged.text,
        "judge_total": judged.total,
        "judge_model": judged.model,
        "judge_flags": list(judged.flags),
    }


def _value(name: str, value: object) -> object:
    if name in _PAIRS and isinstance(value, list):
        return {each["key"]: each["value"] for each in value}
    return value
