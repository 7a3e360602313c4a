"""Lists of calls in a tool report, each with its time, tool and parameters."""

import polars as pl

from evaluation_pipelines.schemas.sessions import BY_TOOL, CORRECTION, FAILURE, LOOP, REPEAT, UNUSED
from evaluation_pipelines.sessions.domain.tool_reports import effectiveness

MAX_PARAMETER_CHARACTERS = 200
"""Length to which a list cuts the parameters of a call."""
MAX_LISTED_CALLS = 500
"""Length of a list: later calls are left out. The counts of a report include all calls."""

_WINDOW_CALL = ["window_no", "call"]


def by_tool(calls: pl.DataFrame, rows: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Return the list ``by_tool``: outcomes, durations and losses of the calls of each tool.

    Args:
        calls: Calls with a known outcome, classified and with their penalty.
        rows: ``TOOL_CALLS``, for the calls that were denied.
        windows: ``window_no, total_tokens, cost_usd`` of each session window.
    """
    denied = (
        rows.filter(outcome="denied")
        .group_by("window_no", "tool")
        .agg(pl.len().alias("denied"), pl.first("tool_class").alias("denied_class"))
    )
    tools = (
        calls.group_by("window_no", "tool")
        .agg(
            pl.first("tool_class"),
            calls=(pl.col("outcome") != "unknown").sum(),
            failed=(pl.col("outcome") == "failed").sum(),
            repeated=_known_sum("is_repeated"),
            corrected=_known_sum("is_corrected"),
            wasted=_known_sum("is_wasted"),
            lost_calls=pl.col("penalty").sum(),
            p50_ms=pl.col("duration_ms").quantile(0.5, "linear"),
            p95_ms=pl.col("duration_ms").quantile(0.95, "linear"),
            bytes_returned=bytes_returned(),
            bytes_known_calls=bytes_known_calls(),
            lost_tokens=effectiveness.lost_tokens(),
        )
        .join(windows.select("window_no", "total_tokens", "cost_usd"), on="window_no")
        .with_columns(effectiveness.lost_usd())
        .join(denied, on=["window_no", "tool"], how="full", coalesce=True)
        .with_columns(
            pl.col("denied", "calls", "failed", "lost_calls", "bytes_known_calls").fill_null(0),
            pl.coalesce("tool_class", "denied_class"),
        )
        .sort("window_no", -pl.col("calls").cast(pl.Int64), "tool")
    )
    return _listed(tools, "by_tool", BY_TOOL)


def failures(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the list ``failures``: failed calls with the beginning of their error, if logged."""
    listed = calls.filter(pl.col("outcome") == "failed").with_columns(
        called_at="event_time", parameters=_shown()
    )
    return _listed(listed.sort(_WINDOW_CALL), "failures", FAILURE)


def repeats(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the list ``repeats``: each repeated call with the earliest call it repeats."""
    original = calls.select("window_no", original="call", original_at="event_time")
    listed = (
        _with_call(found, calls)
        .join(original, on=["window_no", "original"])
        .with_columns(distance=pl.col("call") - pl.col("original"))
        .sort(_WINDOW_CALL)
    )
    return _listed(listed, "repeats", REPEAT)


def corrections(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the list ``corrections``: each failed call with the call that corrected it."""
    correction = calls.select(
        "window_no",
        corrected_by="call",
        corrected_at="event_time",
        correcting_tool="tool",
        correcting_parameters=_shown(),
    )
    listed = _with_call(found, calls).join(correction, on=["window_no", "corrected_by"])
    return _listed(listed.sort(_WINDOW_CALL), "corrections", CORRECTION)


def unused(calls: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the list ``wasted`` or ``untraced``: calls whose result nothing later uses."""
    listed = calls.sort(_WINDOW_CALL).with_columns(
        called_at="event_time", parameters=_shown(), bytes_returned="returned_bytes"
    )
    return _listed(listed, name, UNUSED)


def loops(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the list ``loops``: first and last call of each failing loop."""
    last = calls.select("window_no", last_call="call", last_called_at="event_time")
    listed = (
        _with_call(found.with_columns(call="first_call"), calls)
        .join(last, on=["window_no", "last_call"])
        .with_columns(calls=pl.col("last_call") - pl.col("first_call") + 1)
        .sort(_WINDOW_CALL)
    )
    return _listed(listed, "loops", LOOP)


def bytes_returned() -> pl.Expr:
    """Return the sum of the known result sizes in bytes; null if none is known."""
    size = pl.col("returned_bytes")
    return pl.when(size.is_not_null().any()).then(size.sum()).alias("bytes_returned")


def bytes_known_calls() -> pl.Expr:
    """Return the number of calls whose result size is known."""
    return pl.col("returned_bytes").is_not_null().sum().cast(pl.Int64).alias("bytes_known_calls")


def _with_call(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Add tool, time and parameters of each call that is listed."""
    listed = found.sort(_WINDOW_CALL).group_by("window_no", maintain_order=True)
    return listed.head(MAX_LISTED_CALLS).join(
        calls.select(*_WINDOW_CALL, "tool", called_at="event_time", parameters=_shown()),
        on=_WINDOW_CALL,
    )


def _shown() -> pl.Expr:
    return pl.col("parameters").str.slice(0, MAX_PARAMETER_CHARACTERS)


def _known_sum(mark: str) -> pl.Expr:
    return pl.when(pl.col(mark).is_not_null().any()).then(pl.col(mark).sum())


def _listed(rows: pl.DataFrame, name: str, struct: pl.Struct) -> pl.DataFrame:
    """Return the rows of each window as a list, in their order."""
    fields = [pl.col(field.name).cast(field.dtype) for field in struct.fields]
    return rows.group_by("window_no", maintain_order=True).agg(
        pl.struct(fields).head(MAX_LISTED_CALLS).alias(name)
    )
