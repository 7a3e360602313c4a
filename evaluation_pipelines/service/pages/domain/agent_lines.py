"""Agents by their score, and what the score of one is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import DASH, interval, number, percent, whole
from evaluation_pipelines.reputation.domain.agent_score import PARTS
from evaluation_pipelines.reputation.domain.submitted import progress

LIFECYCLES = ("calibrating", "active", "mature")

SORTED_BY = {
    "agent": "agent_id",
    "organization": "organization_id",
    "score": "score",
    "trend": "change",
    "passed": "pass_rate",
    "identity": "overall_score",
}
"""Name of an order -> its column."""

USUAL_ORDER = "-score"
MOST_NAMED = 3

CATEGORIES = {
    "task_quality": ("Task quality", "40%"),
    "economic": ("Economic", "35%"),
    "identity_hygiene": ("Identity hygiene", "25%"),
}
"""Category of signals -> its title, and its weight in the overall reputation."""

CSV_COLUMNS = (
    *("organization_id", "agent_id", "identity_id", "score", "lifecycle", "eval_count"),
    *("evaluations_in_all", "pass_rate", "pass_rate_low", "pass_rate_high", "avg_latency_ms"),
    *("streak", "score_30d_ago", "updated_at", "overall_score", "total_events"),
    *("positive_events", "negative_events", "confidence"),
)
"""Columns of a downloaded list, as in the analysts' database."""


def relied_on(rows: pl.DataFrame) -> str:
    """Return the agents with the highest scores, and how many have none yet.

    Args:
        rows: Rows of :func:`agent_rows` in their usual order.
    """
    scored = rows.drop_nulls("score")
    if scored.is_empty():
        return "Not known yet: no agent has the 50 evaluations a score needs."
    has_owners = rows["organization_id"].n_unique() > 1
    names = [
        f"{row['agent_id']}{' (' + row['organization_id'] + ')' if has_owners else ''} "
        f"{whole(row['score'])}, {percent(row['pass_rate'])} passed"
        for row in scored.head(MOST_NAMED).iter_rows(named=True)
    ]
    waiting = rows.height - scored.height
    has = "has" if waiting == 1 else "have"
    more = [f"{whole(waiting)} more {has} too few evaluations"] if waiting else []
    return " · ".join([*names, *more])


@dataclass(frozen=True, slots=True)
class AgentLine:
    """A line of the list; texts are not escaped."""

    organization: str
    agent: str
    score: str
    lifecycle: str
    trend: str
    passed: str
    passed_interval: str
    identity: str
    signals: str


def agent_rows(agents: pl.DataFrame, identities: pl.DataFrame) -> pl.DataFrame:
    """Return the agents with the reputation of their identities, the best first.

    Args:
        agents: AGENT_SCORES.
        identities: REPUTATION_SCORES.
    """
    scores = identities.drop("score_7d_ago", "score_30d_ago")
    rows = agents.join(scores, on="identity_id", how="left")
    change = pl.col("score") - pl.col("score_30d_ago")
    return rows.with_columns(change=change).sort(
        -pl.col("score"), -pl.col("eval_count"), "organization_id", "agent_id", nulls_last=True
    )


def agent_line(row: Mapping[str, Any]) -> AgentLine:
    """Return the line of a row of :func:`agent_rows`."""
    low, high = percent(row["pass_rate_low"]), percent(row["pass_rate_high"])
    return AgentLine(
        organization=row["organization_id"],
        agent=row["agent_id"],
        score=progress(row) or whole(row["score"]),
        lifecycle=row["lifecycle"],
        trend=signed_whole(row["change"]),
        passed=percent(row["pass_rate"]),
        passed_interval=interval(low, high),
        identity=reputation(row["overall_score"]),
        signals=whole(row["total_events"]) if row["total_events"] else "",
    )


def signed_whole(value: float | None) -> str:
    """Format a difference of scores with its sign."""
    return DASH if value is None else f"{value:+.0f}"


def reputation(value: float | None) -> str:
    """Format a reputation from -1 to 1 with its sign."""
    return DASH if value is None else f"{value + 0.0:+.2f}"


def why(row: Mapping[str, Any], parts: Mapping[str, float]) -> list[tuple[str, str, str, str]]:
    """Return title, points, most points and reason of each part of the score of an agent.

    Args:
        row: Row of AGENT_SCORES.
        parts: Points by the names of PARTS.
    """
    latency = row["avg_latency_ms"]
    reasons = {
        "passed": f"{percent(row['pass_rate'])} of {whole(row['eval_count'])} evaluations",
        "latency": "latency unknown"
        if latency is None
        else f"mean {whole(latency)} ms (full points at 0)",
        "streak": f"streak of {whole(row['streak'])} (full points at 50)",
        "volume": f"{whole(row['eval_count'])} evaluations (full points at {row['window_size']})",
    }
    titles = {"passed": "Passed", "latency": "Fast", "streak": "Steady", "volume": "Experienced"}
    return [
        (titles[name], number(parts[name], 0), whole(most), reasons[name])
        for name, most in PARTS.items()
    ]


def categories_of(identity: Mapping[str, Any]) -> Sequence[tuple[str, str, str]]:
    """Return title, weight and score of each category of signals of an identity."""
    return [
        (
            title,
            weight,
            reputation(identity[f"{name}_score"])
            if name in (identity["categories_observed"] or [])
            else "no signal",
        )
        for name, (title, weight) in CATEGORIES.items()
    ]
