"""The judge page: agreement with people, sources of scores, status, cost, and judge changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import JUDGE_DOWN
from evaluation_pipelines.comparison.domain.prediction import HEADINGS, lines, notes
from evaluation_pipelines.formatting import (
    csv_text,
    interval,
    percent,
    pluralize,
    points,
    signed,
    usd,
    whole,
)
from evaluation_pipelines.judge_changes.domain.judge_change import (
    DAYS,
    STRATUM,
    JudgeChange,
    headline,
    judges_line,
    sentences,
    title,
)
from evaluation_pipelines.judging.domain.badge import ScoringsOfDay
from evaluation_pipelines.judging.ledger.score_queries import day_scorings, newest_scoring
from evaluation_pipelines.numerics.estimates import Estimate
from evaluation_pipelines.reporting.domain.charts import (
    Axis,
    Curve,
    Place,
    color_legend,
    line_chart,
    score_ends,
)
from evaluation_pipelines.schemas import DEMO_JUDGE, OUTCOME_PREDICTIONS
from evaluation_pipelines.scorecards.blind_reviews import calibration, profile_leans
from evaluation_pipelines.scorecards.domain.calibration import (
    AGREEMENT_COLUMNS,
    LARGE_ERROR,
    MIN_PAIRS,
    Agreement,
)
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED, WAITS, withhold
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.service.pages.domain.days import DayRange, day_range
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, download
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter

_PREDICTIONS = 30
"""Predictions that the page shows: the primary ones, then those farthest from a coin."""

AUDIT = "audit"
"""The sample that is drawn at random; scores that people chose to correct are no measure."""


@dataclass(frozen=True, slots=True)
class TrustLine:
    """A line of the table; texts of profiles are not escaped.

    ``lacks`` is the number of reviews without which nothing is shown but their number.
    """

    profile: str
    reviews: int
    lacks: int
    off: str
    off_interval: str
    bias: str
    bias_interval: str
    mean_error: str
    missing: str


def answer(found: Sequence[Agreement], waiting: int) -> tuple[str, str]:
    """Return how far automatic scores are from human ones, and what is left to do.

    Args:
        found: The agreements of all profile versions.
        waiting: Number of sessions awaiting review.
    """
    audits = [agreement for agreement in found if agreement.sample == AUDIT]
    known = [audit for audit in audits if audit.bias.value is not None]
    if not known:
        most = max((audit.n for audit in audits), default=0)
        so_far = f"the most so far is {most}" if most else "none so far"
        needed = f"A profile needs {MIN_PAIRS} blind reviews, {so_far}."
        return "Not measured yet", f"{needed} {_reviews_left(waiting)}"
    worst = max(known, key=lambda agreement: agreement.mae.value or 0.0)
    name = f"{worst.profile_id} v{worst.profile_version}"
    furthest = "" if len(known) == 1 else f", the furthest of {len(known)} profiles"
    return (
        f"Within {points(worst.mae.value)} points of human scores on average",
        f"{pluralize(worst.n, 'blind review')}, profile {name}{furthest}. {_reviews_left(waiting)}",
    )


def sentence(found: Agreement) -> str:
    """Return how a profile version with enough reviews differs from them."""
    bias = found.bias.value or 0.0
    return (
        f"{found.profile_id} v{found.profile_version}: {points(abs(bias))} points "
        f"{_side(bias)} on average{_ends(found.bias)}. {percent(found.off.value)} of "
        f"{whole(found.n)} scores are off by more than {LARGE_ERROR:g} points."
    )


def trust_line(found: Agreement) -> TrustLine:
    """Return the line of a profile version."""
    off, bias = found.off, found.bias
    return TrustLine(
        f"{found.profile_id} v{found.profile_version}",
        found.n,
        max(0, MIN_PAIRS - found.n),
        percent(off.value),
        interval(percent(off.low), percent(off.high)),
        signed(bias.value),
        interval(signed(bias.low), signed(bias.high)),
        points(found.mae.value),
        found.missing or "",
    )


def _side(bias: float) -> str:
    return "too high" if bias > 0 else "too low"


def _ends(estimate: Estimate) -> str:
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return ""
    if low <= 0 <= high:
        return f" ({points(-low)} too low to {points(high)} too high)"
    smaller, larger = sorted((abs(low), abs(high)))
    return f" ({points(smaller)} to {points(larger)})"


def _reviews_left(reviews: int) -> str:
    if not reviews:
        return "No session is awaiting review."
    return f"{pluralize(reviews, 'session')} {'is' if reviews == 1 else 'are'} awaiting review."


_MOST_JUDGES = 3


def judge_standing(
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


def score_sources(rows: pl.DataFrame) -> str:
    """Return how many sessions have a score, and how many by source.

    Args:
        rows: ``effective_source``, ``automatic_judge_model``, IS_SCORED and WAITS of some sessions.
    """
    scored = rows.filter(IS_SCORED)
    shown = scored.filter(~pl.col(WAITS))
    parts = [
        f"{name} {whole(sessions.height)}{_detail(source, sessions)}"
        for source, name in _SOURCES.items()
        for sessions in [shown.filter(effective_source=source)]
        if sessions.height
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
        f"script {model}" if model == DEMO_JUDGE else model
        for model in judged["automatic_judge_model"].unique()
    )
    more = f" and {whole(len(names) - _MOST_JUDGES)} more" if len(names) > _MOST_JUDGES else ""
    return f"{', '.join(names[:_MOST_JUDGES])}{more}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def judge_day(day: ScoringsOfDay, limit_usd: float | None) -> str:
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


_FEWEST_POINTS = 10.0
"""The axis spans at least this many points."""

_FORMER, _NEW = 1, 0


def before_and_after(found: JudgeChange) -> str | None:
    """Return the picture; ``None`` if no period before or after has enough scores.

    Scores before are drawn again on the scale of the new judge, with the interval of its part.
    """
    row, is_past = found.row, pl.col("middle") < 0
    begun = row["changed_on"] or row["computed_at"].date() + timedelta(days=1)
    start, length = datetime.combine(begun, time(), UTC), timedelta(days=DAYS)
    former, new = found.means.filter(is_past), found.means.filter(~is_past)

    def places(means: pl.DataFrame, by: str, shift: float = 0.0) -> list[Place]:
        return [
            Place(
                start + timedelta(days=middle),
                mean + shift,
                f"{points(mean + shift)} points, {sessions} sessions, {by}",
            )
            for middle, mean, sessions in means.iter_rows()
        ]

    curves = [
        Curve(places(former, "previous judge"), _FORMER),
        Curve(places(new, "new judge"), _NEW),
    ]
    ends = list[float]()
    if row["trend"] == "bridged":
        shift, low, high = (row[f"judges_part{end}"] for end in ("", "_low", "_high"))
        adjusted, band = places(former, "adjusted", shift), (low - shift, high - shift)
        curves.append(Curve(adjusted, _NEW, is_dashed=True, band=band))
        ends = [place.value + end for place in adjusted for end in band]
    means = found.means["mean"].to_list()
    return line_chart(
        "Mean scores before and after a change of the judge",
        curves,
        Axis(values=[*ends, *score_ends(means, _FEWEST_POINTS)]),
        (start - length, start + length if row["changed_on"] else start),
        [start] if row["changed_on"] else [],
        color_legend(
            ["previous judge", "new judge"], {"previous judge": _FORMER, "new judge": _NEW}
        ),
    )


STRATUM_HEADINGS = (
    *("Label", "Model", "Sessions #", "Anchors #"),
    *("Previous judge #", "New judge #", "Difference #"),
)


def stratum_rows(found: JudgeChange) -> list[tuple[str, ...]]:
    """Return sessions, anchors and mean scores by label and model, as texts."""
    is_scored = pl.col("difference").is_not_null()
    strata = (
        found.anchors.filter(pl.col("replaced_because").is_null())
        .group_by(STRATUM, maintain_order=True)
        .agg(
            pl.col("stratum_sessions").first(),
            pl.len(),
            pl.col("former_score", "new_score", "difference").filter(is_scored).mean(),
        )
    )
    return [
        (
            label,
            model or "unknown",
            f"{sessions}",
            f"{number}",
            points(former),
            points(new),
            signed(by),
        )
        for label, model, sessions, number, former, new, by in strata.iter_rows()
    ]


def change_content(found: JudgeChange) -> dict[str, Any]:
    """Return the values of the template of one change by name; texts are not escaped yet."""
    return {
        "title": title(found.change),
        "judges": judges_line(found.change),
        "headline": headline(found.row),
        "sentences": sentences(found),
        "is_bridged": found.row["trend"] == "bridged",
        "picture": before_and_after(found),
        "headings": STRATUM_HEADINGS,
        "strata": stratum_rows(found),
    }


ROUTER = APIRouter(include_in_schema=False)


@ROUTER.get("/operations/judge")
def judge(visit: Visitor) -> HTMLResponse:
    """Show how far automatic scores agree with human ones, and the changes of the judge."""
    overrides = _overrides(visit)
    found = calibration(visit.stores, overrides)
    audits = [agreement for agreement in found if agreement.sample == AUDIT]
    leans = [lean for lean in profile_leans(visit.stores, overrides) if lean.is_beyond_chance]
    lines = [trust_line(audit) for audit in audits]
    return visit.page(
        "judge",
        **judge_summary(visit, found),
        has_sessions=not visit.rows().is_empty(),
        sentences=[
            *(sentence(audit) for audit in audits if audit.missing is None),
            *(f"{lean.notice}." for lean in leans),
        ],
        lines=lines,
        is_measured=any(not line.lacks for line in lines),
        changes=_changes(visit),
        **_predictions(visit),
        recent=_recent(visit),
        csv_url=visit.frame.url("/operations/judge.csv"),
    )


def judge_summary(visit: Visit, found: Sequence[Agreement] | None = None) -> dict[str, Any]:
    """Return score quality, status of the judge and what it did today, for a template.

    ``found`` is the agreement of all profile versions, if it is known.
    """
    if found is None:
        found = calibration(visit.stores, _overrides(visit))
    waiting = len(visit.to_review)
    return {
        "quality": answer(found, waiting),
        "judge_state": _state(visit),
        "judge_today": _today(visit),
    }


@ROUTER.get("/operations/judge.csv")
def judge_csv(visit: Visitor) -> Response:
    """Return the agreement of automatic scores with people's, of every sample, as CSV."""
    found = calibration(visit.stores, _overrides(visit))
    rows = pl.DataFrame(
        [agreement.record() for agreement in found], AGREEMENT_COLUMNS, orient="row"
    )
    return download("judge.csv", csv_text(rows))


