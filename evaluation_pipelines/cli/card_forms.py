"""Scorecards as people and programs read them: table, JSON, CSV, Parquet."""

import json
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import typer

from evaluation_pipelines.cli.csv_form import csv_of
from evaluation_pipelines.cli.terminal import complain, counted, one_line, print_table
from evaluation_pipelines.domain.sessions.performance import printed

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
        complain(f"{counted(cards.height, 'card')} in {output}")
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
        complain(f"no card of the best match: {which}: {one_line(reason or 'unknown')}")
    if late := sorted(behind & set(unscored["session_date"])):
        known = f"{late[0]} to {late[-1]}" if len(late) > 1 else f"{late[0]}"
        complain(f"That was so at the last build. What is known of {known} has changed: build.")


def card_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """A card as JSON has it: criteria as a mapping, times as text."""
    record = dict(row)
    record["criteria_scores"] = {
        each["key"]: each["value"] for each in row["criteria_scores"] or ()
    }
    return record


def one_decimal(score: float | None) -> str | None:
    """A score that was rounded already, as a person reads it."""
    return None if score is None else f"{score:.1f}"


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
