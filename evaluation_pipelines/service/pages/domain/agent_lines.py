"""What the score of an agent is made of, and the agents that have changed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.comparison.domain.before_after import (
    WORDS,
    BeforeAfter,
    State,
    difference_of,
)
from evaluation_pipelines.formatting import number, percent, signed, whole
from evaluation_pipelines.reputation.domain.agent_score import PARTS

LIFECYCLES = ("calibrating", "active", "mature")

MOST_NAMED = 3

CATEGORIES = {
    "task_quality": ("Task quality", "40%"),
    "economic": ("Economic", "35%"),
    "identity_hygiene": ("Identity hygiene", "25%"),
}
"""Category of signals -> its title, and its weight in the overall reputation."""


def relied_on(rows: pl.DataFrame) -> str:
    """Return the agents with the highest scores, and how many have none yet.

    Args:
        rows: AGENTS, the best first.
    """
    scored = rows.drop_nulls("score")
    if scored.is_empty():
        return "Not known yet: no agent has the 50 evaluations a score needs."
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
    """Return title, points, most points and reason of each part of the score of an agent.

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
        return [each for each in self.groups[:2] if each.agents]

    @property
    def has_agents(self) -> bool:
        """True if there is any agent."""
        return bool(self.unknown or self.falls) or any(each.agents for each in self.groups)


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

    falls = sorted(((key, each) for key, each in changes.items() if _is_fall(each)), key=_furthest)[
        :_MOST_FALLS
    ]
    fallen = {key for key, _ in falls}

    def named(title: str, state: State) -> NamedAgents:
        of_state = ((key, each) for key, each in changes.items() if each.state == state)
        found = sorted((each for each in of_state if each[0] not in fallen), key=_furthest)
        links = [link(*key, each) for key, each in found]
        return NamedAgents(title, links[:MOST_CHANGED], max(0, len(links) - MOST_CHANGED))

    groups = (
        named("Getting worse", "worse"),
        named("Getting better", "better"),
        named("No clear change", "unclear"),
    )
    shown = sum(len(each.agents) + each.more for each in groups) + len(falls)
    return ChangedAgents(groups, len(changes) - shown, [link(*key, each) for key, each in falls])


def _is_fall(change: BeforeAfter) -> bool:
    """Return whether an agent fell by how much matters, though it may be chance."""
    return change.state in _NOT_CERTAIN and (change.found.value or 0.0) <= -_LEAST_FALL


def trends_of(changes: _Changes, rising: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the trend of each agent: of its scores, or worse if its failures or costs rise."""
    words = {key: WORDS[each.state] for key, each in changes.items()}
    return words | dict.fromkeys(rising, WORDS["worse"])


def _furthest(named: tuple[tuple[str, str], BeforeAfter]) -> tuple[float, str, str]:
    (owner, name), change = named
    return -abs(change.found.value or 0.0), name, owner
