"""Agents whose failed calls or costs rose, told from many more observations than scores.

Calls of a session, and sessions of a person on a day, have much in common: the unit of the error is
the day of a person, and the rate of an agent is a ratio of their sums.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal, TypeAlias

import polars as pl

from evaluation_pipelines.numerics.student import LEVEL, t_quantile

COLUMNS = (
    *("organization_id", "agent_id", "person_id", "session_date"),
    *("total_tools", "tools_failed", "cost_usd"),
)
RECENT_DAYS, BEFORE_DAYS = 7, 28
"""The last complete days, and the days before them."""

_WEEKS = 13
"""Weeks of a quarter: with all agents and measures together, one false alarm in twenty quarters."""

_FEWEST = 10
"""Days of people in each of the two times, below which nothing is said."""

_LEAST_SHARE, _LEAST_COST = 0.05, 0.25
"""Rise of the share of failed calls, and of the cost relative to before, that matters."""

Measure: TypeAlias = Literal["failed calls", "cost per session"]
_AGENT = ("organization_id", "agent_id")


@dataclass(frozen=True, slots=True)
class Rise:
    """An agent's rate of the last days against the days before.

    Attributes:
        measure: Share of calls that failed, 0-1; or USD per session with a known cost.
        organization: The organization of the agent.
        agent: Its name.
        before: Rate of the days before.
        recent: Rate of the last days.
        low: Lower end of the interval of the difference, for all agents and a quarter of weeks.
        high: Its upper end.
        since: First of the last days.
    """

    measure: Measure
    organization: str
    agent: str
    before: float
    recent: float
    low: float
    high: float
    since: date


def rises(sessions: pl.DataFrame, today: date) -> list[Rise]:
    """Return the rises beyond chance that matter, by measure and agent.

    Args:
        sessions: COLUMNS of the sessions of the last RECENT_DAYS + BEFORE_DAYS days.
        today: The day that is not complete, which is left out.
    """
    since = today - timedelta(days=RECENT_DAYS)
    first = since - timedelta(days=BEFORE_DAYS)
    rows = sessions.drop_nulls("agent_id").filter(
        pl.col("session_date") >= first, pl.col("session_date") < today
    )
    is_recent = pl.col("session_date") >= since
    calls, costs = rows.filter(pl.col("total_tools") > 0), rows.drop_nulls("cost_usd")
    rates = [
        *_compared(calls, is_recent, "failed calls", pl.col("tools_failed"), pl.col("total_tools")),
        *_compared(costs, is_recent, "cost per session", pl.col("cost_usd"), pl.lit(1.0)),
    ]
    alpha = (1 - LEVEL) / (_WEEKS * max(len(rates), 1))
    found = (_rise(each, since, alpha) for each in rates)
    return [each for each in found if each is not None]


def _compared(
    rows: pl.DataFrame, is_recent: pl.Expr, measure: Measure, amount: pl.Expr, base: pl.Expr
) -> Iterator[Mapping[str, Any]]:
    """Yield the rates of agents with enough days of people in both times."""
    person_days = rows.group_by(*_AGENT, is_recent.alias("is_recent"), "session_date", "person_id")
    sums = person_days.agg(amount=amount.sum().cast(pl.Float64), base=base.sum().cast(pl.Float64))
    rate = pl.col("amount").sum() / pl.col("base").sum()
    residual = pl.col("amount") - rate * pl.col("base")
    number = pl.len()
    variance = residual.pow(2).sum() * number / (number - 1) / pl.col("base").sum().pow(2)
    sides = (
        sums.group_by(*_AGENT, "is_recent")
        .agg(rate=rate, variance=variance, number=number)
        .filter(pl.col("number") >= _FEWEST)
    )
    recent, before = sides.filter("is_recent"), sides.filter(~pl.col("is_recent"))
    both = recent.join(before, on=_AGENT, suffix="_before").sort(_AGENT)
    for row in both.iter_rows(named=True):
        yield {"measure": measure, **row}


def _rise(row: Mapping[str, Any], since: date, alpha: float) -> Rise | None:
    recent, before = row["rate"], row["rate_before"]
    parts = ((row["variance"], row["number"]), (row["variance_before"], row["number_before"]))
    variance = sum(part for part, _ in parts)
    half = 0.0
    if variance > 0:
        freedom = variance**2 / sum(part**2 / (number - 1) for part, number in parts)
        half = t_quantile(freedom, alpha) * variance**0.5
    rise = recent - before
    least = _LEAST_SHARE if row["measure"] == "failed calls" else _LEAST_COST * before
    if rise - half <= 0 or rise < least:
        return None
    names = row["organization_id"], row["agent_id"]
    return Rise(row["measure"], *names, before, recent, rise - half, rise + half, since)
