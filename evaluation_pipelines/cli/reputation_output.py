"""What the commands ``reputation`` print: scores, identities, files and tables."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from evaluation_pipelines.cli.output import (
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
)
from evaluation_pipelines.reputation.domain.submitted import progress

_MAX_REJECTS = 3
_MAX_MODELS = 5
_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], low: float, high: float) -> str:
    """Return one bar per value between ``low`` and ``high``; a dot for an unknown value."""
    return "".join("·" if value is None else _bar(value, low, high) for value in values)


def _bar(value: float, low: float, high: float) -> str:
    index = (min(max(value, low), high) - low) / (high - low) * (len(_BARS) - 1)
    return _BARS[round(index)]


def print_tables(tables: pl.DataFrame) -> None:
    """Print the tables in ClickHouse."""
    rows = [
        (row["name"], row["row_count"], None if row["newest"] is None else _minute(row["newest"]))
        for row in tables.to_dicts()
    ]
    print_table("Reputation", ("table", "rows #", "newest (UTC)"), rows, essential=3)


def print_migrations(applied: pl.DataFrame) -> None:
    """Print the applied migrations."""
    for row in applied.to_dicts():
        print_line(f"{_minute(row['applied_at'])}  {row['name']}")


def print_files(files: pl.DataFrame) -> None:
    """Print the number of lines loaded from each file, and the errors of others.

    Args:
        files: EXTERNAL_SIGNALS.
    """
    for file in files.to_dicts():
        path, lines = one_line(file["path"]), pluralize(file["lines"], "line")
        withheld = file["withheld"] or 0
        others = {"retractions": file["retracted"], "already retracted": withheld}
        said = "".join(f", {number} {what}" for what, number in others.items() if number)
        print_line(f"  {path}: {file['accepted'] - withheld} of {lines} loaded{said}")
        for each in file["rejects"][:_MAX_REJECTS]:
            print_error(f"warning: {path}, line {each['line']}: {one_line(each['reason'])}")
        if (more := file["rejected"] - _MAX_REJECTS) > 0:
            print_error(f"warning: {path}: {more} more invalid lines: see quarantine list")
        if file["unfinished"]:
            print_error(f"warning: {path}: the last line is incomplete and is read when it ends")


def print_agents(scores: pl.DataFrame, limit: int) -> None:
    """Print AGENT_SCORES in their order."""
    rows = [_agent_line(row) for row in scores.head(limit).to_dicts()]
    columns = (
        "agent",
        "organization",
        "score #",
        "30 days ago #",
        "passed #",
        "90% interval",
        "streak #",
        "state",
    )
    print_table("Agents, 0 to 1000 by their last 500 evaluations", columns, rows, essential=3)
    if (others := scores.height - limit) > 0:
        command = f"evaluation-pipelines reputation leaderboard --limit {scores.height}"
        print_line(f"{pluralize(others, 'other')}: {command}")


def print_agent(row: Mapping[str, Any]) -> None:
    """Print the row of an agent in AGENT_SCORES, or the record of an unknown agent."""
    print_line(f"{one_line(row['agent_id'])} of {one_line(row['organization_id'])}")
    score = _shown_score(row)
    print_line(f"  {'score':16} {score}{'' if '/' in score else ' of 1000'}, {row['lifecycle']}")
    if not row["eval_count"]:
        print_line(
            f"  {'evaluations':16} none with this name; see the leaderboard for known agents"
        )
        return
    before = row["score_30d_ago"]
    print_line(f"  {'before':16} {'unknown' if before is None else before} (30 days ago)")
    passed = f"{row['pass_rate']:.0%} of {pluralize(row['eval_count'], 'evaluation')}"
    print_line(f"  {'passed':16} {passed} (90% interval {_interval(row)})")
    streak = pluralize(row["streak"], "pass", "passes")
    print_line(f"  {'streak':16} {streak} in a row, up to the newest evaluation")
    if row["avg_latency_ms"] is not None:
        print_line(f"  {'latency':16} {row['avg_latency_ms']:.0f} ms on average")
    for each in row["by_model"][:_MAX_MODELS]:
        model = "unknown model" if each["model"] is None else one_line(each["model"])
        print_line(f"  {'by model':16} {model}: {each['pass_rate']:.0%} of {each['evaluations']}")
    if (more := len(row["by_model"]) - _MAX_MODELS) > 0:
        print_line(f"  {'by model':16} {more} more, see agent_scores")


def print_identity(identity: str, weeks: Sequence[Mapping[str, Any] | None]) -> None:
    """Print the newest reputation of an identity and its weekly overall scores."""
    print_line(f"identity {identity}")
    latest = weeks[-1]
    if latest is None:
        print_line("  no signal in the last 90 days")
        return
    line = sparkline([week["overall_score"] if week else None for week in weeks], -1, 1)
    print_line(f"  {'overall':16} {latest['overall_score']:+.3f}  {line}  (13 weeks, -1 to 1)")
    for name in ("task_quality", "economic", "identity_hygiene"):
        is_known = name in latest["categories_observed"]
        print_line(f"  {name:16} {signed(latest[f'{name}_score']) if is_known else 'no signal'}")
    if (observed := latest["overall_observed"]) is not None:
        print_line(f"  {'known categories':16} {signed(observed)}")
    trend = (signed(latest[name]) for name in ("score_7d_ago", "score_30d_ago"))
    print_line(f"  {'before':16} {' and '.join(trend)} (7 and 30 days ago)")
    positive, negative = latest["positive_events"], latest["negative_events"]
    signals = f"{latest['total_events']} in 90 days, {positive} positive, {negative} negative"
    print_line(f"  {'signals':16} {signals}; confidence {latest['confidence']:.2f}")


def _agent_line(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        row["agent_id"],
        row["organization_id"],
        _shown_score(row),
        row["score_30d_ago"],
        f"{row['pass_rate']:.0%}",
        _interval(row),
        row["streak"],
        row["lifecycle"],
    )


def _shown_score(row: Mapping[str, Any]) -> str:
    """Return the score, or how many of the evaluations that it needs there are."""
    return progress(row) or str(row["score"])


def _interval(row: Mapping[str, Any]) -> str:
    return f"{row['pass_rate_low']:.0%} to {row['pass_rate_high']:.0%}"


def signed(value: float | None) -> str:
    """Return a score from -1 to 1 with its sign."""
    return "unknown" if value is None else f"{value + 0.0:+.3f}"


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
