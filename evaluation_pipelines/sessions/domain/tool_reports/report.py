"""Tool reports: repeated, corrected, wasted and looping calls of each session window."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from evaluation_pipelines.schemas.sessions import TOOL_REPORTS, ToolCalls
from evaluation_pipelines.sessions.domain.tool_reports import call_lists, effectiveness
from evaluation_pipelines.sessions.domain.tool_reports.calls import WINDOW_KEY, numbered_calls
from evaluation_pipelines.sessions.domain.tool_reports.effectiveness import (
    MAX_RESULT_CHARACTERS,
    traced_results,
)
from evaluation_pipelines.sessions.domain.tool_reports.parameters import Question
from evaluation_pipelines.sessions.domain.tool_reports.repeats import (
    corrections,
    failing_loops,
    repeated_calls,
)

_CALL = ["window_no", "call"]
_OF_SESSION = (
    *("agent_id", "masque", "source_cli", "model", "task_class", "started_at"),
    *("content_hash", "tools_ok", "total_tokens", "cost_usd"),
)


@dataclass(frozen=True, slots=True)
class _Findings:
    """Classified calls, and the frames of related calls."""

    calls: pl.DataFrame
    repeats: pl.DataFrame
    corrections: pl.DataFrame
    loops: pl.DataFrame


def tool_reports(tool_calls: ToolCalls, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return one report per session window with a tool call.

    Args:
        tool_calls: The calls, prompts and replies of whole sessions.
        sessions: Rows of ``agent_sessions``.

    Returns:
        ``TOOL_REPORTS``, in its order.
    """
    rows = tool_calls.rows
    of_sessions = tool_calls.windows.join(
        sessions.select(*WINDOW_KEY, *_OF_SESSION), on=WINDOW_KEY, how="left"
    )
    calls, questions = numbered_calls(rows)
    found = _with_losses(_classify(rows, calls, questions))
    windows = _windows(rows, found.calls, of_sessions)
    lists = (
        call_lists.by_tool(found.calls, rows, of_sessions),
        call_lists.failures(calls),
        call_lists.repeats(found.repeats, calls),
        call_lists.corrections(found.corrections, calls),
        call_lists.unused(found.calls.filter("is_wasted"), "wasted"),
        call_lists.unused(found.calls.filter("is_untraced"), "untraced"),
        call_lists.loops(found.loops, calls),
    )
    for frame in lists:
        windows = windows.join(frame, on="window_no", how="left")
    return (
        windows.with_columns(
            _known_calls("failures", "failed_calls"),
            _known_calls("repeats", "repeated_calls"),
            _known_calls("corrections", "corrected_calls"),
            _known_calls("wasted", "wasted_calls"),
            _known_calls("untraced", "untraced_calls"),
            _known_calls("loops", "looping_calls"),
            effectiveness.effectiveness_score(),
            effectiveness.lost_usd(),
            effectiveness.basis(),
            effectiveness.unknown(),
        )
        .with_columns(effectiveness.is_flagged())
        .select(TOOL_REPORTS.schema.names())
        .cast(TOOL_REPORTS.schema)
        .sort(TOOL_REPORTS.order)
    )


def _classify(
    rows: pl.DataFrame, calls: pl.DataFrame, questions: Mapping[int, Question]
) -> _Findings:
    """Mark the calls that are repeated, corrected, looping or unused."""
    repeats, cut_short = repeated_calls(calls, questions)
    corrected, loops = corrections(calls), failing_loops(calls, questions)
    in_loop = loops.select(
        "window_no", call=pl.int_ranges("first_call", pl.col("last_call") + 1)
    ).explode("call")
    traced = traced_results(rows, calls)
    long_text = pl.col("said").str.len_chars() > MAX_RESULT_CHARACTERS
    marked = (
        calls.join(_mark(repeats, "is_repeated"), on=_CALL, how="left")
        .join(_mark(corrected, "is_corrected"), on=_CALL, how="left")
        .join(_mark(in_loop, "is_looping"), on=_CALL, how="left")
        .join(traced, on=_CALL, how="left")
        .with_columns(
            pl.col("is_repeated", "is_corrected", "is_looping").fill_null(value=False),
            is_unused=~pl.col("is_used").fill_null(value=True),
            is_cut_short=pl.col("window_no").is_in(cut_short.implode())
            | long_text.fill_null(value=False),
        )
    )
    return _Findings(marked, repeats, corrected, loops)


