"""Tables of sessions that several commands print."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from evaluation_pipelines.cli.output import one_line, print_line, print_table
from evaluation_pipelines.judging.domain.badge import band
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.views.listing import SESSION_LISTING

if TYPE_CHECKING:
    from evaluation_pipelines.storage.stores import Stores

_COLUMNS = {
    "session key": "session_key",
    "score #": "effective_100",
    "agent": "agent_id",
    "model": "model",
    "judge": "judge_badge",
    "composite #": "composite",
    "program": "source_cli",
    "started (UTC)": "started_at",
    "tools #": "total_tools",
    "failed #": "tools_failed",
    "outcome": "outcome",
    "organization": "organization_id",
    "recommendation": "recommendation",
    "masque": "masque",
}
"""Heading -> column, the most important ones first: a narrow terminal leaves out the last ones."""

TABLE_COLUMNS = tuple(_COLUMNS.values())

_NOT_STORED = (
    *("session key", "composite #", "program", "model", "started (UTC)", "tools #", "failed #"),
    *("organization", "recommendation", "masque"),
)
"""Headings for sessions that are not stored: without judge and human scores."""

_ESSENTIAL = 4


def print_sessions(rows: Sequence[SessionRow]) -> None:
    """Print a table of sessions that are not stored, one a line."""
    lines = [[_cell(row, _COLUMNS[name]) for name in _NOT_STORED] for row in rows]
    print_table("Sessions", _NOT_STORED, lines, _ESSENTIAL)


def print_stored(rows: pl.DataFrame, title: str = "Sessions") -> None:
    """Print a table of stored sessions, one a line.

    Args:
        rows: TABLE_COLUMNS of SESSIONS, ``judge_model`` and what is withheld.
        title: The title.
    """
    shown = rows.to_dicts()
    lines = [[_cell(row, name) for name in TABLE_COLUMNS] for row in shown]
    print_table(title, list(_COLUMNS), lines, _ESSENTIAL)
    print_line(_scales({row["judge_model"] for row in shown} - {None}))


def waiting_of(stores: "Stores") -> frozenset[SessionKey]:
    """Return the sessions that await a blind review now: no table shows their scores.

    A table as of a past time does not, either: many sessions had their scores before their draw.
    """
    # Loads the ledger, which a score of files does not need.
    from evaluation_pipelines.scorecards.blind_reviews import BlindReviews, open_samples

    if stores.ledger.as_of is None:
        return BlindReviews(stores).waiting()
    present = replace(stores, ledger=replace(stores.ledger, as_of=None))
    return frozenset(sample.key for sample in open_samples(present))


def session_key_of(row: SessionRow) -> SessionKey:
    """Return (organization_id, session_key)."""
    return row["organization_id"], row["session_key"]


def _cell(row: Mapping[str, Any], name: str) -> str:
    if name == "masque" and row[name] is None:
        return "baseline"
    if name != "effective_100":
        return SESSION_LISTING.cell(row, name)
    shown = SESSION_LISTING.score(row)
    return shown if row[name] is None else f"{shown} {band(row[name])}"


def _scales(judge_models: Collection[str | None]) -> str:
    """Return what the numbers of the table mean, and which models judged."""
    models = ", ".join(sorted(one_line(f"{model}") for model in judge_models))
    judge = f"by {models}" if models else "these sessions are not judged"
    return (
        f"\nscore and judge: 0-100 (red below 50, green from 75). judge: {judge}. composite: 0-10."
    )
