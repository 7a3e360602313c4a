"""The worst sessions: rows of a table, and a card with the details of each session.

Rows link to cards by number: a text of telemetry is never an id.
"""

from collections.abc import Callable
from typing import Any

from evaluation_pipelines.comparison.domain.compare import Comparison, worst_sessions
from evaluation_pipelines.comparison.domain.findings import name_of, scored_by
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.formatting import duration, points, usd, whole
from evaluation_pipelines.reporting.domain.comparison_report.sections import (
    Cell,
    look_command,
    worst_cells,
)

UNKNOWN = "unknown"
_OF_CARD = ("card_id", "scale_min", "scale_max", "reasoning", "disqualifier_triggered")


def worst_rows(
    comparison: Comparison, link: Callable[[Row], str] | None = None
) -> list[list[Cell]]:
    """Return a row for each of the worst sessions; it leads to its card, or to ``link`` of it."""
    rows = worst_sessions(comparison).iter_rows(named=True)
    return [
        worst_cells(row, f"#session-{number}" if link is None else link(row))
        for number, row in enumerate(rows, 1)
    ]


def worst_cards(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a card for each of the worst sessions, in the order of the table."""
    cards = comparison.cards.select(_OF_CARD)
    known = worst_sessions(comparison).join(
        cards, on="card_id", how="left", validate="m:1", maintain_order="left"
    )
    return [_card(number, row) for number, row in enumerate(known.iter_rows(named=True), 1)]


def _card(number: int, row: Row) -> dict[str, Any]:
    marks = {"disqualified": row["is_disqualified"], "quality risk": row["quality_risk"]}
    return {
        "id": f"session-{number}",
        "number": number,
        "session_key": row["session_key"],
        "score": points(row["score"]),
        "scored_by": _scored_by(row),
        "tags": [mark for mark, is_set in marks.items() if is_set],
        "facts": _facts(row),
        "texts": _texts(row),
        "command": look_command(row),
    }


def _scored_by(row: Row) -> str:
    """Return the source of the score; a run that failed at once stands in the row of others."""
    if row["failed_at_start"]:
        return scored_by(None, None, "status")
    return scored_by(row["profile_id"], row["profile_version"], row["effective_source"])


def _facts(row: Row) -> dict[str, str]:
    """Return facts by name; the masque if one was worn, the score by a person if there is one."""
    masque = {"Masque": row["masque"]} if row["masque"] is not None else {}
    said = row["people_score"]
    people = {"Score by a person": points(said)} if said is not None else {}
    return {
        "Model": name_of(row),
        "Label": _known(row["classification_label"]),
        "Task class": _known(row["task_class"]),
        "Status": _known(row["status"]),
        "Organization": _known(row["organization_id"]),
        "Agent": _known(row["agent_id"]),
        **masque,
        **people,
        "Started (UTC)": f"{row['started_at']:%Y-%m-%d %H:%M}",
        "Active time": _known(row["active_ms"], duration),
        "Cost": _known(row["cost_usd"], usd),
        "Tokens": _known(row["total_tokens"], whole),
        "Tool calls": _tool_calls(row),
        "Disqualified": _disqualified(row),
        "Quality risk": _quality_risk(row),
    }


def _known(value: Any, shown: Callable[[Any], str] = str) -> str:
    return UNKNOWN if value is None else shown(value)


def _tool_calls(row: Row) -> str:
    if row["tools_ok"] is None or row["tools_failed"] is None:
        return UNKNOWN
    return f"{whole(row['tools_ok'])} ok, {whole(row['tools_failed'])} failed"


def _disqualified(row: Row) -> str:
    """Return the rule that disqualified the session."""
    if not row["disqualified"]:
        return UNKNOWN if row["disqualified"] is None else "no"
    rule = row["disqualifier_triggered"]
    return "yes, by an unknown rule" if rule is None else f"yes, by {rule}"


def _quality_risk(row: Row) -> str:
    if not row["quality_risk"]:
        return UNKNOWN if row["quality_risk"] is None else "no"
    profile = row["risk_profile_id"]
    return f"yes, below the limit of {profile}" if profile else "yes, below the usual limit"


def _texts(row: Row) -> list[str]:
    """Return the reasoning of the scorecard on its own scale; empty without one."""
    if row["reasoning"] is None:
        return []
    computed, *judged = row["reasoning"].split("\n\n")
    scale = f"{row['scale_min']:g} to {row['scale_max']:g}"
    return [
        f"Scorecard: {points(row['score'])} of 100. On its scale, {scale}: {computed}",
        *judged,
    ]
