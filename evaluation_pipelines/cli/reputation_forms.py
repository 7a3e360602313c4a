"""How reputation is printed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from evaluation_pipelines.adapters.reputation_store import ReputationStore
from evaluation_pipelines.cli.terminal import complain, counted, one_line, print_table, say
from evaluation_pipelines.domain.reputation.agent_score import CALIBRATED_AT
from evaluation_pipelines.domain.reputation.sparkline import sparkline

_REJECTS_SHOWN = 3
_MODELS_SHOWN = 5


def print_tables(store: ReputationStore) -> None:
    """What each table holds."""
    rows = [
        (row["name"], row["row_count"], None if row["newest"] is None else _minute(row["newest"]))
        for row in store.status().to_dicts()
    ]
    print_table("Reputation", ("table", "rows #", "newest (UTC)"), rows, essential=3)


def print_migrations(store: ReputationStore) -> None:
    """What was applied, and when."""
    for row in store.applied().to_dicts():
        say(f"{_minute(row['applied_at'])}  {row['name']}")


def print_files(files: pl.DataFrame) -> None:
    """EXTERNAL_SIGNALS: how many lines of each file were loaded, and what is wrong with others."""
    for file in files.to_dicts():
        path, lines = one_line(file["path"]), counted(file["lines"], "line")
        say(f"  {path}: {file['accepted']} of {lines} loaded")
        for each in file["rejects"][:_REJECTS_SHOWN]:
            complain(f"warning: {path}, line {each['line']}: {one_line(each['reason'])}")
        if (more := file["rejected"] - _REJECTS_SHOWN) > 0:
            complain(f"warning: {path}: {more} more could not be used, see external_signals")
        if file["unfinished"]:
            complain(f"warning: {path}: the last line has no end yet, it is read when it has")


def print_agents(scores: pl.DataFrame, limit: int) -> None:
    """AGENT_SCORES by score, agents that are still calibrating last."""
    ranked = scores.sort(
        -pl.col("score"), -pl.col("eval_count"), "organization_id", "agent_id", nulls_last=True
    )
    rows = [_line(row) for row in ranked.head(limit).to_dicts()]
    columns = (
        "agent",
        "organization",
        "score #",
        "30 days ago #",
        "passed #",
        "90 % interval",
        "streak #",
        "state",
    )
    print_table("Agents, 0 to 1000 by their last 500 evaluations", columns, rows, essential=3)
    if (others := scores.height - limit) > 0:
        say(f"{counted(others, 'other')}: reputation leaderboard --limit {scores.height}")


def print_agent(row: Mapping[str, Any]) -> None:
    """One agent: its row of AGENT_SCORES, or the record of an unknown one."""
    say(f"{one_line(row['agent_id'])} of {one_line(row['organization_id'])}")
    score = _shown_score(row)
    say(f"  {'score':16} {score}{'' if '/' in score else ' of 1000'}, {row['lifecycle']}")
    if not row["eval_count"]:
        say(f"  {'evaluations':16} none yet of this name; the leaderboard has those with some")
        return
    before = row["score_30d_ago"]
    say(f"  {'before':16} {'unknown' if before is None else before} (30 days ago)")
    passed = f"{row['pass_rate']:.0%} of {counted(row['eval_count'], 'evaluation')}"
    say(f"  {'passed':16} {passed} (90 % interval {_interval(row)})")
    streak = counted(row["streak"], "pass", "passes")
    say(f"  {'streak':16} {streak} in a row up to the newest")
    if row["avg_latency_ms"] is not None:
        say(f"  {'latency':16} {row['avg_latency_ms']:.0f} ms on average")
    for each in row["by_model"][:_MODELS_SHOWN]:
        model = "no model named" if each["model"] is None else one_line(each["model"])
        say(f"  {'by model':16} {model}: {each['pass_rate']:.0%} of {each['evaluations']}")
    if (more := len(row["by_model"]) - _MODELS_SHOWN) > 0:
        say(f"  {'by model':16} {more} more, see agent_scores")


def print_identity(who: str, weeks: Sequence[Mapping[str, Any] | None]) -> None:
    """The newest reputation of an identity, and how its overall score went."""
    say(f"identity {who}")
    latest = weeks[-1]
    if latest is None:
        say("  no signal in the last 90 days")
        return
    line = sparkline([week["overall_score"] if week else None for week in weeks], -1, 1)
    say(f"  {'overall':16} {latest['overall_score']:+.3f}  {line}  (13 weeks, -1 to 1)")
    for name in ("task_quality", "economic", "identity_hygiene"):
        known = name in latest["categories_observed"]
        say(f"  {name:16} {_signed(latest[f'{name}_score']) if known else 'no signal'}")
    if (observed := latest["overall_observed"]) is not None:
        say(f"  {'of what is known':16} {_signed(observed)}")
    trend = (_signed(latest[name]) for name in ("score_7d_ago", "score_30d_ago"))
    say(f"  {'before':16} {' and '.join(trend)} (7 and 30 days ago)")
    for_it, against_it = latest["positive_events"], latest["negative_events"]
    signals = f"{latest['total_events']} in 90 days, {for_it} for it, {against_it} against it"
    say(f"  {'signals':16} {signals}; confidence {latest['confidence']:.2f}")


def _line(row: Mapping[str, Any]) -> tuple[object, ...]:
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
    """The score, or how far an agent is on the way to one."""
    if row["lifecycle"] == "calibrating":
        return f"{row['eval_count']}/{CALIBRATED_AT}"
    return str(row["score"])


def _interval(row: Mapping[str, Any]) -> str:
    return f"{row['pass_rate_low']:.0%} to {row['pass_rate_high']:.0%}"


def _signed(value: float | None) -> str:
    return "unknown" if value is None else f"{value + 0.0:+.3f}"


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
