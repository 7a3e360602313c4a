"""Facts of a session for its page: dimensions, judgments and lost calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from evaluation_pipelines.formatting import (
    duration,
    number,
    part_percent,
    percent,
    points,
    tokens,
    usd,
)
from evaluation_pipelines.judging.domain.badge import band, flags_of
from evaluation_pipelines.judging.domain.prompt.rubric import RubricCriterion
from evaluation_pipelines.judging.domain.prompt.sanitizer import ShownTexts
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.sessions.domain.performance import WEIGHTS

Row: TypeAlias = Mapping[str, Any]
Facts: TypeAlias = Sequence[tuple[str, str]]

_MOST_CALLS = 100
_LOST = {
    "failures": ("Failed", "error"),
    "loops": ("Failing loops", None),
    "repeats": ("Repeated", None),
    "corrections": ("Corrected by another tool", "correcting_tool"),
    "wasted": ("Wasted (result never used)", None),
}
"""Column of a tool report -> its heading, and the field that says more of a call."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion of a judgment: its name, points and the most it could have, if that is known."""

    name: str
    points: str
    most: int | None
    description: str


@dataclass(frozen=True, slots=True)
class Scoring:
    """A judgment of a session, for its page; text of the judge is not escaped.

    ``score`` is without them if the reader may not see them.
    """

    score: Score
    band: str
    when: datetime
    facts: Facts
    criteria: tuple[Criterion, ...]
    flags: tuple[str, ...]
    is_obsolete: bool
    is_of_current_content: bool


@dataclass(frozen=True, slots=True)
class LostCalls:
    """Calls of one kind that came to nothing; ``more`` are not among ``lines``."""

    heading: str
    lines: tuple[tuple[int, str, str, str], ...]
    more: int


def session_facts(row: Row, hidden: frozenset[str]) -> Facts:
    """Return name and value of what is known of a session, without ``hidden`` columns."""
    named = {
        "Started": f"{row['started_at']:%Y-%m-%d %H:%M}",
        "Ended" if row["explicit_end"] else "Last event": f"{row['ended_at']:%Y-%m-%d %H:%M}",
        "Organization": row["organization_id"],
        "Person": None if "person_id" in hidden else row["person_id"],
        "Team": None if "team" in hidden else row["team"],
        "Repository": row["repository"],
        "Branch": row["branch"],
        "Environment": row["environment"],
        "Agent": row["agent_id"],
        "Masque": None if row["masque"] == row["agent_id"] else row["masque"],
        "Program": " ".join(filter(None, (row["source_cli"], row["service_version"]))),
        "Model": ", ".join(row["models"] or ()) if row["model"] == "mixed" else row["model"],
        "Variant": row["model_variant"],
        "Label": row["classification_label"],
        "Status": row["status"],
        "Active": duration(row["active_s"] * 1000),
        "Prompts": number(row["prompts"], 0),
        "Tool calls": f"{number(row['total_tools'], 0)}, {number(row['tools_failed'], 0)} failed",
        "Cost": usd(row["cost_usd"]),
        "Tokens": tokens(row["total_tokens"]),
        "Cached tokens": tokens(row["cache_read_tokens"]),
    }
    return [(name, str(value)) for name, value in named.items() if value]


def outcome_facts(outcomes: Sequence[Row]) -> Facts:
    """Return kind and value of each outcome of a session, rows of SESSION_OUTCOMES."""
    return [(_kind(outcome["kind"]), _outcome(outcome)) for outcome in outcomes]


def _kind(kind: str) -> str:
    return kind.removeprefix("x_").replace("_", " ").capitalize()


def _outcome(row: Row) -> str:
    value, is_share = row["value"], row["kind"].startswith("survival") or row["value"] not in {0, 1}
    if value is None:
        shown = "none ran" if row["source"] == "telemetry" else "unknown"
    elif row["kind"] == "tests_after_last_edit":
        shown = "passed" if value else "failed"
    else:
        shown = part_percent(value) if is_share else "yes" if value else "no"
    about = [
        f"{row['happened_at']:%Y-%m-%d %H:%M}" if row["happened_at"] else None,
        row["reference"] if row["kind"] != "accepted" else None,
        f"{row['source']}, inferred" if row["inferred"] else row["source"],
    ]
    return f"{shown} ({', '.join(filter(None, about))})"


