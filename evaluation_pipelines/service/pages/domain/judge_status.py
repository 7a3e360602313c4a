"""Status and cost of the judge, and the sources of scores, in sentences."""

from collections.abc import Iterator
from datetime import datetime

import polars as pl

from evaluation_pipelines.formatting import usd, whole
from evaluation_pipelines.judging.domain.badge import ScoringsOfDay
from evaluation_pipelines.schemas import DEMO_JUDGE
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED, WAITS

_MOST_JUDGES = 3


def state_of_judge(
    model: str | None, why_none: str | None, down: str | None, newest: datetime | None = None
) -> tuple[str, str]:
    """Return the status of the judge, and what to know about it.

    Args:
        model: The model that judges.
        why_none: Why no session is judged; ``None`` if a judge is configured.
        down: Why the judge is not responding; ``None`` if its last run found it responding.
        newest: Start of its latest judgment; ``None`` without any.
    """
    if why_none is not None:
        what_to_do = _capital(why_none.partition(": ")[2])
        return "Not configured for new sessions", f"{what_to_do}. Other scores are still computed."
    if down is not None:
        return "Not responding", f"{_capital(down)}. Pending sessions are judged once it responds."
    if newest is None:
        return "Configured", f"{model} has not judged a session yet."
    return "Working", f"{model}, last judgment {newest:%Y-%m-%d %H:%M} UTC."


_SOURCES = {
    "scorecard": "profile",
    "override": "human",
    "status": "failed",
    "judge": "judge only",
    "composite": "composite",
}
"""Source of a score -> its name."""


def who_scored(rows: pl.DataFrame) -> str:
    """Return how many sessions have a score, and how many by source.

    Args:
        rows: ``effective_source``, ``automatic_judge_model``, IS_SCORED and WAITS of some sessions.
    """
    scored = rows.filter(IS_SCORED)
    shown = scored.filter(~pl.col(WAITS))
    parts = [
        f"{name} {whole(of_source.height)}{_detail(source, of_source)}"
        for source, name in _SOURCES.items()
        for of_source in [shown.filter(effective_source=source)]
        if of_source.height
    ]
    if hidden := scored.height - shown.height:
        parts.append(f"awaiting review {whole(hidden)}")
    number = f"{whole(scored.height)} of {whole(rows.height)} sessions scored"
    return f"{number}{': ' if parts else ''}{', '.join(parts)}."


def _detail(source: str, scored: pl.DataFrame) -> str:
    """Return which judges gave some scores or a part of them."""
    judged = scored.drop_nulls("automatic_judge_model")
    if source == "status":
        return " (score 0)"
    if judged.is_empty() or source not in {"judge", "scorecard"}:
        return ""
    included = f"{whole(judged.height)} include " if source == "scorecard" else ""
    return f" ({included}{_named(judged)})"


def _named(judged: pl.DataFrame) -> str:
    """Return the first judges by name; that of the demo is called what it is."""
    names = sorted(
        f"script {each}" if each == DEMO_JUDGE else each
        for each in judged["automatic_judge_model"].unique()
    )
    more = f" and {whole(len(names) - _MOST_JUDGES)} more" if len(names) > _MOST_JUDGES else ""
    return f"{', '.join(names[:_MOST_JUDGES])}{more}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def day_of_judge(day: ScoringsOfDay, limit_usd: float | None) -> str:
    """Return what the judge did today, and what that cost."""
    return f"{', '.join(_parts(day, limit_usd))}."


def _parts(day: ScoringsOfDay, limit_usd: float | None) -> Iterator[str]:
    by = f" by {', '.join(day.models)}" if day.models else ""
    yield f"{whole(day.completed)} judged{by}"
    yield f"{whole(day.failed)} failed"
    if day.open:
        yield f"{whole(day.open)} requested or in progress"
    unknown = f" (unknown for {whole(day.without_cost)})" if day.without_cost else ""
    limit = f" of at most {usd(limit_usd)} a day" if limit_usd is not None else ""
    yield f"cost {usd(day.cost_usd)}{unknown}{limit}"
