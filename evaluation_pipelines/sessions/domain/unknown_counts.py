"""Counts that are unknown: an agent program that sends no such events has none to count."""

import polars as pl

from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS

_COUNTS = ("prompts", "tools_denied")
"""Counts of events that not every program sends; sums of values that are not sent are null."""


def without_unknown_counts(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return sessions with null for each 0 that only says that the program sends no such events."""
    return sessions.with_columns(
        pl.when((pl.col(name) != 0) | ~_is_of(name)).then(pl.col(name)).alias(name)
        for name in _COUNTS
    )


def _is_of(name: str) -> pl.Expr:
    """Return whether a session is of a program that does not send these events."""
    programs = {each.source_cli for each in DIALECTS if name in each.never_sends}
    return pl.col("source_cli").is_in(sorted(programs)).fill_null(value=False)