def summary_facts(row: Row) -> Sequence[str]:
    """Return duration, tool calls and cost of a session, for one line."""
    failed = f", {number(row['tools_failed'], 0)} failed" if row["tools_failed"] else ""
    cost = "cost unknown" if row["cost_usd"] is None else usd(row["cost_usd"])
    noun = "tool call" if row["total_tools"] == 1 else "tool calls"
    calls = f"{number(row['total_tools'], 0)} {noun}{failed}"
    return [f"{duration(row['active_s'] * 1000)} active", calls, cost]


def dimensions(performance: Row | None) -> Facts:
    """Return the five dimensions, 0-10, each with its share of the composite."""
    if performance is None:
        return []
    return [
        (f"{name.replace('_', ' ')} ({percent(weight)})", points(performance[name]))
        for name, weight in WEIGHTS.items()
    ]


def scoring_of(
    score: Score,
    content_hash: str,
    prompt_hash: str | None,
    criteria: Sequence[RubricCriterion],
    *,
    texts: bool,
) -> Scoring:
    """Return a judgment for the page of its session.

    Args:
        score: The judgment.
        content_hash: Current content of the session.
        prompt_hash: Hash of the rubric that would judge the session now; ``None`` if unknown.
        criteria: Criteria with the points that the judge could give.
        texts: Whether the reader may see what the judge wrote.
    """
    total, time = score.total_score, score.completed_at_us or score.scored_at_us
    shown = score if texts else replace(score, score_analysis=None, missing_tools_analysis=None)
    return Scoring(
        shown,
        "unscored" if total is None else band(total),
        datetime.fromtimestamp(time / 1e6, UTC),
        _scoring_facts(score),
        _criteria(score, criteria),
        flags_of(score),
        score.prompt_hash != prompt_hash,
        score.content_hash == content_hash,
    )


def lost_calls(report: Row | None, texts: ShownTexts | None) -> list[LostCalls]:
    """Return the calls of a session that came to nothing, by kind; kinds without any are absent.

    Args:
        report: Row of ``tool_reports``; ``None`` without tool calls.
        texts: Makes parameters and errors fit to be shown; ``None`` if the reader may see none.
    """
    found = []
    for column, (heading, more) in _LOST.items():
        calls = (report or {}).get(column) or ()
        if calls:
            lines = tuple(_call(call, more, texts) for call in calls[:_MOST_CALLS])
            found.append(LostCalls(heading, lines, max(0, len(calls) - _MOST_CALLS)))
    return found


def _call(call: Row, more: str | None, texts: ShownTexts | None) -> tuple[int, str, str, str]:
    given, said = call["parameters"], (call[more] or "") if more else ""
    parameters = texts.parameters(given) if texts and given else ""
    if more == "error" and said:
        said = texts.text(said) if texts else ""
    return call.get("call", call.get("first_call")) or 0, call["tool"] or "", parameters, said


def _criteria(score: Score, criteria: Sequence[RubricCriterion]) -> tuple[Criterion, ...]:
    known = {criterion.id: criterion for criterion in criteria}
    found = []
    for name, given in (score.criteria_scores or {}).items():
        criterion = known.get(name)
        title, points, meaning = name, None, ""
        if criterion is not None:
            title, points, meaning = criterion.name, criterion.points, criterion.description
        found.append(Criterion(title, number(given, 0), points, meaning))
    return tuple(found)


def _scoring_facts(score: Score) -> Facts:
    totals = ", ".join(map(str, score.sample_totals or ()))
    named = {
        "Judge": score.judge_model,
        "Profile": f"{score.judge_profile_id} version {score.judge_profile_version}",
        "Rubric": score.rubric,
        "Requested by": score.score_triggered_by,
        "Sample totals": totals if len(score.sample_totals or ()) > 1 else None,
        "Cost": usd(score.judge_cost_usd),
        "Attempt": str(score.attempt) if score.attempt > 1 else None,
    }
    return [(name, value) for name, value in named.items() if value]
