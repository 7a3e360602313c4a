"""Tool reports: what was repeated, corrected, wasted and looping in each session window."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.schemas.tools import TOOL_REPORTS
from evaluation_pipelines.sessions.domain.tool_reports import call_lists, effectiveness
from evaluation_pipelines.sessions.domain.tool_reports.calls import WINDOW, numbered_calls
from evaluation_pipelines.sessions.domain.tool_reports.corrections import corrections
from evaluation_pipelines.sessions.domain.tool_reports.parameters import Parameters
from evaluation_pipelines.sessions.domain.tool_reports.repeats import failing_loops, repeated_calls
from evaluation_pipelines.sessions.domain.tool_reports.waste import LONGEST_RESULT, traced_results

_CALL = ["window_no", "call"]
_OF_SESSION = (
    *("agent_id", "masque", "source_cli", "model", "task_class", "started_at"),
    *("content_hash", "tools_ok", "total_tokens", "cost_usd"),
)


@dataclass(frozen=True, slots=True)
class _Found:
    """Calls with what was found of each, and the frames that say where."""

    calls: pl.DataFrame
    repeats: pl.DataFrame
    corrections: pl.DataFrame
    loops: pl.DataFrame


def tool_reports(rows: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """One report per session window with a tool call.

    Args:
        rows: ``TOOL_CALLS``: the calls of whole sessions, and prompts and replies between them.
        sessions: Rows of ``agent_sessions``.

    Returns:
        ``TOOL_REPORTS``, in its order.
    """
    calls, parameters = numbered_calls(rows)
    found = _judged(_found(rows, calls, parameters), sessions)
    windows = _windows(rows, found.calls, sessions)
    lists = (
        call_lists.by_tool(found.calls, rows),
        call_lists.failures(calls),
        call_lists.repeats(found.repeats, calls),
        call_lists.corrections(found.corrections, calls),
        call_lists.unused(found.calls.filter("is_wasted"), "wasted"),
        call_lists.unused(found.calls.filter("is_untraced"), "untraced"),
        call_lists.loops(found.loops, calls),
    )
    for each in lists:
        windows = windows.join(each, on=WINDOW, how="left")
    return (
        windows.with_columns(
            _known("failures", "failed_calls"),
            _known("repeats", "repeated_calls"),
            _known("corrections", "corrected_calls"),
            _known("wasted", "wasted_calls"),
            _known("untraced", "untraced_calls"),
            _known("loops", "looping_calls"),
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


def _found(rows: pl.DataFrame, calls: pl.DataFrame, parameters: Mapping[int, Parameters]) -> _Found:
    """Mark each call with what it is; null where that cannot be known."""
    repeats, cut_short = repeated_calls(calls, parameters)
    corrected, loops = corrections(calls), failing_loops(calls, parameters)
    in_loop = loops.select(
        "window_no", call=pl.int_ranges("first_call", pl.col("last_call") + 1)
    ).explode("call")
    traced = traced_results(rows, calls)
    long_text = pl.col("said").str.len_chars() > LONGEST_RESULT
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
    return _Found(marked, repeats, corrected, loops)


def _mark(found: pl.DataFrame, name: str) -> pl.DataFrame:
    return found.select(*_CALL, pl.lit(value=True).alias(name))


def _judged(found: _Found, sessions: pl.DataFrame) -> _Found:
    """Say of each call whether it is wasted and what it loses, in calls, tokens and money."""
    window = pl.col("window_no")
    no_parameters = pl.col("key").is_null().all().over(window)
    has_results = (pl.col("has_content") & (pl.col("outcome") == "ok")).any().over(window)
    # A result that no later call uses may have gone into a reply that was not logged.
    is_open = (pl.col("is_unused") & pl.col("hides_replies")).any().over(window)
    judged = (
        found.calls.with_columns(
            *(
                pl.when(~no_parameters).then(pl.col(name)).alias(name)
                for name in ("is_repeated", "is_corrected", "is_looping")
            ),
            is_wasted=pl.when(has_results & ~is_open).then("is_unused"),
            is_untraced=pl.when(has_results).then(pl.col("is_unused") & is_open),
        )
        .with_columns(effectiveness.penalty())
        .join(sessions.select(*WINDOW, "total_tokens", "cost_usd"), on=WINDOW, how="left")
    )
    return _Found(judged, found.repeats, found.corrections, found.loops)


def _windows(rows: pl.DataFrame, calls: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """The numbers of each window: counts, null where unknown, and what was lost."""
    outcomes = (
        rows.filter(kind="call")
        .group_by(*WINDOW, "session_id")
        .agg(
            total_calls=pl.col("outcome").is_in(("ok", "failed")).sum().cast(pl.Int64),
            failed_calls=(pl.col("outcome") == "failed").sum().cast(pl.Int64),
            denied_calls=(pl.col("outcome") == "denied").sum().cast(pl.Int64),
            unknown_calls=(pl.col("outcome") == "unknown").sum().cast(pl.Int64),
        )
    )
    numbers = calls.group_by(WINDOW).agg(
        pl.col("key").is_not_null().sum().cast(pl.Int64).alias("calls_with_parameters"),
        (pl.col("has_content") & (pl.col("outcome") == "ok"))
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
    nothing = ("calls_with_parameters", "results_logged", "bytes_known_calls")
    return (
        outcomes.join(numbers, on=WINDOW, how="left")
        .join(sessions.select(*WINDOW, *_OF_SESSION), on=WINDOW, how="left")
        .with_columns(
            pl.col(nothing).fill_null(0),
            pl.col("lost_calls").fill_null(0.0),
            pl.col("is_cut_short").fill_null(value=False),
        )
    )


def _count(mark: str) -> pl.Expr:
    """How many are marked; null where that is not known."""
    return pl.when(pl.col(mark).is_not_null().any()).then(pl.col(mark).sum()).cast(pl.Int64)


def _known(places_column: str, count: str) -> pl.Expr:
    """A list of places: empty where nothing was found, null where nothing can be known."""
    empty = pl.lit([], dtype=TOOL_REPORTS.schema[places_column])
    found = pl.coalesce(pl.col(places_column), empty)
    return pl.when(pl.col(count).is_not_null()).then(found).alias(places_column)
