"""Commands ``scorecards``: scorecards, overrides, score events, calibration."""

import json
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields
from datetime import date
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.conventions import ListGroup, refuse_unused
from evaluation_pipelines.cli.filters import (
    AS_OF,
    dates_in,
    named_session,
    parse_as_of,
    with_session_filter,
)
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
    write_output,
)
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.cli.scorecards.corrections import (
    calibration,
    list_overrides,
    override_sessions,
)
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.scorecards.domain.withheld import (
    REVIEW_DUE,
    WAITS,
    withhold,
    without_scores,
)
from evaluation_pipelines.scorecards.scorecard_queries import (
    CardQuery,
    query_cards,
    query_unscored,
    refuse_unknown_names,
)
from evaluation_pipelines.scorecards.store import events_after
from evaluation_pipelines.sessions.domain.performance import printed
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores

app = typer.Typer(cls=ListGroup, help="List scorecards, and override their scores.")

_SESSION_COLUMNS = ("started (UTC)", "label", "organization")
_FIRST_COLUMNS = ("session key", "score #", "agent", "model")
_CARD_COLUMNS = (
    *(*_FIRST_COLUMNS, "profile", "from", "automatic #", "best", "judge"),
    *_SESSION_COLUMNS,
)
_UNSCORED_COLUMNS = (*_FIRST_COLUMNS, "best match", "from", "judge", *_SESSION_COLUMNS)
_EVENT_COLUMNS = (
    *("position", "recorded_at", "event", "session_key", "effective_100", "effective_source"),
    *("profile_id", "organization_id"),
)
_FORMATS = (
    *(OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.CSV, OutputFormat.PARQUET),
    OutputFormat.JSONL,
)
_MAX_EVENTS = 1000
_MAX_REASONS = 5


class Listed(StrEnum):
    """What ``scorecards list`` lists."""

    CARDS = "cards"
    OVERRIDES = "overrides"
    EVENTS = "events"


_FORMATS_OF = {
    Listed.CARDS: (OutputFormat.PARQUET,),
    Listed.OVERRIDES: (),
    Listed.EVENTS: (OutputFormat.JSONL,),
}
"""Formats in addition to table, JSON and CSV."""


