"""Facts about sessions: rises of cost and failures, and remaining quality risks."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.attention.domain.item import BEFORE_DAYS, COST, FAILED_CALLS, RECENT_DAYS
from evaluation_pipelines.numerics.estimates import LEVEL, t_quantile
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey

_WEEKS = 13
"""Weeks of a quarter: with all agents and measures together, one false alarm in twenty quarters."""

_FEWEST = 10
"""Fewest person-days in each of the two periods for a statement."""

_LEAST_SHARE, _LEAST_COST = 0.05, 0.25
"""Rise of the share of failed calls, and of the cost relative to before, that matters."""

_AGENT = ("organization_id", "agent_id")


def rises(sessions: pl.DataFrame, today: date) -> list[dict[str, Any]]:
    """Return the rises beyond chance that matter, by measure and agent.

    Args:
        sessions: COLUMNS of the sessions of the last RECENT_DAYS + BEFORE_DAYS days.
        today: The day that is not complete, which is left out.

    Returns:
        Rows with ``measure`` (FAILED_CALLS, a share of 0 to 1, or COST, in USD per session with a
        known cost), ``organization_id``, ``agent_id``, ``rate`` of the last days and
        ``rate_before``, ``low`` and ``high``, the ends of the interval of the difference for all
        agents and a quarter of weeks, and ``since``, the first of the last days.
    """
    since = today - timedelta(days=RECENT_DAYS)
    first = since - timedelta(days=BEFORE_DAYS)
    rows = sessions.drop_nulls("agent_id").filter(
        pl.col("session_date") >= first, pl.col("session_date") < today
    )
    is_recent = (pl.col("session_date") >= since).alias("is_recent")
    person_days = rows.group_by(*_AGENT, is_recent, "session_date", "person_id").agg(
        calls=pl.sum("total_tools"),
        failed=pl.sum("tools_failed"),
        costs=pl.count("cost_usd"),
        cost_usd=pl.sum("cost_usd"),
    )
    rates = [
        *_compared(person_days, FAILED_CALLS, "failed", "calls"),
        *_compared(person_days, COST, "cost_usd", "costs"),
    ]
    alpha = (1 - LEVEL) / (_WEEKS * max(len(rates), 1))
    found = []
    for row in rates:
        rise = row["rate"] - row["rate_before"]
        least = _LEAST_SHARE if row["measure"] == FAILED_CALLS else _LEAST_COST * row["rate_before"]
        # What rises too little needs no quantile, whose library takes longer to load than the list.
        if rise >= least and rise > (half := _half(row, alpha)):
            found.append({**row, "low": rise - half, "high": rise + half, "since": since})
    return found


def _compared(
    person_days: pl.DataFrame, measure: str, amount: str, base: str
) -> Iterator[Mapping[str, Any]]:
    """Yield the rates of agents with _FEWEST person-days in the last days and in those before.

    Args:
        person_days: A row per agent, ``is_recent``, date and person, with sums of both columns.
        measure: FAILED_CALLS or COST.
        amount: Column of the numerator.
        base: Column of the denominator; person-days with 0 are left out.

    Yields:
        ``measure``, ``organization_id``, ``agent_id``, and ``rate`` (sum of ``amount`` divided by
        sum of ``base``), its ``variance`` and the ``number`` of person-days: of the last days, and
        of the days before with the suffix ``_before``.
    """
    sums = person_days.filter(pl.col(base) > 0).select(
        *_AGENT,
        "is_recent",
        amount=pl.col(amount).cast(pl.Float64),
        base=pl.col(base).cast(pl.Float64),
    )
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


def _half(row: Mapping[str, Any], alpha: float) -> float:
    """Return half of the interval of the difference of both rates (Welch)."""
    parts = ((row["variance"], row["number"]), (row["variance_before"], row["number_before"]))
    variance = sum(part for part, _ in parts)
    if not variance > 0:
        return 0.0
    freedom = variance**2 / sum(part**2 / (number - 1) for part, number in parts)
    return t_quantile(freedom, alpha) * float(variance**0.5)


@dataclass(frozen=True, slots=True)
class Risks:
    """The sessions of an alert.

    Attributes:
        rows: Those to look at: still a risk, and not scored by a person.
        raised: Number of all whose scores are not withheld.
        by_person: Number of those that a person has scored: nothing is left to do.
    """

    rows: pl.DataFrame
    raised: int
    by_person: int

    def why_fewer(self) -> str | None:
        """Return the reason why the alert named more sessions; ``None`` if it did not."""
        others = self.raised - self.rows.height - self.by_person
        parts = [
            f"{number:,} {what}"
            for number, what in (
                (self.by_person, "now scored by a person"),
                (others, "above it again"),
            )
            if number
        ]
        return f"{self.raised:,} in the alert, minus {', '.join(parts)}" if parts else None


def risks_of(rows: pl.DataFrame, sessions: Collection[SessionKey], is_risk: pl.Expr) -> Risks:
    """Return what is left to do of an alert.

    Args:
        rows: Rows of sessions, as ``withhold`` returns them, with ``effective_source``.
        sessions: The sessions of the alert.
        is_risk: Whether the score of a row is a risk.
    """
    keys = pl.DataFrame(list(sessions), dict.fromkeys(SESSION_KEY, pl.String()), orient="row")
    found = rows.join(keys, on=SESSION_KEY, how="semi", maintain_order="left")
    by_person = pl.col("effective_source").eq_missing("override")
    shown = found.filter(~pl.col(WAITS))
    return Risks(
        rows=shown.filter(~by_person, is_risk),
        raised=len(sessions) - (found.height - shown.height),
        by_person=shown.filter(by_person).height,
    )
