"""Whether the judge works and what it costs, in sentences."""

from collections.abc import Iterator
from datetime import datetime

import polars as pl

from evaluation_pipelines.formatting import usd, whole
from evaluation_pipelines.judging.domain.scorings_of_day import ScoringsOfDay
from evaluation_pipelines.schemas import DEMO_JUDGE
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED, WAITS

_MOST_JUDGES = 3


def state_of_judge(
    model: str | None, why_none: str | None, down: str | None, newest: datetime | None = None
) -> tuple[str, str]:
    """Return the answer to "is the judge working?" and what to know about it.

    Args:
        model: The model that judges.
        why_none: Why no session is judged; ``None`` if a judge is configured.
        down: Why the judge does not answer; ``None`` if its last run found an answer.
        newest: When its newest score was begun; ``None`` without any.
    """
    if why_none is not None:
        kept = "scores that need no model are still made, and those of before stay"
        return "No judge is set up now", f"{_capital(why_none)}; {kept}."
    if down is not None:
        return (
            "It does not answer",
            f"{_capital(down)}. What is due is judged when it answers again.",
        )
    if newest is None:
        return "It has not scored yet", f"{model} is set up, and no run has found it silent."
    said = (
        f"the newest score is of {newest:%Y-%m-%d %H:%M} UTC, and the last run found it answering"
    )
    return "Yes, as far as known", f"{model} is set up; {said}."


_SOURCES = {
    "scorecard": "by their profile",
    "judge": "by a judge alone",
    "composite": "by their composite",
    "status": "as 0, since they failed",
    "override": "by a person",
}
"""Source of a score that counts -> who gave it."""


def who_scored(rows: pl.DataFrame) -> str:
    """Return how many sessions have a score that counts, and who gave it.

    Args:
        rows: ``effective_source``, ``judge_model``, IS_SCORED and WAITS of some sessions.
    """
    scored = rows.filter(IS_SCORED)
    shown = scored.filter(~pl.col(WAITS))
    said = [
        f"{whole(of_source.height)} {given}{_judges(source, of_source)}"
        for source, given in _SOURCES.items()
        for of_source in [shown.filter(effective_source=source)]
        if of_source.height
    ]
    if hidden := scored.height - shown.height:
        said.append(f"{whole(hidden)} not shown before their blind review")
    number = f"{whole(scored.height)} of {whole(rows.height)} sessions have a score that counts"
    return f"{number}{': ' if said else ''}{', '.join(said)}."


def _judges(source: str, scored: pl.DataFrame) -> str:
    """Return which judges gave some scores, or a part of how many."""
    judged = scored.drop_nulls("judge_model")
    if source == "judge":
        return f" ({_named(judged)})" if judged.height else ""
    if source != "scorecard":
        return ""
    if judged.is_empty():
        return ", no judge has a part in them"
    return f" ({whole(judged.height)} of them with a part by {_named(judged)})"


def _named(judged: pl.DataFrame) -> str:
    """Return the first judges by name; that of the demo is called what it is."""
    names = sorted(
        f"the script {each}" if each == DEMO_JUDGE else each
        for each in judged["judge_model"].unique()
    )
    more = f" and {whole(len(names) - _MOST_JUDGES)} more" if len(names) > _MOST_JUDGES else ""
    return f"{', '.join(names[:_MOST_JUDGES])}{more}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def day_of_judge(day: ScoringsOfDay, limit_usd: float | None) -> str:
    """Return what the judge has done today, and what that cost."""
    return f"Today (UTC): {', '.join(_parts(day, limit_usd))}."


def _parts(day: ScoringsOfDay, limit_usd: float | None) -> Iterator[str]:
    by = f" by {', '.join(day.models)}" if day.models else ""
    yield f"{whole(day.completed)} scored{by}"
    yield f"{whole(day.failed)} failed"
    if day.open:
        yield f"{whole(day.open)} requested or in progress"
    unknown = f" (unknown for {whole(day.without_cost)})" if day.without_cost else ""
    limit = f" of at most {usd(limit_usd)} a day" if limit_usd is not None else ""
    yield f"cost {usd(day.cost_usd)}{unknown}{limit}"
