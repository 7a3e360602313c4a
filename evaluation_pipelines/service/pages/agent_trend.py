"""Whether an agent is getting better, in a sentence and as curves over all days."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl

from evaluation_pipelines.comparison.domain.before_after import WORDS, Days, before_after, sentences
from evaluation_pipelines.comparison.domain.runs import RUNS
from evaluation_pipelines.judge_changes.domain.judges import on_newest_scale
from evaluation_pipelines.reporting.agent_changes import AgentChanges, AgentKey, AgentTimes
from evaluation_pipelines.schemas import JUDGE_CHANGES
from evaluation_pipelines.service.pages.asked import DayLinks, asked_days, day_links
from evaluation_pipelines.service.pages.domain.days import ALL_DAYS, DayRange, named_ranges
from evaluation_pipelines.service.pages.domain.trends import (
    MEASURES,
    QUALITY,
    charts,
    is_shift_visible,
    trend_rows,
    turn_sentence,
)
from evaluation_pipelines.service.pages.rendering import Visit, asked_sessions
from evaluation_pipelines.views.filters import ListQuery

_LENGTHS = (28, 14, 7)
"""Days that are compared with as many before, unless others are asked for, by preference."""

_MOST_DAYS = 35
"""A curve over more days has a dot for each week."""

_SHOWN = tuple(each for each in MEASURES if each.column in {QUALITY, "failed_share"})


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
        words = {each.organization: each.in_words for each in self.answers}
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
    answers = [] if changes is None else [_answer(changes, each, choices) for each in agents]
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
        [turn_sentence(each, is_visible=is_shift_visible(rows, turns)) for each in turns],
        step,
    )


def usual_changes(visit: Visit) -> AgentChanges | None:
    """Return the changes of all agents that are shown; ``None`` while they are being computed."""
    today = visit.installation.clock().date()
    owner = visit.caller.organization or visit.frame.chosen
    return _changes(visit, AgentTimes(owner, None, usual_days(today), visit.waiting))


def usual_days(today: date) -> tuple[tuple[Days, Days], ...]:
    """Return the recent days that are compared with as many before, by preference."""
    recent = [DayRange.before_day(today, length) for length in _LENGTHS]
    return tuple((each.ends, each.before.ends) for each in recent)


def _changes(visit: Visit, asked: AgentTimes) -> AgentChanges | None:
    return visit.kept.agent_changes.get(asked, visit.installation.clock())


def _answer(
    changes: AgentChanges, agent: AgentKey, choices: tuple[tuple[Days, Days], ...]
) -> TrendAnswer:
    found = changes.get(agent) or before_after(RUNS.to_frame(), choices)
    return TrendAnswer(agent[0], *sentences(found), WORDS[found.state])
