"""Agents by what can be said of them, which can be relied on, and which tool fails most."""

from datetime import date

import polars as pl

from evaluation_pipelines.comparison.domain.before_after import BeforeAfter, Side, State
from evaluation_pipelines.comparison.domain.differences import Difference
from evaluation_pipelines.numerics.estimates import t_quantile
from evaluation_pipelines.service.pages.domain.session_lines import (
    MOST_CHANGED,
    changed_agents,
    relied_on,
    trends_of,
)
from evaluation_pipelines.service.pages.tools import most_failed

ROWS = pl.DataFrame(
    {
        "organization_id": ["acme", "acme", "beta", "beta", "acme"],
        "agent_id": ["a", "b", "c", "d", "e"],
        "score": [903, 700, 610, 500, None],
        "pass_rate": [0.97, 0.9, 0.82, 0.5, 1.0],
    }
)


def test_the_agents_with_the_highest_scores_are_named() -> None:
    assert relied_on(ROWS) == (
        "a (acme) 903, 97% passed · b (acme) 700, 90% passed · c (beta) 610, 82% passed · "
        "1 more has too few evaluations"
    )
    assert relied_on(ROWS.head(1)) == "a 903, 97% passed"


def test_without_a_score_nothing_is_claimed() -> None:
    assert relied_on(ROWS.tail(1)).startswith("Not known yet: no agent has the 50 evaluations")


SIDE = Side((date(2026, 6, 1), date(2026, 6, 7)), 20)


def change(state: State, value: float | None = None) -> BeforeAfter:
    """A change with ends that are 2 points away."""
    error = None if value is None else 2 / t_quantile(8)
    return BeforeAfter(state, SIDE, SIDE, Difference(value, error, 8))


CHANGES: dict[tuple[str, str], BeforeAfter] = {
    ("acme", "a"): change("worse", -5.0),
    ("acme", "b"): change("worse", -12.0),
    ("acme", "c"): change("unclear", 0.5),
    ("acme", "d"): change("too few"),
    ("acme", "e"): change("indication", -20.0),
}


def url(name: str, owner: str) -> str:
    return f"/agents/{name}?of={owner}"


def test_agents_are_named_by_their_change_the_largest_first() -> None:
    found = changed_agents(CHANGES, url)
    named = {group.title: [one.name for one in group.agents] for group in found.groups}
    assert named == {"Getting worse": ["b", "a"], "Getting better": [], "No clear change": ["c"]}
    worst = found.groups[0].agents[0]
    assert (worst.url, worst.difference) == (
        "/agents/b?of=acme",
        "12.0 points less (10.0 to 14.0)",
    )
    # It has too few people, or days, to be certain.
    assert [(fall.name, fall.difference) for fall in found.falls] == [
        ("e", "20.0 points less (18.0 to 22.0)")
    ]
    assert [agents.title for agents in found.certain] == ["Getting worse"]
    assert found.unknown == 1
    assert found.has_agents
    assert not changed_agents({}, url).has_agents


def test_agents_of_one_name_are_one_of_each_organization_as_in_the_table() -> None:
    both = {**CHANGES, ("globex", "a"): change("better", 9.0)}
    worse, better, _ = changed_agents(both, url).groups
    assert [agent.name for agent in worse.agents] == ["b (acme)", "a (acme)"]
    assert [(agent.name, agent.url) for agent in better.agents] == [
        ("a (globex)", "/agents/a?of=globex")
    ]
    assert trends_of(both, ())["globex", "a"] == "getting better"


def test_many_agents_are_counted() -> None:
    many = {("acme", f"a{number:02}"): change("worse", -5.0) for number in range(15)}
    (worse, *_) = changed_agents(many, url).groups
    assert len(worse.agents) == MOST_CHANGED
    assert worse.more == 15 - MOST_CHANGED


def test_the_agents_of_an_organization_have_a_few_words() -> None:
    found = trends_of(CHANGES, [("acme", "new")])
    assert found["acme", "a"] == found["acme", "new"] == "getting worse"


def test_the_three_largest_falls_that_may_be_chance_are_named_apart() -> None:
    values = {"a": -3.0, "b": -9.0, "c": -2.9, "d": -4.0, "e": -17.0, "f": 8.0}
    unclear = {("acme", name): change("unclear", value) for name, value in values.items()}
    found = changed_agents(unclear, url)
    assert [fall.name for fall in found.falls] == ["e", "b", "d"]
    assert [agent.name for agent in found.groups[2].agents] == ["f", "a", "c"]
    assert (found.certain, found.unknown) == ([], 0)


def tools(*rows: tuple[str | None, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["tool", "calls", "failed"], orient="row")


def test_the_tool_with_the_most_failures_and_the_one_that_fails_most_often() -> None:
    rows = [("Bash", 1200, 226), ("Edit", 40, 30), ("Rare", 19, 19), (None, 900, 800)]
    # 226 / 1200 = 18.8%, 30 / 40
    said = "19%. Highest rate: Edit, 75%."
    assert most_failed(tools(*rows)) == ("Bash", said)


def test_one_tool_is_named_once_and_none_without_failures() -> None:
    assert most_failed(tools(("Bash", 100, 50), ("Read", 90, 0))) == ("Bash", "50%.")
    assert most_failed(tools(("Bash", 100, 0))) is None
