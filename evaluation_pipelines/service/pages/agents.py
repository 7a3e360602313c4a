"""Agents by rating, and one agent: its rating over time, the reasons, its evaluations.

Whether an agent is getting better, in a sentence and as curves over all days.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import polars as pl
from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.comparison.domain.before_after import WORDS, Days, before_after, sentences
from evaluation_pipelines.comparison.domain.runs import RUNS
from evaluation_pipelines.formatting import csv_text, duration, number, percent, signed, whole
from evaluation_pipelines.judge_changes.domain.judges import on_newest_scale
from evaluation_pipelines.reporting.agent_changes import (
    AgentChanges,
    AgentKey,
    AgentTimes,
)
from evaluation_pipelines.reporting.domain.charts import (
    Axis,
    Curve,
    Place,
    line_chart,
)
from evaluation_pipelines.reputation.domain.agent_rating import (
    WINDOW_SIZE,
    pass_history,
    progress,
    score_history,
    score_parts,
)
from evaluation_pipelines.reputation.domain.signals import (
    AGENT_NAME,
    identity_id,
    session_event_id,
    unknown_identity,
)
from evaluation_pipelines.reputation.submitted import (
    AmbiguousAgentError,
    agent_organizations,
    agent_windows,
    counted,
)
from evaluation_pipelines.schemas import AGENTS, JUDGE_CHANGES, REPUTATION_SCORES
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, WAITS
from evaluation_pipelines.service.errors import not_found
from evaluation_pipelines.service.pages.asked import DayLinks, asked_days, day_links
from evaluation_pipelines.service.pages.domain.days import ALL_DAYS, named_ranges, usual_days
from evaluation_pipelines.service.pages.domain.session_lines import (
    LIFECYCLES,
    categories_of,
    changed_agents,
    relied_on,
    trends_of,
    why,
)
from evaluation_pipelines.service.pages.domain.trends import (
    MEASURES,
    QUALITY,
    charts,
    is_shift_visible,
    trend_rows,
    turn_sentence,
)
from evaluation_pipelines.service.pages.operations import rising_of
from evaluation_pipelines.service.pages.rendering import (
    Visit,
    Visitor,
    asked_order,
    asked_sessions,
    download,
    invalid_field,
)
from evaluation_pipelines.views.agents import agents as relation
from evaluation_pipelines.views.agents import passed_interval, reputations, score_cell
from evaluation_pipelines.views.filters import ListQuery
from evaluation_pipelines.views.listing import AGENT_LISTING

_MOST_DAYS = 35
"""A curve over more days has a dot for each week."""

_SHOWN = tuple(measure for measure in MEASURES if measure.column in {QUALITY, "failed_share"})


@dataclass(frozen=True, slots=True)
class TrendAnswer:
    """The answer to "is it getting better?" for an agent of an organization.

    Attributes:
        organization: The organization.
        said: The answer.
        because: What it rests on.
        in_words: The same in a list.
    """

    organization: str
    said: str
    because: str
    in_words: str


@dataclass(frozen=True, slots=True)
class AgentTrend:
    """What an agent's page says of its development.

    Attributes:
        days: The days of the curves.
        answers: The answer for each organization; none while they are being computed.
        charts: Caption and SVG of each curve.
        turns: What changes of the judge mean for the curves.
        step: Period of a dot: day or week.
    """

    days: DayLinks
    answers: Sequence[TrendAnswer]
    charts: Sequence[tuple[str, str]]
    turns: Sequence[str]
    step: str

    def in_words(self, organization: str) -> str | None:
        """Return the answer for an organization in a few words; ``None`` if there is none yet."""
        words = {answer.organization: answer.in_words for answer in self.answers}
        return words.get(organization)


def agent_trend(
    visit: Visit,
    agents: Sequence[AgentKey],
    sessions: pl.DataFrame,
    sessions_url: Callable[..., str],
) -> AgentTrend:
    """Return the development of an agent over the days that are asked for, by default all.

    Args:
        visit: The visit.
        agents: Its name with each of its organizations: it is compared in each of them alone.
        sessions: Its rows of sessions.
        sessions_url: Returns the URL of its sessions, with more conditions.

    Raises:
        ServiceError: 400, a field cannot have its value.
    """
    query, today = asked_sessions(visit), visit.installation.clock().date()
    ranges = dict(named_ranges(today, sessions["session_date"].min()))  # type: ignore[arg-type]
    every = ranges.get(ALL_DAYS)
    has_no_days = query.first_date is None and query.last_date is None
    days = every if every is not None and has_no_days else asked_days(visit, query)
    choices = usual_days(today) if days == every else ((days.ends, days.before.ends),)
    (name, *_), owner = {name for _, name in agents}, agents[0][0] if len(agents) == 1 else None
    if days == every:  # what the page of all agents has, too
        changes = usual_changes(visit)
    else:
        changes = _changes(visit, AgentTimes(owner, name, choices, visit.waiting))
    answers = [] if changes is None else [_answer(changes, row, choices) for row in agents]
    chosen = ListQuery().on(days.first, days.last).chosen(sessions)
    scaled, turns = on_newest_scale(chosen, visit.stores.lake.read_whole(JUDGE_CHANGES))
    step = "day" if days.days <= _MOST_DAYS else "week"
    rows = trend_rows(scaled, None, step, turns)

    def url(row: Mapping[str, object]) -> str:
        ends = {"from": f"{row['first_day']}", "to": f"{row['last_day']}"}
        return sessions_url(**ends)

    return AgentTrend(
        day_links(visit, days, sessions),
        answers,
        charts(rows, ["all sessions"], turns, url, _SHOWN),
        [turn_sentence(turn, is_visible=is_shift_visible(rows, turns)) for turn in turns],
        step,
    )


def usual_changes(visit: Visit) -> AgentChanges | None:
    """Return the changes of all agents that are shown; ``None`` while they are being computed."""
    today = visit.installation.clock().date()
    owner = visit.caller.organization or visit.frame.chosen
    return _changes(visit, AgentTimes(owner, None, usual_days(today), visit.waiting))


def _changes(visit: Visit, asked: AgentTimes) -> AgentChanges | None:
    return visit.kept.agent_changes.get(asked, visit.installation.clock())


def _answer(
    changes: AgentChanges, agent: AgentKey, choices: tuple[tuple[Days, Days], ...]
) -> TrendAnswer:
    found = changes.get(agent) or before_after(RUNS.to_frame(), choices)
    return TrendAnswer(agent[0], *sentences(found), WORDS[found.state])


ROUTER = APIRouter(include_in_schema=False)

_UNKNOWN = "unknown"
_CSV_COLUMNS = [name for name, dtype in AGENTS.schema.items() if not dtype.is_nested()]
_SHOWN_EVALUATIONS, _POINTS = 30, 60
_SECOND_MS = 1000.0
_OF_SESSION = ("session_key", "status", "effective_100", "effective_source", WAITS)
_EVALUATION_COLUMNS = (
    *("evaluated_at", "organization_id", "agent_id", "passed", "model"),
    *("latency_ms", "latency_budget_ms", "evaluation_id", *_OF_SESSION),
)
_WITHOUT_RESULT = {"failed": "the session failed", "cancelled": "the session was cancelled"}


@dataclass(frozen=True, slots=True)
class AgentQuery:
    """What the list shows: agents of a lifecycle and with a trend, in an order."""

    lifecycle: str | None
    trend: str | None
    sort: str


@ROUTER.get("/agents")
def agents(visit: Visitor) -> HTMLResponse:
    """Show all agents by rating."""
    query, rows, changes = _asked(visit), _agents(visit), usual_changes(visit)
    rising = rising_of(visit)
    trends = trends_of(changes or {}, rising)
    chosen, not_loaded = _chosen(rows, query, trends), _not_among(_scored(visit), rows)
    return visit.page(
        "agents",
        query=query,
        lifecycles=LIFECYCLES,
        lines=chosen.to_dicts(),
        cell=AGENT_LISTING.cell,
        heading=AGENT_LISTING.heading,
        score_cell=score_cell,
        passed_interval=passed_interval,
        changed=None if changes is None else changed_agents(changes, visit.frame.agent_url),
        rising=[item for items in rising.values() for item in items],
        rising_of=rising,
        trends=trends,
        trend_names=list(WORDS.values()),
        relied_on=relied_on(rows),
        number=rows.height,
        has_changes=rows["change"].count() > 0,
        others=_other_identities(visit, rows),
        not_loaded=not_loaded.rows(),
        unrated=_not_among(_waiting(visit), rows, not_loaded).rows(),
        updated_at=rows["updated_at"].max(),
        csv_url=visit.frame.here().replace("/agents", "/agents.csv", 1),
        has_organizations=bool(visit.frame.organizations) and visit.organization is None,
        has_sessions=not visit.rows().is_empty(),
    )


@ROUTER.get("/agents.csv")
def agents_csv(visit: Visitor) -> Response:
    """Return the agents that are asked for as CSV."""
    trends = trends_of(usual_changes(visit) or {}, rising_of(visit))
    rows = _chosen(_agents(visit), _asked(visit), trends)
    return download("agents.csv", csv_text(rows.select(_CSV_COLUMNS)))


@ROUTER.get("/evaluations.csv")
def evaluations_csv(
    visit: Visitor, agent: Annotated[str, Query(min_length=1, max_length=1024)]
) -> Response:
    """Return the evaluations in the window of an agent as CSV, the newest first."""
    rows = _evaluations(_found(visit, agent))
    return download("evaluations.csv", csv_text(rows.select(_EVALUATION_COLUMNS)))


@ROUTER.get("/agents/{agent_id:path}")
def agent(
    visit: Visitor,
    agent_id: Annotated[str, Path(min_length=1, max_length=1024, pattern=r"^[^\x00]*$")],
) -> HTMLResponse:
    """Show one agent: its rating over time, the parts of it, and its evaluations.

    One that works for several organizations has a page of its own, which links to those of each.
    """
    owners = _owners(visit, agent_id)
    if len(owners) > 1:
        return _everywhere(visit, agent_id, owners)
    found = _found(visit, agent_id)
    now, window = visit.installation.clock(), counted(found.window, visit.waiting)
    rows = relation(visit.stores, now, found.window, waiting=_waiting(visit))
    row = rows.to_dicts()[0] if rows.height else None
    identity = _identity(visit, found)
    return visit.page(
        "agent",
        found=found,
        needs=rising_of(visit).get(found.key, []),
        row=row,
        progress="0/50" if row is None else progress(row),
        before="" if row is None else _cell(row, "score_30d_ago", whole),
        why=[] if row is None else why(row, score_parts(window).to_dicts()[0]),
        models=_by_model(visit, found, row),
        charts=_charts(window),
        trend=agent_trend(visit, [found.key], found.sessions, partial(found.sessions_url, visit)),
        identity=identity,
        overall=_cell(identity, "overall_score", _reputation),
        was=[_cell(identity, f"score_{days}d_ago", _reputation) for days in (7, 30)],
        categories=categories_of(identity),
        evaluations=[
            _evaluation(visit, evaluation)
            for evaluation in _evaluations(found, _SHOWN_EVALUATIONS).iter_rows(named=True)
        ],
        evaluations_url=visit.frame.url(
            "/evaluations.csv", agent=found.name, organization=found.named_organization(visit)
        ),
        sessions_url=found.sessions_url(visit),
    )


def _everywhere(visit: Visit, name: str, owners: Sequence[str]) -> HTMLResponse:
    """Show an agent of several organizations: an answer for each, as every list has it."""
    sessions = visit.rows().filter(AGENT_NAME.eq(name))
    url = partial(_sessions_url, visit, name, sessions)
    numbers = dict(sessions.group_by("organization_id").len().rows())
    trend = agent_trend(visit, [(owner, name) for owner in owners], sessions, partial(url, None))
    return visit.page(
        "agent_everywhere",
        name=name,
        number=sessions.height,
        trend=trend,
        needs=[item for (_, of), items in rising_of(visit).items() if of == name for item in items],
        sessions_url=url(None),
        owners=[
            (
                owner,
                visit.frame.agent_url(name, owner),
                numbers.get(owner, 0),
                trend.in_words(owner),
            )
            for owner in owners
        ],
    )


@dataclass(frozen=True, slots=True)
class _Agent:
    """An agent, its newest evaluations (AGENT_WINDOWS), and its sessions, the newest first."""

    organization: str
    name: str
    window: pl.DataFrame
    sessions: pl.DataFrame

    @property
    def key(self) -> tuple[str, str]:
        """Organization and name."""
        return self.organization, self.name

    @property
    def downloaded(self) -> int:
        """Number of evaluations in its CSV, of which the window may have more: see counted."""
        return min(self.window.height, WINDOW_SIZE)

    def sessions_url(self, visit: Visit, **more: str) -> str:
        """Return the URL of the list of its sessions."""
        owner = self.named_organization(visit)
        return _sessions_url(visit, self.name, self.sessions, owner, **more)

    def named_organization(self, visit: Visit) -> str | None:
        """Return what a URL says of the organization; ``None`` if the key says it."""
        return None if visit.caller.organization else self.organization


def _sessions_url(
    visit: Visit, name: str, sessions: pl.DataFrame, owner: str | None, **more: str
) -> str:
    """Return the URL of the list of the sessions of an agent; of all organizations without one."""
    is_named = sessions.is_empty() or name in sessions["agent_id"]
    agent = {"agent": name} if is_named else {"program": name}
    return visit.frame.url("/sessions", **{"organization": owner, **agent, **more})


def _owners(visit: Visit, name: str) -> list[str]:
    """Return the organizations that have an agent, of those that are shown."""
    if visit.organization is not None:
        return [visit.organization]
    of_sessions = visit.rows().filter(AGENT_NAME.eq(name))["organization_id"]
    return sorted({*agent_organizations(visit.stores, name), *of_sessions})


def _found(visit: Visit, name: str) -> _Agent:
    """Return an agent that the caller sees.

    Raises:
        AmbiguousAgentError: Several organizations have one.
        ServiceError: 404, there is none.
    """
    owners = _owners(visit, name)
    if len(owners) > 1:
        raise AmbiguousAgentError(name, owners)
    for owner in owners:
        window = agent_windows(visit.stores, [(owner, name)], visit.installation.clock())
        sessions = visit.rows().filter(AGENT_NAME.eq(name), organization_id=owner)
        if not (window.is_empty() and sessions.is_empty()):
            return _Agent(owner, name, window, sessions)
    raise not_found("The agent", "The agents page lists all agents.")


def _asked(visit: Visit) -> AgentQuery:
    fields = visit.request.query_params
    lifecycle = fields.get("lifecycle") or None
    if lifecycle not in {None, *LIFECYCLES}:
        raise invalid_field(f"lifecycle must be one of: {', '.join(LIFECYCLES)}")
    trend = fields.get("trend") or None
    if trend not in {None, *WORDS.values()}:
        raise invalid_field(f"trend must be one of: {', '.join(WORDS.values())}")
    order = asked_order(visit, AGENT_LISTING.orders, AGENT_LISTING.usual_order)
    return AgentQuery(lifecycle, trend, order)


def _agents(visit: Visit) -> pl.DataFrame:
    """Return the agents that the caller sees, the best first."""
    rows = relation(visit.stores, visit.installation.clock(), waiting=_waiting(visit))
    if visit.organization is None:
        return rows
    return rows.filter(organization_id=visit.organization)


def _chosen(
    rows: pl.DataFrame, query: AgentQuery, trends: Mapping[tuple[str, str], str]
) -> pl.DataFrame:
    chosen = rows if query.lifecycle is None else rows.filter(lifecycle=query.lifecycle)
    if query.trend is not None:
        names = chosen.select("organization_id", "agent_id").rows()
        is_it = [trends.get((owner, name)) == query.trend for owner, name in names]
        chosen = chosen.filter(pl.Series(is_it, dtype=pl.Boolean))
    return AGENT_LISTING.in_order(chosen, query.sort)


def _other_identities(visit: Visit, agents: pl.DataFrame) -> list[dict[str, Any]]:
    """Return identities without evaluations; of whom they are is only known to who sees all."""
    if visit.organization is not None:
        return []
    others = _reputations(visit).filter(~pl.col(WAITS))  # one that waits is of a session
    others = others.join(agents, on="identity_id", how="anti", maintain_order="left")
    return [
        {**row, "overall": _cell(row, "overall_score", _reputation)}
        for row in others.sort(-pl.col("overall_score"), nulls_last=True).to_dicts()
    ]


def _not_among(sessions: pl.DataFrame, *rated: pl.DataFrame) -> pl.DataFrame:
    """Return organization and name of the agents of sessions that are not among the rated."""
    keys = ("organization_id", "agent_id")
    found = sessions.select("organization_id", agent_id=AGENT_NAME).unique()
    for others in rated:
        found = found.join(others, on=keys, how="anti")
    return found.sort(keys)


def _identity(visit: Visit, found: _Agent) -> Mapping[str, Any]:
    """Return the identity of an agent as of the last refresh."""
    identity = str(identity_id(found.organization, found.name))
    known = _reputations(visit).filter(identity_id=identity).to_dicts()
    if known:
        return known[0]
    return {**unknown_identity(identity, visit.installation.clock()), WAITS: False}


def _reputations(visit: Visit) -> pl.DataFrame:
    """Return REPUTATION_SCORES as of the last refresh, and what of it is withheld."""
    return reputations(visit.stores.lake.read_whole(REPUTATION_SCORES), _waiting(visit))


def _waiting(visit: Visit) -> pl.DataFrame:
    """Return the rows of the sessions that wait."""
    return visit.rows().filter(WAITS)


def _scored(visit: Visit) -> pl.DataFrame:
    """Return the rows of the other ended sessions with a score."""
    return visit.rows().filter(~pl.col(WAITS), "has_ended", pl.col("effective_100").is_not_null())


def _cell(row: Mapping[str, Any], name: str, text: Callable[[Any], str]) -> str:
    """Return a value of an agent or identity, a withheld one as such."""
    if row[name] is None:
        return REVIEW_DUE if row[WAITS] else _UNKNOWN
    return text(row[name])


def _reputation(value: float) -> str:
    return signed(value, 2)


def _by_model(
    visit: Visit, found: _Agent, row: Mapping[str, Any] | None
) -> list[tuple[str | None, str, str, str]]:
    """Return model, evaluations, share passed and sessions of each model of the window."""
    return [
        (
            model["model"],
            whole(model["evaluations"]),
            percent(model["pass_rate"]),
            found.sessions_url(visit, model=model["model"]) if model["model"] else "",
        )
        for model in (row["by_model"] if row else ())
    ]


def _charts(window: pl.DataFrame) -> list[tuple[str, str, str]]:
    """Return caption, SVG and note of the charts that there are values for."""
    scores, shares = score_history(window, _POINTS), pass_history(window, _POINTS)
    by_time = [
        Place(time, score, f"{time:%Y-%m-%d %H:%M}: {score}") for time, score in scores.iter_rows()
    ]
    passed = [
        Place(time, share * 100, f"{time:%Y-%m-%d %H:%M}: {percent(share)}")
        for time, share in shares.iter_rows()
    ]
    score_axis = Axis(lambda value: f"{value:.0f}", (0.0, 1000.0))
    share_axis = Axis(lambda value: f"{value:.0f}%", (0.0, 100.0))
    charts = (
        (
            "Rating",
            line_chart("Rating over time", [Curve(by_time)], score_axis)
            if len(by_time) > 1
            else None,
            "From the 50th evaluation.",
        ),
        (
            "Passed, of 50 evaluations",
            line_chart("Share passed over time", [Curve(passed, 2)], share_axis),
            "Evaluations in the window."
            if len(by_time) > 1
            else "Earlier ratings used evaluations outside the window.",
        ),
    )
    return [(caption, chart, note) for caption, chart, note in charts if chart]


def _evaluations(found: _Agent, number: int = WINDOW_SIZE) -> pl.DataFrame:
    """Return the newest evaluations of AGENT_WINDOWS, each with the session that it is about."""
    newest = found.window.sort("evaluated_at", descending=True).head(number)
    oldest = pl.lit(newest["evaluated_at"].min(), newest.schema["evaluated_at"])  # null: of none
    sessions = found.sessions.filter(pl.col("ended_at") >= oldest)
    ids = [str(session_event_id(found.organization, key)) for key in sessions["session_key"]]
    about = sessions.select(_OF_SESSION).with_columns(evaluation_id=pl.Series(ids, dtype=pl.String))
    joined = newest.join(about, on="evaluation_id", how="left", maintain_order="left")
    shows = ~pl.col(WAITS).fill_null(value=False)
    return joined.with_columns(pl.when(shows).then("passed").alias("passed"))


def _evaluation(visit: Visit, row: Mapping[str, Any]) -> dict[str, Any]:
    session = row["session_key"]
    return {
        "time": row["evaluated_at"],
        "passed": row["passed"],
        "why": _WITHOUT_RESULT.get(row["status"]) if row["passed"] is False else None,
        "model": row["model"],
        "latency": _latency(row["latency_ms"]),
        "budget": _latency(row["latency_budget_ms"]),
        "score": number(row["effective_100"], 0),
        "source": row["effective_source"],
        "session": session,
        "id": row["evaluation_id"],
        "url": visit.frame.session_url(row["organization_id"], session, "score") if session else "",
    }


def _latency(milliseconds: float | None) -> str:
    """Return a latency; those of a second and less in milliseconds."""
    if milliseconds is None or milliseconds > _SECOND_MS:
        return duration(milliseconds)
    return f"{whole(milliseconds)} ms"
