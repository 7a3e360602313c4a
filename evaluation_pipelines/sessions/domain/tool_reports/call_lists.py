"""Where things are: the calls of a report with their time, tool and what they were called with."""

import polars as pl

from evaluation_pipelines.schemas.tools import BY_TOOL, CORRECTION, FAILURE, LOOP, REPEAT, UNUSED
from evaluation_pipelines.sessions.domain.tool_reports import effectiveness
from evaluation_pipelines.sessions.domain.tool_reports.calls import WINDOW

SHOWN_LETTERS = 200
"""Letters of the parameters that a report keeps of a call."""
SHOWN_PLACES = 500
"""A report names so many places of each kind, the first ones; its counts are of all."""

_WINDOW_CALL = ["window_no", "call"]


def by_tool(calls: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """``by_tool``: what became of the calls of each tool.

    Args:
        calls: Calls with a known outcome, marked and with their penalty.
        rows: ``TOOL_CALLS``; tells the calls that were refused.
    """
    denied = (
        rows.filter(outcome="denied")
        .group_by(*WINDOW, "tool")
        .agg(pl.len().alias("denied"), pl.first("tool_class").alias("denied_class"))
    )
    tools = (
        calls.group_by(*WINDOW, "tool")
        .agg(
            pl.first("tool_class"),
            calls=pl.len(),
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
            total_tokens=pl.first("total_tokens"),
            cost_usd=pl.first("cost_usd"),
        )
        .with_columns(effectiveness.lost_usd())
        .join(denied, on=[*WINDOW, "tool"], how="full", coalesce=True)
        .with_columns(
            pl.col("denied", "calls", "failed", "lost_calls", "bytes_known_calls").fill_null(0),
            pl.coalesce("tool_class", "denied_class"),
        )
        .sort(*WINDOW, -pl.col("calls").cast(pl.Int64), "tool")
    )
    return _listed(tools, "by_tool", BY_TOOL)


def failures(calls: pl.DataFrame) -> pl.DataFrame:
    """``failures``: calls that failed, each with the beginning of its error where one is logged."""
    listed = calls.filter(pl.col("outcome") == "failed").with_columns(
        called_at="event_time", parameters=_shown()
    )
    return _listed(listed.sort(_WINDOW_CALL), "failures", FAILURE)


def repeats(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """``repeats``: each repeated call beside the earliest call that it repeats."""
    original = calls.select("window_no", original="call", original_at="event_time")
    listed = (
        _with_place(found, calls)
        .join(original, on=["window_no", "original"])
        .with_columns(distance=pl.col("call") - pl.col("original"))
        .sort(_WINDOW_CALL)
    )
    return _listed(listed, "repeats", REPEAT)


def corrections(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """``corrections``: each failed call beside the one that made it good."""
    correction = calls.select(
        "window_no",
        corrected_by="call",
        corrected_at="event_time",
        correcting_tool="tool",
        correcting_parameters=_shown(),
    )
    listed = _with_place(found, calls).join(correction, on=["window_no", "corrected_by"])
    return _listed(listed.sort(_WINDOW_CALL), "corrections", CORRECTION)


def unused(calls: pl.DataFrame, name: str) -> pl.DataFrame:
    """``wasted`` or ``untraced``: calls whose result nothing later uses."""
    listed = calls.sort(_WINDOW_CALL).with_columns(
        called_at="event_time", parameters=_shown(), bytes_returned="returned_bytes"
    )
    return _listed(listed, name, UNUSED)


def loops(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """``loops``: first and last call of each failing loop."""
    last = calls.select("window_no", last_call="call", last_called_at="event_time")
    listed = (
        _with_place(found.with_columns(call="first_call"), calls)
        .join(last, on=["window_no", "last_call"])
        .with_columns(calls=pl.col("last_call") - pl.col("first_call") + 1)
        .sort(_WINDOW_CALL)
    )
    return _listed(listed, "loops", LOOP)


def bytes_returned() -> pl.Expr:
    """Sum of the sizes that are known; null when none is."""
    size = pl.col("returned_bytes")
    return pl.when(size.is_not_null().any()).then(size.sum()).alias("bytes_returned")


def bytes_known_calls() -> pl.Expr:
    """Calls whose size is known."""
    return pl.col("returned_bytes").is_not_null().sum().cast(pl.Int64).alias("bytes_known_calls")


def _with_place(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    place = calls.select(
        *_WINDOW_CALL, *WINDOW, "tool", called_at="event_time", parameters=_shown()
    )
    return found.join(place, on=_WINDOW_CALL)


def _shown() -> pl.Expr:
    return pl.col("parameters").str.slice(0, SHOWN_LETTERS)


def _known_sum(mark: str) -> pl.Expr:
    return pl.when(pl.col(mark).is_not_null().any()).then(pl.col(mark).sum())


def _listed(rows: pl.DataFrame, name: str, struct: pl.Struct) -> pl.DataFrame:
    """The rows of each window as a list, in the order given."""
    fields = [pl.col(each.name).cast(each.dtype) for each in struct.fields]
    return rows.group_by(WINDOW, maintain_order=True).agg(
        pl.struct(fields).head(SHOWN_PLACES).alias(name)
    )
