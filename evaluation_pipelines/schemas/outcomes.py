"""The table of outcomes of sessions."""

import polars as pl

from evaluation_pipelines.schemas.table import UTC_TIME, Table, columns

OUTCOME_KINDS = {
    "commit": "it made this commit",
    "merged": "the commit is on the default branch, also as a squash",
    "reverted": "a later commit on the default branch reverts it",
    "survival_1d": "share of its lines on the default branch a day after it was merged",
    "survival_7d": "the same after 7 days",
    "survival_30d": "the same after 30 days",
    "tests_after_last_edit": "the last test run after the last edit passed, null: none ran",
    "accepted": "a person kept the edit or liked the answer, 0: undone or disliked",
    "task_closed": "the task was closed",
    "task_reopened": "the task was opened again",
}
"""Kinds of outcomes, and the meaning of a value of 1. A user's own have a name with ``x_``."""

OWN_KIND = "x_"

SESSION_OUTCOMES = Table(
    name="session_outcomes",
    grain="one row per session window, kind of outcome, reference and source",
    key=("organization_id", "session_key", "kind", "reference", "source"),
    columns=columns(
        ("organization_id", pl.String, "organization"),
        ("session_key", pl.String, "session.id#slug-n: slug of masque or baseline, and a count"),
        ("session_id", pl.String, "session.id as sent by the agent"),
        ("kind", pl.String, "kind of outcome, one of OUTCOME_KINDS or x_ and a name"),
        ("happened_at", UTC_TIME, "when it happened, null if it has not or the time is unknown"),
        ("value", pl.Float64, "1 yes, 0 no, or a share. Null of tests: none ran"),
        ("lines", pl.Int64, "lines that a share is of, else null"),
        ("reference", pl.String, "commit, event or name by which it is corrected, else null"),
        ("source", pl.String, "telemetry, git or outside"),
        ("inferred", pl.Boolean, "the commit was found by author, time and branch"),
        ("read_at", UTC_TIME, "when the source was last read: the value is as of then"),
        ("session_date", pl.Date, "UTC day of the session's start: the partition"),
    ),
)
