"""Scorecards as people and programs read them: table, JSON, CSV, Parquet."""

import json
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.audit import audit
from evaluation_pipelines.cli.corrections import (
    calibration,
    import_file,
    list_overrides,
    override_one,
)
from evaluation_pipelines.cli.dates import AS_OF, parse_as_of, parse_time
from evaluation_pipelines.cli.output import (
    counted,
    csv_of,
    one_decimal,
    one_line,
    print_error,
    print_line,
    print_table,
)
from evaluation_pipelines.scorecards.ledger.event_store import EventStore
from evaluation_pipelines.scorecards.scorecard_queries import (
    CardQuery,
    query_cards,
    query_unscored,
    refuse_unknown_names,
)
from evaluation_pipelines.sessions.domain.performance import printed
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import read_stores

_COLUMNS = (
    "session key",
    "score #",
    "from",
    "profile",
    "automatic #",
    "best",
    "started (UTC)",
    "label",
    "model",
    "agent",
)
_UNCARDED_COLUMNS = (
    "session key",
    "score #",
    "from",
    "best match",
    "started (UTC)",
    "label",
    "model",
    "agent",
)
_REASONS_SHOWN = 5


def write_cards(cards: pl.DataFrame, form: str, output: Path | None) -> None:
    """Cards in a form that programs read, to a file or to standard output.

    Raises:
        OSError: the file cannot be written.
    """
    if output is not None:
        staged = output.with_name(f".{output.name}.new")
        staged.write_bytes(_encoded(cards, form))
        staged.replace(output)
        print_error(f"{counted(cards.height, 'card')} in {output}")
    elif form == "parquet" and sys.stdout.isatty():
        raise typer.BadParameter("Parquet is not for the screen: name a file with --output")
    else:
        sys.stdout.buffer.write(_encoded(cards, form))
        sys.stdout.flush()


def print_cards(cards: pl.DataFrame) -> None:
    """One line a card, scores as 0-100."""
    low, high = pl.col("scale_min"), pl.col("scale_max")
    automatic = (pl.col("overall_score") - low) / (high - low) * 100
    shown = cards.with_columns(score=printed(pl.col("effective_100")), automatic=printed(automatic))
    rows = [_line(row) for row in shown.iter_rows(named=True)]
    print_table("Scorecards (scores as 0-100)", _COLUMNS, rows, essential=4)


def print_unscored(unscored: pl.DataFrame, behind: AbstractSet[date]) -> None:
    """What counts for sessions without a card of their best match, and why they have none.

    ``behind`` are dates that wait for a build.
    """
    shown = unscored.with_columns(score=printed(pl.col("effective_100")))
    rows = [_uncarded_line(row) for row in shown.iter_rows(named=True)]
    if rows:
        title = "Without a card of their best match: what counts (0-100)"
        print_table(title, _UNCARDED_COLUMNS, rows, essential=4)
    reasons = unscored.group_by("reason").agg(pl.len(), pl.col("session_key").first())
    for reason, number, key in reasons.sort("len", descending=True).head(_REASONS_SHOWN).rows():
        which = one_line(key) if number == 1 else counted(number, "session")
        print_error(f"no card of the best match: {which}: {one_line(reason or 'unknown')}")
    if late := sorted(behind & set(unscored["session_date"])):
        known = f"{late[0]} to {late[-1]}" if len(late) > 1 else f"{late[0]}"
        print_error(f"That was so at the last build. What is known of {known} has changed: build.")


def card_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """A card as JSON has it: criteria as a mapping, times as text."""
    record = dict(row)
    record["criteria_scores"] = {
        each["key"]: each["value"] for each in row["criteria_scores"] or ()
    }
    return record


def _line(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        row["session_key"],
        one_decimal(row["score"]),
        _source(row),
        f"{row['profile_id']} v{row['profile_version']}",
        one_decimal(row["automatic"]),
        "yes" if row["is_best_match"] else "no",
        row["started_at"].strftime("%Y-%m-%d %H:%M:%S"),
        row["classification_label"],
        row["model"],
        row["agent_id"],
    )