def _predictions(visit: Visit) -> dict[str, Any]:
    """Return which scores predict what happened, for the template: a table per organization."""
    rows = visit.stores.lake.read_whole(OUTCOME_PREDICTIONS)
    if visit.organization is not None:
        rows = rows.filter(organization_id=visit.organization)
    parts = rows.partition_by("organization_id", maintain_order=True)
    return {
        "prediction_headings": HEADINGS,
        "predictions": [
            (part["organization_id"][0], lines(part)[:_PREDICTIONS], notes(part)) for part in parts
        ],
    }


def _overrides(visit: Visit) -> pl.DataFrame:
    """Return the overrides whose scores the visitor sees."""
    which = SessionFilter(organization=visit.organization)
    return withhold(overrides_with_states(visit.stores, which), visit.waiting).filter(
        ~pl.col(WAITS)
    )


def _recent(visit: Visit) -> tuple[DayRange, str]:
    """Return the last 28 complete days, and who scored their sessions."""
    days = day_range(None, None, visit.installation.clock().date())
    return days, score_sources(visit.rows().filter(pl.col("session_date").is_between(*days.ends)))


def _state(visit: Visit) -> tuple[str, str]:
    settings = visit.installation.settings
    newest = AlertStore(visit.stores.ledger).newest(JUDGE_DOWN)
    is_down = newest is not None and newest.ended_at is None
    down = newest.alert.text.partition("\n")[0] if newest is not None and is_down else None
    scored = newest_scoring(visit.stores.ledger, settings.judge_model, visit.organization)
    return judge_standing(settings.judge_model, settings.why_no_judge, down, scored)


def _today(visit: Visit) -> str:
    """Return what the judge did today; its limit concerns all organizations together."""
    day = day_scorings(visit.stores.ledger, visit.installation.clock(), visit.organization)
    limit = visit.installation.settings.judge_max_cost_per_day_usd
    return judge_day(day, limit if visit.organization is None else None)


def _changes(visit: Visit) -> list[dict[str, object]] | None:
    """Return the changes of judges, the newest first; ``None`` while they are being measured.

    Their scores are those of all organizations: there are none for who sees one alone.
    """
    if visit.caller.organization is not None:
        return []
    found = visit.kept.judge_changes.get(None, visit.installation.clock())
    return None if found is None else [change_content(change) for change in found]
