"""Checks on one date of the session tables."""

import polars as pl

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.schemas.table import CheckResult, examples_of
from evaluation_pipelines.sessions.domain.performance import SCORE_RANGE


def scores_are_in_range(frame: pl.DataFrame, table: Table, columns: tuple[str, ...]) -> CheckResult:
    """Every score is null or from 0 to 10."""
    fits = [pl.col(name).is_null() | pl.col(name).is_between(*SCORE_RANGE) for name in columns]
    broken = frame.filter(~pl.all_horizontal(fits)).select(*table.key, *columns)
    return CheckResult(
        table.name,
        "scores_are_in_range",
        broken.is_empty(),
        "every dimension and the composite null or from 0 to 10",
        f"{broken.height:,} rows with a score outside",
        examples_of(broken),
    )


def every_score_has_its_session(
    scores: pl.DataFrame, sessions: pl.DataFrame, table: Table
) -> CheckResult:
    """Every score has a session window, and every session window has a score."""
    keys = list(table.key)
    scored, known = scores.lazy().select(keys), sessions.lazy().select(keys)
    orphans, unscored = pl.collect_all(
        [
            scored.join(known, on=keys, how="anti").sort(keys),
            known.join(scored, on=keys, how="anti").sort(keys),
        ]
    )
    return CheckResult(
        table.name,
        "every_score_has_its_session",
        orphans.is_empty() and unscored.is_empty(),
        f"{sessions.height:,} scores, one for each session window",
        f"{orphans.height:,} scores without a session, "
        f"{unscored.height:,} sessions without a score",
        examples_of(pl.concat([orphans, unscored])),
    )


def every_report_has_its_session(
    reports: pl.DataFrame, sessions: pl.DataFrame, table: Table
) -> CheckResult:
    """Every report has a session window with the same content."""
    keys = [*table.key, "content_hash"]
    orphans = reports.join(sessions, on=keys, how="anti", nulls_equal=True).select(keys)
    return CheckResult(
        table.name,
        "every_report_has_its_session",
        orphans.is_empty(),
        f"{reports.height:,} reports, each of a session window",
        f"{orphans.height:,} reports without one",
        examples_of(orphans.sort(keys)),
    )


def calls_add_up(reports: pl.DataFrame, sessions: pl.DataFrame, table: Table) -> CheckResult:
    """Reports count the same calls as their sessions: none is missing or counted twice."""
    session_columns = {
        "total_calls": "total_tools",
        "failed_calls": "tools_failed",
        "denied_calls": "tools_denied",
        "unknown_calls": "tools_unknown",
    }
    reported = reports.select(*table.key, *session_columns)
    counted = sessions.select(*table.key, *session_columns.values())
    counts = [*session_columns, *session_columns.values()]
    both = counted.join(reported, on=table.key, how="left").with_columns(
        pl.col(counts).fill_null(0)  # without a report, or unknown: none was seen
    )
    differs = [pl.col(name) != pl.col(other) for name, other in session_columns.items()]
    wrong = both.filter(pl.any_horizontal(differs)).sort(table.key)
    calls = int(counted["total_tools"].sum())
    return CheckResult(
        table.name,
        "calls_add_up",
        wrong.is_empty(),
        f"{calls:,} calls with a known outcome, as in the sessions",
        f"{int(reported['total_calls'].sum()):,} calls, {wrong.height:,} sessions that differ",
        examples_of(wrong),
    )


def every_event_is_in_a_session(
    events: pl.DataFrame, sessions: pl.DataFrame, table: Table
) -> CheckResult:
    """Every session that sent an event has a session window."""
    keys = ["organization_id", "session_id"]
    sent = senders(events)
    missing = sent.join(sessions, on=keys, how="anti").sort(keys)
    return CheckResult(
        table.name,
        "every_event_is_in_a_session",
        missing.is_empty(),
        f"windows of all {sent.height:,} sessions that sent events",
        f"{missing.height:,} sessions without a window",
        examples_of(missing),
    )


def senders(events: pl.DataFrame) -> pl.DataFrame:
    """Return ``organization_id, session_id`` of the sessions that sent events, each once."""
    sent = events.filter(~_is_attribution(), pl.col("event_name") != "evaluation")
    return sent.select("organization_id", "session_id").unique()


def only_attributed(events: pl.DataFrame) -> list[str]:
    """Return the ids of sessions that wore a masque and sent nothing else, sorted."""
    attributed = events.filter(_is_attribution())["session_id"].unique()
    is_of_these = pl.col("session_id").is_in(attributed.implode())
    sent = events.filter(~_is_attribution(), is_of_these)["session_id"]
    return attributed.filter(~attributed.is_in(sent.implode())).sort().to_list()


def _is_attribution() -> pl.Expr:
    # They attribute the work of other events.
    return pl.col("event_name").is_in(("masque_don", "masque_doff"))


def sequences_have_no_gaps(sessions: pl.DataFrame, table: Table) -> CheckResult:
    """No event of a session is missing; a warning, since a lost event cannot be recovered."""
    missing_in = pl.col("missing_events")
    gaps = sessions.filter(missing_in > 0).sort(-missing_in, *table.key)
    missing = int(gaps["missing_events"].sum())
    return CheckResult(
        table.name,
        "sequences_have_no_gaps",
        gaps.is_empty(),
        "no gap in the event sequence of any session",
        f"{missing:,} missing events in {gaps.height:,} session windows",
        examples_of(gaps.select("session_key", "missing_events")),
        "warning",
    )
