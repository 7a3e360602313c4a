"""Commands ``scorecards``: query, overrides, audit, calibration and events."""

import json
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.dates import (
    AS_OF,
    DATES_STARTED,
    FROM_TIME,
    TO_TIME,
    parse_as_of,
    parse_time_range,
)
from evaluation_pipelines.cli.filters import with_session_filter
from evaluation_pipelines.cli.options import ORGANIZATION
from evaluation_pipelines.cli.output import (
    OUTPUT_FILE,
    OutputFormat,
    csv_text,
    format_option,
    json_text,
    one_decimal,
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
    shortened_to,
    write_output,
)
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.cli.scorecards.audit import audit
from evaluation_pipelines.cli.scorecards.corrections import (
    calibration,
    import_file,
    list_overrides,
    override_one,
)
from evaluation_pipelines.cli.session_names import named_session
from evaluation_pipelines.cli.session_scores import waiting_of
from evaluation_pipelines.scorecards.domain.withheld import (
    REVIEW_DUE,
    WAITS,
    withhold,
    without_scores,
)
from evaluation_pipelines.scorecards.event_queries import events_after
from evaluation_pipelines.scorecards.scorecard_queries import (
    CardQuery,
    query_cards,
    query_unscored,
    refuse_unknown_names,
)
from evaluation_pipelines.sessions.domain.performance import printed
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import read_stores

app = typer.Typer(
    help="Scorecards: query, override, audit, import, overrides, calibration, events.",
    no_args_is_help=True,
)

_SESSION_COLUMNS = ("started (UTC)", "label", "organization")
_FIRST_COLUMNS = ("session key", "score #", "agent", "model")
_CARD_COLUMNS = (
    *(*_FIRST_COLUMNS, "profile", "from", "automatic #", "best", "judge"),
    *_SESSION_COLUMNS,
)
_UNSCORED_COLUMNS = (*_FIRST_COLUMNS, "best match", "from", "judge", *_SESSION_COLUMNS)
_SHORTENED = {"agent": shortened_to(14), "model": shortened_to(16)}
_EVENT_COLUMNS = (
    *("position", "recorded_at", "event", "session_key", "effective_100", "effective_source"),
    *("profile_id", "organization_id"),
)
_EVENT_FORMATS = (OutputFormat.JSONL, OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.CSV)
_MAX_REASONS = 5


