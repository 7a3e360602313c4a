"""Sessions and changed agents as pages show them: choices, classes of the style sheet, CSV."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.comparison.domain.before_after import (
    WORDS,
    BeforeAfter,
    State,
    difference_of,
)
from evaluation_pipelines.formatting import number, percent, points, signed, whole
from evaluation_pipelines.judging.domain.badge import YELLOW_FROM, Badge, band
from evaluation_pipelines.reporting.domain.book_states import title_of
from evaluation_pipelines.reputation.domain.agent_rating import PARTS
from evaluation_pipelines.schemas.judge_score import NOT_SCORED, shown_badge
from evaluation_pipelines.schemas.scorecards import EFFECTIVE_SOURCES
from evaluation_pipelines.scorecards.domain.evaluation import why_low
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.sessions.domain.session_filter import short_names
from evaluation_pipelines.views.filters import LIST_COLUMNS

_MOST_CHOICES = 300

CSV_COLUMNS: Sequence[str] = (
    *("started_at", "organization_id", "session_key", "person_id", "team", "repository"),
    *("environment", "agent_id", "source_cli", "model", "model_variant", "classification_label"),
    *("status", "judge_total", "effective_100", "effective_source", "provisional_100"),
    *("composite", "recommendation", "why", "cost_usd", "total_tokens", "active_s"),
    *("total_tools", "tools_failed", WAITS),
    *("commit", "merged", "reverted", "survival_7d", "tests_after_last_edit"),
)
"""Columns of a downloaded list, as in the analysts' database."""


def choices_of(rows: pl.DataFrame, names: Collection[str]) -> dict[str, list[str]]:
    """Return the values of some filters, each in alphabetical order; very many are left out."""
    found = {name: rows[LIST_COLUMNS[name]].unique().drop_nulls().sort() for name in names}
    return {name: values.head(_MOST_CHOICES).to_list() for name, values in found.items()}


