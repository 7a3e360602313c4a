"""Whether the judge works and what it costs, in sentences."""

from collections.abc import Iterator

from evaluation_pipelines.formatting import usd, whole
from evaluation_pipelines.judging.domain.scorings_of_day import ScoringsOfDay


def state_of_judge(model: str | None, why_none: str | None, down: str | None) -> tuple[str, str]:
    """Return the answer to "is the judge working?" and what to know about it.

    Args:
        model: The model that judges.
        why_none: Why no session is judged; ``None`` if a judge is configured.
        down: Why the judge does not answer; ``None`` if its last run found an answer.
    """
    if why_none is not None:
        return "No model judges", f"{_capital(why_none)}; scores that need no model are still made."
    if down is not None:
        return (
            "It does not answer",
            f"{_capital(down)}. What is due is judged when it answers again.",
        )
    return "Nothing is known against it", f"{model} is set up, and no run has found it silent."


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