def _mark(found: pl.DataFrame, name: str) -> pl.DataFrame:
    return found.select(*_CALL, pl.lit(value=True).alias(name))


def _with_losses(found: _Findings) -> _Findings:
    """Add whether each call is wasted and its penalty; marks that cannot be known become null."""
    window = pl.col("window_no")
    no_parameters = pl.col("key").is_null().all().over(window)
    has_results = (pl.col("has_content") & (pl.col("outcome") != "failed")).any().over(window)
    # A reply that was not logged may have used a result that no later call uses.
    is_open = (pl.col("is_unused") & pl.col("hides_replies")).any().over(window)
    classified = found.calls.with_columns(
        *(
            pl.when(~no_parameters).then(pl.col(name)).alias(name)
            for name in ("is_repeated", "is_corrected", "is_looping")
        ),
        is_wasted=pl.when(has_results & ~is_open).then("is_unused"),
        is_untraced=pl.when(has_results).then(pl.col("is_unused") & is_open),
    ).with_columns(effectiveness.penalty())
    return replace(found, calls=classified)


def _windows(rows: pl.DataFrame, calls: pl.DataFrame, of_sessions: pl.DataFrame) -> pl.DataFrame:
    """Return the counts and losses of each window with a call; null if unknown."""
    outcomes = (
        rows.select("window_no", "kind", "outcome")
        .filter(kind="call")
        .group_by("window_no")
        .agg(
            total_calls=pl.col("outcome").is_in(("ok", "failed")).sum().cast(pl.Int64),
            failed_calls=(pl.col("outcome") == "failed").sum().cast(pl.Int64),
            denied_calls=(pl.col("outcome") == "denied").sum().cast(pl.Int64),
            unknown_calls=(pl.col("outcome") == "unknown").sum().cast(pl.Int64),
        )
    )
    numbers = calls.group_by("window_no").agg(
        pl.col("key").is_not_null().sum().cast(pl.Int64).alias("calls_with_parameters"),
        (pl.col("has_content") & (pl.col("outcome") != "failed"))
        .sum()
        .cast(pl.Int64)
        .alias("results_logged"),
        _count("is_repeated").alias("repeated_calls"),
        _count("is_corrected").alias("corrected_calls"),
        _count("is_wasted").alias("wasted_calls"),
        _count("is_untraced").alias("untraced_calls"),
        _count("is_looping").alias("looping_calls"),
        pl.col("penalty").sum().alias("lost_calls"),
        pl.col("is_cut_short").any(),
        call_lists.bytes_returned(),
        call_lists.bytes_known_calls(),
        effectiveness.lost_tokens(),
    )
    counts = ("calls_with_parameters", "results_logged", "bytes_known_calls")
    return (
        outcomes.join(numbers, on="window_no", how="left")
        .join(of_sessions, on="window_no", how="left")
        .with_columns(
            pl.col(counts).fill_null(0),
            pl.col("lost_calls").fill_null(0.0),
            pl.col("is_cut_short").fill_null(value=False),
        )
    )


def _count(mark: str) -> pl.Expr:
    """Return the number of marked calls; null if no mark is known."""
    return pl.when(pl.col(mark).is_not_null().any()).then(pl.col(mark).sum()).cast(pl.Int64)


def _known_calls(call_list: str, count: str) -> pl.Expr:
    """Return a list of calls: empty if there are none, null if their count is unknown."""
    empty = pl.lit([], dtype=TOOL_REPORTS.schema[call_list])
    found = pl.coalesce(pl.col(call_list), empty)
    return pl.when(pl.col(count).is_not_null()).then(found).alias(call_list)
