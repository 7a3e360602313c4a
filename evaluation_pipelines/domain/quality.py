"""Rules that a table must keep, date by date, and what a breach looks like."""

from dataclasses import dataclass
from typing import Literal

import polars as pl

from evaluation_pipelines.domain.schemas import Table

EXAMPLES = 5
"""How many offending rows a result shows."""

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What checking one rule on one date of one table gave.

    A broken rule of severity ``error`` keeps the date from being published.
    """

    table: str
    rule: str
    passed: bool
    expected: str
    found: str
    examples: tuple[str, ...] = ()
    severity: Severity = "error"


def keys_are_unique(frame: pl.DataFrame, table: Table) -> RuleResult:
    """No two rows share the table's key."""
    keys = frame.select(table.key)
    if keys.n_unique() == keys.height:  # to find out which ones repeat takes far longer
        keys = keys.clear()
    repeated = keys.group_by(table.key).len("rows").filter(pl.col("rows") > 1).sort(table.key)
    return RuleResult(
        table.name,
        "keys_are_unique",
        repeated.is_empty(),
        f"one row per {', '.join(table.key)}",
        f"{repeated.height} keys that several rows share",
        examples_of(repeated),
    )


def scores_are_in_range(frame: pl.DataFrame, table: Table, columns: tuple[str, ...]) -> RuleResult:
    """Every score is null or from 0 to 10."""
    fits = [pl.col(name).is_null() | pl.col(name).is_between(0, 10) for name in columns]
    broken = frame.filter(~pl.all_horizontal(fits)).select(*table.key, *columns)
    return RuleResult(
        table.name,
        "scores_are_in_range",
        broken.is_empty(),
        "every dimension and the composite null or from 0 to 10",
        f"{broken.height} rows with a score outside",
        examples_of(broken),
    )


def every_score_has_its_session(
    scores: pl.DataFrame, sessions: pl.DataFrame, table: Table
) -> RuleResult:
    """Scores and sessions are the same rows: none without the other."""
    keys = list(table.key)
    orphans = scores.join(sessions, on=keys, how="anti").select(keys)
    unscored = sessions.join(scores, on=keys, how="anti").select(keys)
    return RuleResult(
        table.name,
        "every_score_has_its_session",
        orphans.is_empty() and unscored.is_empty(),
        f"{sessions.height} scores, one for each session window",
        f"{orphans.height} scores without a session, {unscored.height} sessions without a score",
        examples_of(pl.concat([orphans.sort(keys), unscored.sort(keys)])),
    )


def every_report_has_its_session(
    reports: pl.DataFrame, sessions: pl.DataFrame, table: Table
) -> RuleResult:
    """Every report belongs to a session window of the same content."""
    keys = [*table.key, "content_hash"]
    orphans = reports.join(sessions, on=keys, how="anti", nulls_equal=True).select(keys)
    return RuleResult(
        table.name,
        "every_report_has_its_session",
        orphans.is_empty(),
        f"{reports.height} reports, each of a session window",
        f"{orphans.height} reports without one",
        examples_of(orphans.sort(keys)),
    )


def calls_add_up(reports: pl.DataFrame, sessions: pl.DataFrame, table: Table) -> RuleResult:
    """Reports count the same calls as their sessions: none is missing, none counted twice."""
    counts = {
        "total_calls": "total_tools",
        "failed_calls": "tools_failed",
        "denied_calls": "tools_denied",
        "unknown_calls": "tools_unknown",
    }
    told = reports.select(*table.key, *counts)
    counted = sessions.select(*table.key, *counts.values())
    beside = counted.join(told, on=table.key, how="left").with_columns(
        pl.col(list(counts)).fill_null(0)
    )
    differs = [pl.col(ours) != pl.col(theirs) for ours, theirs in counts.items()]
    wrong = beside.filter(pl.any_horizontal(differs)).sort(table.key)
    calls = int(counted["total_tools"].sum())
    return RuleResult(
        table.name,
        "calls_add_up",
        wrong.is_empty(),
        f"{calls} calls with a known outcome, as in the sessions",
        f"{int(told['total_calls'].sum())} calls; {wrong.height} sessions that differ",
        examples_of(wrong),
    )


def every_event_is_in_a_session(
    events: pl.DataFrame, sessions: pl.DataFrame, table: Table
) -> RuleResult:
    """Every session that sent an event has a window: none vanishes."""
    keys = ["organization_id", "session_id"]
    sent = senders(events)
    vanished = sent.join(sessions, on=keys, how="anti").sort(keys)
    return RuleResult(
        table.name,
        "every_event_is_in_a_session",
        vanished.is_empty(),
        f"windows of all {sent.height} sessions that sent events",
        f"{vanished.height} sessions without a window",
        examples_of(vanished),
    )


def senders(events: pl.DataFrame) -> pl.DataFrame:
    """``organization_id, session_id`` of the sessions that sent events, each once."""
    told = ("masque_don", "masque_doff")  # these say whose work the other events were
    sent = events.filter(~pl.col("event_name").is_in(told))
    return sent.select("organization_id", "session_id").unique()


def sequences_have_no_gaps(sessions: pl.DataFrame, table: Table) -> RuleResult:
    """No event of a session is missing; a warning, since what was lost cannot be had back."""
    missing_in = pl.col("missing_events")
    gaps = sessions.filter(missing_in > 0).sort(-missing_in, *table.key)
    missing = int(gaps["missing_events"].sum())
    return RuleResult(
        table.name,
        "sequences_have_no_gaps",
        gaps.is_empty(),
        "no gap in the event sequence of any session",
        f"{missing} missing events in {gaps.height} session windows",
        examples_of(gaps.select("session_key", "missing_events")),
        "warning",
    )


def examples_of(rows: pl.DataFrame) -> tuple[str, ...]:
    """The first rows as texts."""
    shown = (
        ", ".join(each.hex() if isinstance(each, bytes) else str(each) for each in row)
        for row in rows.head(EXAMPLES).iter_rows()
    )
    return tuple(shown)