def options_of(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """Return the values of a filter, each with how it is shown."""
    if name == "repository":
        shown = short_names(values)
    elif name == "state":
        shown = {value: title_of(value) for value in values}
    else:
        shown = EFFECTIVE_SOURCES if name == "source" else {}
    return [(value, shown.get(value, value)) for value in values]


def badge_class_of(judged: Badge) -> str:
    """Return the class of the style sheet that a badge of the judge has."""
    if judged.total is not None:
        return band(judged.total)
    return "red" if judged.text == "Failed" else "unscored"


def judge_state(row: Mapping[str, Any]) -> str | None:
    """Return that a session waits for the judge, is scored or failed; ``None`` for neither."""
    state = row["judge_badge"]
    if row["judge_total"] is not None or state in {None, NOT_SCORED}:
        return None
    return "judge failed" if state == "Failed" else shown_badge(state).lower()


def score_class(score: float | None) -> str:
    """Return the class of the style sheet that an effective score has."""
    return "unscored" if score is None else band(score)


def counted_on(row: Mapping[str, Any]) -> date | None:
    """Return the day on which a session is counted, if it started on another one.

    A later part of a session, under another masque, is of the day on which the session started.
    """
    day: date = row["session_date"]
    return day if day != row["started_at"].date() else None


_FAILED_STATUS = "failed"


@dataclass(frozen=True, slots=True)
class WorstSession:
    """A session that failed or has a red score; texts are not escaped."""

    organization: str
    session_key: str
    agent: str | None
    model: str | None
    status: str
    score: str
    score_class: str
    why: str | None


@dataclass(frozen=True, slots=True)
class WorstOfDay:
    """The worst sessions of a day; none if nothing failed and no score is red.

    Attributes:
        day: The day.
        is_yesterday: True if it is the last one.
        failed: Sessions that failed, whatever their score: what they were asked for is not done.
        low: The others, the lowest scores first.
        all_failed: Number of all that failed.
        all_low: Number of all whose score is red, failed ones included.
        waiting: Number of all whose score is not shown before their blind review.
    """

    day: date
    is_yesterday: bool
    failed: Sequence[WorstSession]
    low: Sequence[WorstSession]
    all_failed: int
    all_low: int
    waiting: int

    @property
    def groups(self) -> Sequence[tuple[str, Sequence[WorstSession]]]:
        """Heading and sessions of both, where there are any."""
        both = ((_FAILED, self.failed), (_LOW, self.low))
        return [(heading, sessions) for heading, sessions in both if sessions]


_FAILED = "Failed"
_LOW = "Lowest scores"
_REVIEW_DUE = "awaiting blind review"


def worst_on_day(rows: pl.DataFrame, today: date, number: int) -> WorstOfDay | None:
    """Return the worst sessions of the latest day before today; ``None`` if there is no such day.

    Those that failed come first, then the lowest scores, for which some room is kept. A session
    whose score is withheld is there if it failed, without its score.

    Args:
        rows: Rows of the session table, the newest first.
        today: The day that is not over.
        number: How many sessions at most.
    """
    day = rows.filter(pl.col("session_date") < today)["session_date"].max()
    if not isinstance(day, date):
        return None
    day_rows = rows.filter(pl.col("session_date") == day)
    has_failed, is_low = pl.col("status") == _FAILED_STATUS, pl.col("effective_100") < YELLOW_FROM
    is_shown = ~pl.col(WAITS)
    worst_first = day_rows.sort("effective_100", nulls_last=True, maintain_order=True)
    failed = worst_first.filter(has_failed)
    low = worst_first.filter(~has_failed, is_low, is_shown)
    failures = failed.head(number - min(low.height, number * 2 // 5))
    return WorstOfDay(
        day,
        day == today - timedelta(days=1),
        [_worst(row) for row in failures.iter_rows(named=True)],
        [_worst(row) for row in low.head(number - failures.height).iter_rows(named=True)],
        failed.height,
        day_rows.filter(is_low, is_shown).height,
        day_rows.filter(pl.col(WAITS)).height,
    )


def _worst(row: dict[str, Any]) -> WorstSession:
    score = None if row[WAITS] else row["effective_100"]
    return WorstSession(
        organization=row["organization_id"],
        session_key=row["session_key"],
        agent=row["agent_id"],
        model=row["model"],
        status=row["status"],
        score=points(score),
        score_class="unscored" if score is None else band(score),
        why=_REVIEW_DUE if row[WAITS] else why_low(row),
    )


LIFECYCLES = ("calibrating", "active", "mature")

MOST_NAMED = 3

CATEGORIES = {
    "task_quality": ("Task quality", "40%"),
    "economic": ("Economic", "35%"),
    "identity_hygiene": ("Identity hygiene", "25%"),
}
"""Category of signals -> its title, and its weight in the overall reputation."""


def relied_on(rows: pl.DataFrame) -> str:
    """Return the agents with the highest ratings, and how many have none yet.

    Args:
        rows: AGENTS, the best first.
    """
    scored = rows.drop_nulls("score")
    if scored.is_empty():
        return "Not known yet: no agent has the 50 evaluations that a rating needs."
    has_owners = rows["organization_id"].n_unique() > 1
    names = [
        f"{row['agent_id']}{' (' + row['organization_id'] + ')' if has_owners else ''} "
        f"{whole(row['score'])}, {percent(row['pass_rate'])} passed"
        for row in scored.head(MOST_NAMED).iter_rows(named=True)
    ]
    waiting = rows.height - scored.height
    has = "has" if waiting == 1 else "have"
    more = [f"{whole(waiting)} more {has} too few evaluations"] if waiting else []
    return " · ".join([*names, *more])


def why(row: Mapping[str, Any], parts: Mapping[str, float]) -> list[tuple[str, str, str, str]]:
    """Return title, points, most points and reason of each part of an agent's rating.

    Args:
        row: Row of AGENTS.
        parts: Points by the names of PARTS.
    """
    latency = row["avg_latency_ms"]
    reasons = {
        "passed": f"{percent(row['pass_rate'])} of {whole(row['eval_count'])} evaluations",
        "latency": "latency unknown"
        if latency is None
        else f"mean {whole(latency)} ms (full points at 0)",
        "streak": f"streak of {whole(row['streak'])} (full points at 50)",
        "volume": f"{whole(row['eval_count'])} evaluations (full points at {row['window_size']})",
    }
    titles = {"passed": "Passed", "latency": "Fast", "streak": "Steady", "volume": "Experienced"}
    return [
        (titles[name], number(parts[name], 0), whole(most), reasons[name])
        for name, most in PARTS.items()
    ]


def categories_of(identity: Mapping[str, Any]) -> Sequence[tuple[str, str, str]]:
    """Return title, weight and score of each category of signals of an identity."""
    return [
        (
            title,
            weight,
            signed(identity[f"{name}_score"], 2)
            if name in (identity["categories_observed"] or [])
            else "no signal",
        )
        for name, (title, weight) in CATEGORIES.items()
    ]


MOST_CHANGED = 12
_MOST_FALLS, _LEAST_FALL = 3, 3.0
"""Falls that may be chance: how many are named, and from how many points on."""

_NOT_CERTAIN: tuple[State, ...] = ("unclear", "indication")

_Changes: TypeAlias = Mapping[tuple[str, str], BeforeAfter]
"""By organization and name."""


@dataclass(frozen=True, slots=True)
class AgentLink:
    """An agent, the URL of its page, and how far its scores are from those before."""

    name: str
    url: str
    difference: str


@dataclass(frozen=True, slots=True)
class NamedAgents:
    """Agents of a state: the first of them, and how many more there are."""

    title: str
    agents: Sequence[AgentLink]
    more: int


@dataclass(frozen=True, slots=True)
class ChangedAgents:
    """Agents by what can be said of them.

    Attributes:
        groups: Worse ones, better ones, those without a clear change.
        unknown: Number of those of which nothing can be said.
        falls: The largest falls that may be chance, the furthest first.
    """

    groups: Sequence[NamedAgents]
    unknown: int
    falls: Sequence[AgentLink] = ()

    @property
    def certain(self) -> Sequence[NamedAgents]:
        """What is beyond chance: the groups of worse and better agents that have any."""
        return [group for group in self.groups[:2] if group.agents]

    @property
    def has_agents(self) -> bool:
        """True if there is any agent."""
        return bool(self.unknown or self.falls) or any(group.agents for group in self.groups)


def changed_agents(changes: _Changes, url: Callable[[str, str], str]) -> ChangedAgents:
    """Return the agents of each shown organization by what can be said of each.

    An agent is one of an organization, as in every other list: agents of the same name in two
    organizations are two, and their names say whose they are.

    Args:
        changes: The changes of all agents that are shown.
        url: Returns the URL of the page of an agent, by its name and organization.
    """
    has_owners = len({owner for owner, _ in changes}) > 1

    def link(owner: str, name: str, change: BeforeAfter) -> AgentLink:
        shown = f"{name} ({owner})" if has_owners else name
        return AgentLink(shown, url(name, owner), difference_of(change))

    falls = sorted(
        ((key, after) for key, after in changes.items() if _is_fall(after)), key=_furthest
    )[:_MOST_FALLS]
    fallen = {key for key, _ in falls}

    def named(title: str, state: State) -> NamedAgents:
        of_state = ((key, change) for key, change in changes.items() if change.state == state)
        found = sorted((label for label in of_state if label[0] not in fallen), key=_furthest)
        links = [link(*key, after) for key, after in found]
        return NamedAgents(title, links[:MOST_CHANGED], max(0, len(links) - MOST_CHANGED))

    groups = (
        named("Getting worse", "worse"),
        named("Getting better", "better"),
        named("No clear change", "unclear"),
    )
    shown = sum(len(group.agents) + group.more for group in groups) + len(falls)
    return ChangedAgents(groups, len(changes) - shown, [link(*key, after) for key, after in falls])


def _is_fall(change: BeforeAfter) -> bool:
    """Return whether an agent fell by how much matters, though it may be chance."""
    return change.state in _NOT_CERTAIN and (change.found.value or 0.0) <= -_LEAST_FALL


def trends_of(changes: _Changes, rising: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the trend of each agent: of its scores, or worse if its failures or costs rise."""
    words = {key: WORDS[change.state] for key, change in changes.items()}
    return words | dict.fromkeys(rising, WORDS["worse"])


def _furthest(named: tuple[tuple[str, str], BeforeAfter]) -> tuple[float, str, str]:
    (owner, name), change = named
    return -abs(change.found.value or 0.0), name, owner
