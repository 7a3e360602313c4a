"""Tool calls with their outcomes, numbered in the order of their session."""

import polars as pl

from evaluation_pipelines.schemas import UTC_TIME
from evaluation_pipelines.sessions.domain.tool_reports.mutation import changes_something
from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    COMMANDS,
    Question,
    question,
)
from evaluation_pipelines.sessions.domain.tool_reports.polling import polls

TOOL_CALLS = pl.Schema(
    {
        "session_no": pl.Int64(),
        "window_no": pl.Int64(),  # of CALL_WINDOWS
        "position": pl.Int64(),  # order in the session
        "kind": pl.String(),  # call, prompt or reply
        "outcome": pl.String(),  # of a call: ok, failed, denied or unknown
        "event_time": UTC_TIME,
        "prompt": pl.String(),  # the same for everything that belongs to one prompt
        "tool": pl.String(),
        "tool_class": pl.String(),
        "duration_ms": pl.Float64(),
        "parameters": pl.String(),  # JSON text, null when not logged
        "said": pl.String(),  # text of a result, prompt or reply
        "error": pl.String(),  # beginning of the result of a failed call
        "has_content": pl.Boolean(),  # a result was logged, not only an error
        "hides_replies": pl.Boolean(),  # the model replied in the session but no text is logged
        "returned_bytes": pl.Int64(),  # size of the result; null if unknown
    }
)
"""Columns of ``sql/duckdb/tool_calls.sql``: one row per tool call, prompt or reply."""

_COMMAND_NAME = rf'"(?:{"|".join(COMMANDS)})"\s*:'
WINDOW_KEY = ("organization_id", "session_date", "session_key")
"""Columns that identify a session window and its partition."""

CALL_WINDOWS = pl.Schema(
    {
        "window_no": pl.Int64(),
        "organization_id": pl.String(),
        "session_date": pl.Date(),
        "session_key": pl.String(),
        "session_id": pl.String(),
    }
)
"""Columns of ``sql/duckdb/call_windows.sql``: one row per session window."""


def numbered_calls(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[int, Question]]:
    """Number the calls with a known outcome or a logged result in the order of their results.

    Args:
        rows: ``TOOL_CALLS``.

    Returns:
        The calls that returned, and the question of each key. Added columns:

        * ``call``: number of the call in its window, from 1
        * ``key``: number of the question that the parameters ask, of any tool; null if parameters
          were not logged
        * ``changes``: whether the call changes something if it succeeds
        * ``polls``: whether the answer can be another one although nothing was changed
        * ``segment``: number of earlier calls of the window that changed something
        * ``segment_after``: the same, including this call
    """
    keys, questions = _keys(rows["parameters"].drop_nulls().unique(maintain_order=True))
    ordered = (
        rows.filter(kind="call")
        .drop("kind")
        .sort("window_no", "position")
        .join(keys, on="parameters", how="left", maintain_order="left")
    )
    # Messages of the GenAI conventions do not say whether a call succeeded that gave a result back.
    returned = (pl.col("outcome") == "unknown") & pl.col("has_content")
    # A call with an unknown outcome may have changed something.
    may_be_done = pl.col("outcome").is_in(("ok", "unknown"))
    counted = (
        _with_effects(ordered)
        .with_columns(changed=(may_be_done & pl.col("changes")).cast(pl.Int64))
        .with_columns(segment_after=pl.col("changed").cum_sum().over("window_no"))
        .with_columns(segment=pl.col("segment_after") - pl.col("changed"))
        .drop("changed")
        .filter(pl.col("outcome").is_in(("ok", "failed")) | returned)
        .with_columns(call=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("window_no"))
    )
    return counted, questions


def _with_effects(calls: pl.DataFrame) -> pl.DataFrame:
    """Add ``changes`` and ``polls``."""
    # Of a class other than shell, a call with a command begins with a program that only reads.
    is_command = pl.col("parameters").str.contains(_COMMAND_NAME)
    has_command = (pl.col("tool_class") == "shell") | is_command
    command = pl.when(has_command).then("parameters").alias("command")
    kinds = calls.select("tool_class", "tool", command).unique(maintain_order=True)
    effects = [(changes_something(*kind), polls(*kind[1:])) for kind in kinds.iter_rows()]
    schema = {"changes": pl.Boolean, "polls": pl.Boolean}
    return (
        calls.with_columns(command)
        .join(
            kinds.hstack(pl.DataFrame(effects, schema=schema, orient="row")),
            on=["tool_class", "tool", "command"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .drop("command")
    )


def _keys(texts: pl.Series) -> tuple[pl.DataFrame, dict[int, Question]]:
    """Return ``key`` of each logged text, the same for equal questions, and their questions."""
    numbers: dict[Question, int] = {}
    keys: list[int | None] = []
    for text in texts:
        asked = question(text)
        keys.append(None if asked is None else numbers.setdefault(asked, len(numbers)))
    columns = {"parameters": pl.String(), "key": pl.Int64()}
    keys_of_texts = pl.DataFrame({"parameters": texts, "key": keys}, schema=columns)
    return keys_of_texts, dict(zip(numbers.values(), numbers, strict=True))
