"""The worst sessions: a table, and one by one what the comparison knows of each of them.

The table leads to the cards by numbers: no text of telemetry is ever an id.
"""

from collections.abc import Callable
from typing import Any

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.coverage import worst_sessions
from evaluation_pipelines.comparison.domain.findings import name_of, scored_by
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.formatting import duration, points, usd, whole
from evaluation_pipelines.reporting.domain.comparison_report.markup import (
    LONGEST_SENTENCE,
    escaped,
    table,
)
from evaluation_pipelines.reporting.domain.comparison_report.sections import (
    WORST_HEADINGS,
    look_command,
    worst_cells,
)

UNKNOWN = "unknown"
_TABLE = "worst-sessions"
_OF_CARD = ("card_id", "scale_min", "scale_max", "reasoning", "disqualifier_triggered")


def worst_table(comparison: Comparison) -> str:
    """The worst sessions, each leading to its card; nothing where no session has a score."""
    rows = worst_sessions(comparison).rows(named=True)
    if not rows:
        return ""
    cells = (worst_cells(row, _place(number)) for number, row in enumerate(rows, 1))
    return f'<h2 id="{_TABLE}">The worst sessions</h2>{table(WORST_HEADINGS, cells)}'


def worst_details(comparison: Comparison) -> str:
    """A card for each of the worst sessions, in the order of the table."""
    cards = comparison.cards.select(_OF_CARD)
    known = worst_sessions(comparison).join(
        cards, on="card_id", how="left", validate="m:1", maintain_order="left"
    )
    rows = known.rows(named=True)
    if not rows:
        return ""
    shown = (_card(number, row) for number, row in enumerate(rows, 1))
    return f"<h2>The worst sessions, one by one</h2>{''.join(shown)}"


def _place(number: int) -> str:
    return f"session-{number}"


def _card(number: int, row: Row) -> str:
    facts = "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>"
        for name, value in _facts(row).items()
    )
    said = "".join(f'<p class="small">{escaped(text, LONGEST_SENTENCE)}</p>' for text in _said(row))
    source = scored_by(row["profile_id"], row["profile_version"], row["effective_source"])
    return (
        f'<div class="card session" id="{_place(number)}">'
        f"<h3>{number}. {escaped(row['session_key'])}</h3>"
        f"<p><strong>{points(row['score'])} of 100</strong>{_tags(row)} "
        f'<span class="small muted">Scored by: {escaped(source, LONGEST_SENTENCE)}</span></p>'
        f'<dl class="facts">{facts}</dl>{said}'
        f"<p><code>{escaped(look_command(row), LONGEST_SENTENCE)}</code></p>"
        f'<p class="small back"><a href="#{_TABLE}">Back to the table</a></p></div>'
    )


def _tags(row: Row) -> str:
    words = {"disqualified": row["is_disqualified"], "quality risk": row["quality_risk"]}
    return "".join(
        f' <span class="tag bad">{word}</span>' for word, is_so in words.items() if is_so
    )


def _facts(row: Row) -> dict[str, str]:
    """What is known, by its name; a masque only where one was worn."""
    masque = {"Masque": row["masque"]} if row["masque"] is not None else {}
    return {
        "Model": name_of(row),
        "Label": _known(row["classification_label"]),
        "Task class": _known(row["task_class"]),
        "Status": _known(row["status"]),
        "Organization": _known(row["organization_id"]),
        "Agent": _known(row["agent_id"]),
        **masque,
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
    """Whether, and by what; once a person has scored it, it counts all the same."""
    if not row["disqualified"]:
        return UNKNOWN if row["disqualified"] is None else "no"
    rule = row["disqualifier_triggered"]
    found = "yes, by an unknown rule" if rule is None else f"yes, by {rule}"
    return found if row["is_disqualified"] else f"{found}; a person has scored it since"


def _quality_risk(row: Row) -> str:
    if not row["quality_risk"]:
        return UNKNOWN if row["quality_risk"] is None else "no"
    profile = row["automatic_profile_id"]
    return f"yes, below the limit of {profile}" if profile else "yes, below the usual limit"


def _said(row: Row) -> list[str]:
    """The scorecard in its own words, which count on its own scale; nothing without a card."""
    if row["reasoning"] is None:
        return []
    computed, *judged = row["reasoning"].split("\n\n")
    scale = f"{row['scale_min']:g} to {row['scale_max']:g}"
    return [
        f"Scorecard: {points(row['automatic'])} of 100. On its scale, {scale}: {computed}",
        *judged,
    ]