@app.command("query")
@with_session_filter
def query(  # noqa: PLR0913, PLR0917 - one parameter per option
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="A session key or session id.")
    ] = None,
    organization: Annotated[str | None, ORGANIZATION] = None,
    agent: Annotated[str | None, typer.Option(help="An agent id.")] = None,
    dates: Annotated[str | None, DATES_STARTED] = None,
    since: Annotated[str | None, FROM_TIME] = None,
    until: Annotated[str | None, TO_TIME] = None,
    label: Annotated[str | None, typer.Option(help="A classification label.")] = None,
    model: Annotated[str | None, typer.Option(help="A model.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="A profile id, or best for the best match of each session.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also scorecards of older content and versions.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of scorecards, the newest.")
    ] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[
        OutputFormat,
        format_option(
            OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.CSV, OutputFormat.PARQUET
        ),
    ] = OutputFormat.TABLE,
    output: Annotated[Path | None, OUTPUT_FILE] = None,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Show scorecards with the newest overrides. Name a session, an agent or a time range.

    The table also has the effective scores of sessions without a scorecard of their best match,
    and no scores of sessions for which a blind review is due (scorecards audit).
    """
    begin, end = parse_time_range(dates, since, until)
    card_query = CardQuery(
        session=None,
        organization=organization,
        agent=agent,
        since=begin,
        until=end,
        label=label,
        model=model,
        profile=profile,
        history=history,
        limit=limit,
        sessions=which,
    )
    then = parse_as_of(as_of)
    with read_stores_as_of(load_settings(), then) as stores:
        if session is not None:
            key = named_session(stores.lake, session, organization)
            card_query = replace(card_query, session=key)
        cards = query_cards(stores, card_query)
        unscored = query_unscored(stores, card_query)
        queued = RebuildQueue(stores.ledger).all() if then is None else []
        waiting = waiting_of(stores) if form is OutputFormat.TABLE else ()
        if cards.is_empty() and unscored.is_empty():
            refuse_unknown_names(stores, card_query)
    if form is not OutputFormat.TABLE or output is not None:
        _write_cards(cards, form, output)
        return
    if cards.is_empty():
        print_line("No scorecard meets these conditions.")
    else:
        _print_cards(withhold(cards, waiting))
    queued_dates = {each.session_date for each in queued if not each.is_built}
    _print_unscored(withhold(unscored, waiting), queued_dates)


app.command("override")(override_one)
app.command("import")(import_file)
app.command("overrides")(list_overrides)
app.command("audit")(audit)
app.command("calibration")(calibration)


@app.command("events")
@with_session_filter
def events(
    after: Annotated[int, typer.Option(help="Only events after this position.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of events.")] = 1000,
    form: Annotated[OutputFormat, format_option(*_EVENT_FORMATS)] = OutputFormat.JSONL,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Print events of effective scores, oldest first.

    To follow the events, pass the position of the last line to --after.
    """
    with read_stores(load_settings()) as stores:
        found = [
            {
                "position": each.position,
                "event_id": each.event_id,
                "recorded_at": each.recorded_at.isoformat(),
                **json.loads(each.payload),
            }
            for each in events_after(stores, after, limit, which)
        ]
        waiting = waiting_of(stores)
    if form is OutputFormat.JSONL:
        for event in found:
            print_line(json.dumps(event))
    elif form is OutputFormat.TABLE:
        shown = [
            without_scores(each)
            if (each["organization_id"], each["session_key"]) in waiting
            else each
            for each in found
        ]
        rows = [[event.get(name) for name in _EVENT_COLUMNS] for event in shown]
        headings = [name.replace("_", " ") for name in _EVENT_COLUMNS]
        print_table("Events of effective scores", headings, rows, 4)
    else:
        write_rows(found, form, None if found else _EVENT_COLUMNS)


def _print_cards(cards: pl.DataFrame) -> None:
    low, high = pl.col("scale_min"), pl.col("scale_max")
    automatic = (pl.col("overall_score") - low) / (high - low) * 100
    shown = cards.with_columns(score=printed(pl.col("effective_100")), automatic=printed(automatic))
    rows = [_card_line(row) for row in shown.iter_rows(named=True)]
    print_table("Scorecards (scores as 0-100)", _CARD_COLUMNS, rows, 4, _SHORTENED)


def _print_unscored(unscored: pl.DataFrame, queued_dates: AbstractSet[date]) -> None:
    """Print the effective scores of sessions without a card of their best match, and the reasons.

    Args:
        unscored: Rows of ``query_unscored``.
        queued_dates: Dates that are due for a build.
    """
    shown = unscored.with_columns(score=printed(pl.col("effective_100")))
    rows = [_unscored_line(row) for row in shown.iter_rows(named=True)]
    if rows:
        title = "Without a scorecard of their best match: effective scores (0-100)"
        print_table(title, _UNSCORED_COLUMNS, rows, 4, _SHORTENED)
    told = unscored.filter(~pl.col(WAITS))
    reasons = told.group_by("reason").agg(pl.len(), pl.col("session_key").first())
    for reason, number, key in reasons.sort("len", descending=True).head(_MAX_REASONS).rows():
        which = one_line(key) if number == 1 else pluralize(number, "session")
        reason_text = one_line(reason or "unknown")
        print_error(f"no scorecard of the best match: {which}: {reason_text}")
    if outdated := sorted(queued_dates & set(unscored["session_date"])):
        first, last = outdated[0], outdated[-1]
        dates = f"{first} to {last}" if len(outdated) > 1 else f"{first}"
        print_error(f"This is the state of the last build. {dates} has changed since: run build.")


def _card_line(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        *(row["session_key"], one_decimal(row["score"]), row["agent_id"], row["model"]),
        *(f"{row['profile_id']} v{row['profile_version']}", _source(row)),
        one_decimal(row["automatic"]),
        "yes" if row["is_best_match"] else "no",
        _judge(row),
        *_session_cells(row),
    )


def _unscored_line(row: Mapping[str, Any]) -> tuple[object, ...]:
    profile = row["profile_id"]
    return (
        *(row["session_key"], one_decimal(row["score"]), row["agent_id"], row["model"]),
        None if profile is None else f"{profile} v{row['profile_version']}",
        REVIEW_DUE if row[WAITS] else row["annotator"] or row["effective_source"],
        _judge(row),
        *_session_cells(row),
    )


def _judge(row: Mapping[str, Any]) -> str | None:
    """Return the model that judged, with the flags of its judgment."""
    flags = row["judge_flags"]
    return f"{row['judge_model']} ({flags})" if flags else row["judge_model"]


def _session_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    started = row["started_at"].strftime("%Y-%m-%d %H:%M:%S")
    names = ("classification_label", "organization_id")
    return started, *(row[name] for name in names)


def _source(row: Mapping[str, Any]) -> str:
    human = row["human_override"]
    if row[WAITS]:
        return REVIEW_DUE
    if human is not None and not human["stale"]:
        return str(human["annotator"])
    if human is not None:
        return "card (override is stale)"
    if row["fallback"]:
        return "placeholder"
    return "disqualified" if row["disqualified"] else "card"


def _write_cards(cards: pl.DataFrame, form: OutputFormat, output: Path | None) -> None:
    """Write cards to a file or to standard output; a table is written as CSV.

    Raises:
        OSError: The file cannot be written.
    """
    if form is OutputFormat.PARQUET and output is None and sys.stdout.isatty():
        raise typer.BadParameter("Parquet cannot be shown on a terminal: name a file with --output")
    write_output(_encode(cards, form), output)
    if output is not None:
        print_error(f"{pluralize(cards.height, 'scorecard')} in {output}")


def _encode(cards: pl.DataFrame, form: OutputFormat) -> bytes:
    if form is OutputFormat.PARQUET:
        buffer = BytesIO()
        cards.write_parquet(buffer)
        return buffer.getvalue()
    if form is OutputFormat.JSON:
        records = [
            {**row, "criteria_scores": _criteria(row)} for row in cards.iter_rows(named=True)
        ]
        return json_text({"items": records}).encode()
    return csv_text(_flat(cards)).encode()


def _flat(cards: pl.DataFrame) -> pl.DataFrame:
    """Return cards for CSV: criteria as JSON, and the override in separate columns."""
    rows = cards.select("criteria_scores").iter_rows(named=True)
    human = pl.col("human_override").struct
    return cards.with_columns(
        pl.Series("criteria_scores", [json.dumps(_criteria(row)) for row in rows], pl.String),
        override_score=human.field("override_score"),
        override_annotator=human.field("annotator"),
        override_reason=human.field("reason"),
        override_at=human.field("at"),
        override_stale=human.field("stale"),
    ).drop("human_override")


def _criteria(row: Mapping[str, Any]) -> dict[str, Any]:
    return {each["key"]: each["value"] for each in row["criteria_scores"] or ()}
