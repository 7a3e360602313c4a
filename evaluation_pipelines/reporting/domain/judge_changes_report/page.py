"""Content of the page about judge changes, prepared for its template."""

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean
from typing import Any

from evaluation_pipelines.formatting import DASH, points, signed
from evaluation_pipelines.judge_changes.domain.drawing import Stratum
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange, ScoredAnchor
from evaluation_pipelines.judge_changes.domain.words import (
    METHOD,
    headline,
    judges_line,
    sentences,
    title,
)
from evaluation_pipelines.reporting.domain.judge_changes_report.chart import before_bridge_after

TITLE = "Judge changes"
NO_CHANGE = "No judge has changed: each profile has scores of one judge."

STRATUM_HEADINGS = (
    "Label",
    "Model",
    "Sessions #",
    "Anchors #",
    "Previous judge #",
    "New judge #",
    "Difference #",
)


def page_content(changes: Sequence[JudgeChange], now: datetime) -> dict[str, Any]:
    """Return the values of the template by name; texts are not escaped yet."""
    return {
        "title": TITLE,
        "made": f"As of {now:%Y-%m-%d %H:%M} UTC. Scores of judges, 0-100.",
        "no_change": None if changes else NO_CHANGE,
        "changes": [change_content(each) for each in changes],
        "method": METHOD,
    }


def stratum_rows(found: JudgeChange) -> list[tuple[str, ...]]:
    """Return sessions, anchors and mean scores by label and model, as texts."""
    strata: dict[Stratum, list[ScoredAnchor]] = {}
    for each in found.counted:
        strata.setdefault(each.anchor.session.stratum, []).append(each)
    return [
        (
            label,
            model or "unknown",
            str(scored[0].anchor.stratum_sessions),
            str(len(scored)),
            *_means(scored),
        )
        for (label, model), scored in strata.items()
    ]


def _means(scored: Sequence[ScoredAnchor]) -> tuple[str, str, str]:
    totals = [
        (each.former.score, each.new.score)
        for each in scored
        if each.former.score is not None and each.new.score is not None
    ]
    if not totals:
        return DASH, DASH, DASH
    former, new = (fmean(each) for each in zip(*totals, strict=True))
    return points(former), points(new), signed(new - former)


def change_content(found: JudgeChange) -> dict[str, Any]:
    """Return the values of the template of one change by name; texts are not escaped yet."""
    return {
        "title": title(found.change),
        "judges": judges_line(found.change),
        "headline": headline(found),
        "sentences": sentences(found),
        "is_bridged": found.is_bridged,
        "picture": before_bridge_after(found),
        "headings": STRATUM_HEADINGS,
        "strata": stratum_rows(found),
    }