@app.command("list")
@with_session_filter
def list_scorecards(  # noqa: PLR0913, PLR0917 - one parameter per option
    what: Annotated[
        Listed, typer.Argument(metavar=f"[{'|'.join(Listed)}]", help="What to list.")
    ] = Listed.CARDS,
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="A session key or session id.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="A profile id, or best for the best match of each session.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also scorecards of older content and versions.")
    ] = False,
    stale: Annotated[
        bool, typer.Option("--stale", help="Only outdated overrides: the session changed.")
    ] = False,
    after: Annotated[
        int | None, typer.Option(metavar="N", help="Only events after this position.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the latest N.")
    ] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, format_option(*_FORMATS)] = OutputFormat.TABLE,
    output: Annotated[Path | None, OUTPUT_FILE] = None,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List scorecards, overrides, or score events.

    cards: scorecards with the latest overrides. Name a session, an agent or a time range. The table
    also lists sessions without a best-match scorecard, and hides scores of sessions awaiting
    review. overrides: human scores and whether they apply, oldest first. events: score changes,
    oldest first. To follow them, pass the last position to --after.
    """
    is_cards, is_special = what is Listed.CARDS, form in {OutputFormat.PARQUET, OutputFormat.JSONL}
    refuse_unused(
        f"scorecards list {what}",
        {
            "--session": session is not None and not is_cards,
            "--profile": profile is not None and not is_cards,
            "--history": history and not is_cards,
            "--output": output is not None and not is_cards,
            "--stale": stale and what is not Listed.OVERRIDES,
            "--after": after is not None and what is not Listed.EVENTS,
            "--as-of": as_of is not None and what is Listed.EVENTS,
            f"--format {form}": is_special and form not in _FORMATS_OF[what],
        },
    )
    then = parse_as_of(as_of)
    with read_stores_as_of(load_settings(), then) as stores:
        match what:
            case Listed.CARDS:
                query = _card_query(stores, which, session, profile, limit, history=history)
                _list_cards(stores, query, form, output, is_past=then is not None)
            case Listed.OVERRIDES:
                list_overrides(stores, which, limit, form, stale=stale)
            case Listed.EVENTS:
                _list_events(stores, which, after or 0, limit or _MAX_EVENTS, form)


def _card_query(
    stores: Stores,
    which: SessionFilter,
    session: str | None,
    profile: str | None,
    limit: int | None,
    *,
    history: bool,
) -> CardQuery:
    name, days = None, None
    if session is not None:
        name = named_session(stores.lake, session, which.organization).session
    if which.dates is not None:
        days = dates_in(stores.lake.partitions(SESSION_EVALUATIONS), which.dates)
    of_sessions = {field.name: getattr(which, field.name) for field in fields(which)}
    return CardQuery(
        **of_sessions, session=name, profile=profile, history=history, limit=limit, days=days
    )


def _list_cards(
    stores: Stores, query: CardQuery, form: OutputFormat, output: Path | None, *, is_past: bool
) -> None:
    cards, unscored = query_cards(stores, query), query_unscored(stores, query)
    if cards.is_empty() and unscored.is_empty():
        refuse_unknown_names(stores, query)
    if form is not OutputFormat.TABLE or output is not None:
        _write_cards(cards, form, output)
        return
    waiting = waiting_of(stores)
    if cards.is_empty():
        print_line("No matching scorecards. Remove a filter.")
    else:
        _print_cards(withhold(cards, waiting))
    queued = [] if is_past else RebuildQueue(stores.ledger).all()
    queued_dates = {queued_date.session_date for queued_date in queued if not queued_date.is_built}
    _print_unscored(withhold(unscored, waiting), queued_dates)


def _list_events(
    stores: Stores, which: SessionFilter, after: int, limit: int, form: OutputFormat
) -> None:
    found = [
        {
            "position": event.position,
            "event_id": event.event_id,
            "recorded_at": event.recorded_at.isoformat(),
            **json.loads(event.payload),
        }
        for event in events_after(stores, after, limit, which)
    ]
    if form is OutputFormat.JSONL:
        for event in found:
            print_line(json.dumps(event))
    elif form is OutputFormat.TABLE:
        waiting = waiting_of(stores)
        shown = [
            without_scores(card)
            if (card["organization_id"], card["session_key"]) in waiting
            else card
            for card in found
        ]
        rows = [[event.get(name) for name in _EVENT_COLUMNS] for event in shown]
        headings = [name.replace("_", " ") for name in _EVENT_COLUMNS]
        print_table("Score events", headings, rows, 4)
    else:
        write_rows(found, form, None if found else _EVENT_COLUMNS)


app.command("override")(override_sessions)
app.command("calibration")(calibration)


def _print_cards(cards: pl.DataFrame) -> None:
    low, high = pl.col("scale_min"), pl.col("scale_max")
    automatic = (pl.col("overall_score") - low) / (high - low) * 100
    shown = cards.with_columns(score=printed(pl.col("effective_100")), automatic=printed(automatic))
    rows = [_card_line(row) for row in shown.iter_rows(named=True)]
    print_table("Scorecards (scores as 0-100)", _CARD_COLUMNS, rows, 4)


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
        print_table(title, _UNSCORED_COLUMNS, rows, 4)
    told = unscored.filter(~pl.col(WAITS))
    reasons = told.group_by("reason").agg(pl.len(), pl.col("session_key").first())
    for reason, number, key in reasons.sort("len", descending=True).head(_MAX_REASONS).rows():
        which = one_line(key) if number == 1 else pluralize(number, "session")
        reason_text = one_line(reason or "unknown")
        print_error(f"no scorecard of the best match: {which}: {reason_text}")
    if outdated := sorted(queued_dates & set(unscored["session_date"])):
        first, last = outdated[0], outdated[-1]
        dates = f"{first} to {last}" if len(outdated) > 1 else f"{first}"
        print_error(f"Last build shown. {dates} changed since: run `evaluation-pipelines build`.")


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
    return {score["key"]: score["value"] for score in row["criteria_scores"] or ()}