def _uncarded_line(row: Mapping[str, Any]) -> tuple[object, ...]:
    profile = row["profile_id"]
    return (
        row["session_key"],
        one_decimal(row["score"]),
        row["annotator"] or row["effective_source"],
        None if profile is None else f"{profile} v{row['profile_version']}",
        row["started_at"].strftime("%Y-%m-%d %H:%M:%S"),
        row["classification_label"],
        row["model"],
        row["agent_id"],
    )


def _source(row: Mapping[str, Any]) -> str:
    said = row["human_override"]
    if said is not None and not said["stale"]:
        return f"{said['annotator']}"
    if said is not None:
        return "card (override is stale)"
    if row["fallback"]:
        return "placeholder"
    return "disqualified" if row["disqualified"] else "card"


def _encoded(cards: pl.DataFrame, form: str) -> bytes:
    buffer = BytesIO()
    if form == "parquet":
        cards.write_parquet(buffer)
    elif form == "csv":
        buffer.write(csv_of(_flat(cards)).encode())
    else:
        records = [card_record(row) for row in cards.iter_rows(named=True)]
        buffer.write(json.dumps(records, indent=2, default=str).encode() + b"\n")
    return buffer.getvalue()


def _flat(cards: pl.DataFrame) -> pl.DataFrame:
    """Without nested columns: criteria as JSON text, the override in columns of its own."""
    criteria = [
        json.dumps(card_record(row)["criteria_scores"])
        for row in cards.select("criteria_scores").iter_rows(named=True)
    ]
    said = pl.col("human_override").struct
    return cards.with_columns(
        pl.Series("criteria_scores", criteria, pl.String),
        override_score=said.field("override_score"),
        override_annotator=said.field("annotator"),
        override_reason=said.field("reason"),
        override_at=said.field("at"),
        override_stale=said.field("stale"),
    ).drop("human_override")


app = typer.Typer(
    help="Scorecards: query, override, audit, import, overrides, calibration, events.",
    no_args_is_help=True,
)


class CardFormat(StrEnum):
    """How cards are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@app.command("query")
def query(  # noqa: PLR0913, PLR0917 - an option each
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="A session key or session id.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="An agent id.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Started then or later, UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Started before, UTC.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="A classification label.")] = None,
    model: Annotated[str | None, typer.Option(help="A model.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="A profile id, or best: the best match of each session.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Cards of older content and versions, too.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="How many at most, the newest.")] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[
        CardFormat, typer.Option("--format", help="How to print them.")
    ] = CardFormat.TABLE,
    output: Annotated[Path | None, typer.Option(help="Write to a file, not to the screen.")] = None,
) -> None:
    """Show scorecards; overrides count at once. Name a session, an agent or a time range.

    Of sessions without a card of their best match the table also shows the score that counts.
    """
    wanted = CardQuery(
        session=session,
        agent=agent,
        since=None if since is None else parse_time(since, "--from"),
        until=None if until is None else parse_time(until, "--to"),
        label=label,
        model=model,
        profile=profile,
        history=history,
        limit=limit,
    )
    then = parse_as_of(as_of)
    with read_stores_as_of(load_settings(), then) as stores:
        cards = query_cards(stores, wanted)
        unscored = query_unscored(stores, wanted)
        dates = RebuildQueue(stores.ledger).all() if then is None else []
        behind = {each.session_date for each in dates if not each.is_built}
        if cards.is_empty() and unscored.is_empty():
            refuse_unknown_names(stores, wanted)
    if form is not CardFormat.TABLE or output is not None:
        write_cards(cards, "csv" if form is CardFormat.TABLE else form.value, output)
        return
    if cards.is_empty():
        print_line("There are no scorecards like that.")
    else:
        print_cards(cards)
    print_unscored(unscored, behind)


app.command("override")(override_one)
app.command("import")(import_file)
app.command("overrides")(list_overrides)
app.command("audit")(audit)
app.command("calibration")(calibration)


@app.command("events")
def events(
    after: Annotated[int, typer.Option(help="Only those after this position.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 1000,
) -> None:
    """Print events of effective scores as JSON lines, oldest first, for programs that follow them.

    Go on with --after and the position of the last line.
    """
    with read_stores(load_settings()) as stores:
        for each in EventStore(stores.ledger).after(after, limit):
            line = {
                "position": each.position,
                "event_id": each.event_id,
                "recorded_at": each.recorded_at.isoformat(),
                **json.loads(each.payload),
            }
            sys.stdout.write(f"{json.dumps(line)}\n")
