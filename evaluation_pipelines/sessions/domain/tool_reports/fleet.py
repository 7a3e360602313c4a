"""Losses by tool and by model over many sessions."""

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY

_ERROR_LENGTH = 120
_EXIT_CODE = r"(?i)\bexit(?:ed with)?[ _]code\W{1,3}(-?\d+)"


_WHAT_TO_LOG = {
    "wasted": "Wasted calls are not shown: no session logs results and replies. Switch on, for "
    "example, log_agent_responses of Codex or OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT "
    "of GenAI libraries.",
    "repeated": "Repeated and corrected calls are not shown: no session logs parameters. Switch "
    "on, for example, OTEL_LOG_TOOL_DETAILS of Claude Code.",
}


def unknown_columns(losses: pl.DataFrame) -> dict[str, str]:
    """Return the columns that are unknown in all rows of ``lost_by``, and what to switch on."""
    if losses.is_empty():
        return {}
    return {name: text for name, text in _WHAT_TO_LOG.items() if losses[name].is_null().all()}


def calls_by_tool(reports: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return calls and losses of each tool of each session window, with the cost of the session.

    Args:
        reports: Rows of TOOL_REPORTS.
        sessions: Rows of AGENT_SESSIONS.
    """
    tools = reports.select(*SESSION_KEY, "by_tool", "total_calls").explode("by_tool")
    return _with_cost(tools.unnest("by_tool"), sessions)


def window_calls(reports: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return calls and losses of each session window, as :func:`calls_by_tool`, with its model."""
    windows = reports.select(
        *SESSION_KEY,
        *("model", "is_flagged", "total_calls", "lost_calls", "lost_tokens", "lost_usd"),
        calls="total_calls",
        failed="failed_calls",
        corrected="corrected_calls",
        repeated="repeated_calls",
        wasted="wasted_calls",
    )
    return _with_cost(windows, sessions)


def window_failures(reports: pl.DataFrame) -> pl.DataFrame:
    """Return the failed calls of each session window: tool, error and number of calls.

    ``error`` is the exit code if there is one, or else the first line; null if it is not known.

    Args:
        reports: Rows of TOOL_REPORTS.
    """
    failures = reports.select(*SESSION_KEY, "failures").explode("failures").drop_nulls("failures")
    text = pl.col("error").str.strip_chars()
    code = text.str.extract(_EXIT_CODE)
    line = text.str.split("\n").list.first().str.slice(0, _ERROR_LENGTH)
    known = pl.when(code.is_not_null()).then(pl.format("exit code {}", code))
    error = known.when(line != "").then(line)
    return (
        failures.unnest("failures")
        .group_by(*SESSION_KEY, "tool", error=error)
        .agg(calls=pl.len().cast(pl.Int64))
    )


def commonest_errors(failures: pl.DataFrame, examples: pl.Expr) -> pl.DataFrame:
    """Return the most frequent known error of each tool, and the session with most calls of it.

    Args:
        failures: Rows of :func:`window_failures`.
        examples: Whether the session of a row may be named.

    Returns:
        ``tool``, ``error``, ``calls`` of all sessions with it, and SESSION_KEY of that session;
        null if none may be named.
    """
    known = failures.drop_nulls("error").sort(-pl.col("calls"), *SESSION_KEY)
    sums = known.group_by("tool", "error", maintain_order=True).agg(
        pl.col("calls").sum(), pl.col(*SESSION_KEY).filter(examples).first()
    )
    return sums.sort(-pl.col("calls"), "tool", "error").unique("tool", keep="first")


def _with_cost(rows: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    costs = sessions.select(*SESSION_KEY, "cost_usd")
    share = pl.col("cost_usd") * pl.col("lost_calls") / pl.col("total_calls")
    return rows.join(costs, on=SESSION_KEY, how="left").with_columns(cost_share_usd=share)


def lost_by(by: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Sum calls and losses over sessions, most lost calls first.

    A call counts once, by its worst class, so that
    ``lost_calls = failed - corrected / 2 + wasted + only_repeated / 2``; unknown ones count 0.

    Args:
        by: ``tool`` or ``model``.
        rows: Rows of :func:`calls_by_tool`, or of :func:`window_calls`.

    Returns:
        ``by``; ``sessions``; ``calls``, ``failed``, ``corrected``, ``repeated``, ``wasted`` (null
        if unknown in all sessions); ``only_repeated``, those that neither failed nor were wasted;
        ``lost_calls`` (the sum of the penalties) and ``lost_pct`` of the calls; ``repeats_known``
        and ``waste_known``, the calls of sessions that log parameters, or results: those of other
        sessions are not known to be repeated, or wasted; ``lost_tokens`` and ``lost_usd``, the
        results of lost calls, over the ``known_sessions`` in which their size is known; and
        ``cost_share_usd``: the cost of each session times the share of its calls that were lost,
        over the sessions whose cost is known.
    """
    return (
        rows.filter(pl.col("calls") > 0)
        .group_by(by)
        .agg(
            pl.len().cast(pl.Int64).alias("sessions"),
            *map(_known_sum, ("calls", "failed", "corrected", "repeated", "wasted")),
            pl.col("lost_calls").sum(),
            _calls_where_known("repeated").alias("repeats_known"),
            _calls_where_known("wasted").alias("waste_known"),
            _known_sum("lost_tokens"),
            _known_sum("lost_usd"),
            _known_sum("cost_share_usd"),
            pl.col("lost_tokens").is_not_null().sum().cast(pl.Int64).alias("known_sessions"),
        )
        .with_columns(_only_repeated(), lost_pct=100 * pl.col("lost_calls") / pl.col("calls"))
        .sort(-pl.col("lost_calls"), by, nulls_last=True)
    )


def _only_repeated() -> pl.Expr:
    """Return what is left of the lost calls without the failed and wasted ones."""
    corrected, wasted = (pl.col(column).fill_null(0) for column in ("corrected", "wasted"))
    others = 2 * (pl.col("lost_calls") - pl.col("failed") - wasted) + corrected
    is_known = pl.col("repeated").is_not_null()
    return pl.when(is_known).then(others.round().cast(pl.Int64)).alias("only_repeated")


def _calls_where_known(column: str) -> pl.Expr:
    return pl.col("calls").filter(pl.col(column).is_not_null()).sum()


def _known_sum(column: str) -> pl.Expr:
    values = pl.col(column)
    return pl.when(values.is_not_null().any()).then(values.sum()).alias(column)
