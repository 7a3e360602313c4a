"""Which agents a list names as better, worse or unchanged, and in which order."""

from datetime import date

from evaluation_pipelines.comparison.domain.before_after import BeforeAfter, Side, State
from evaluation_pipelines.comparison.domain.differences import Difference
from evaluation_pipelines.service.pages.domain import changed_agents as module
from evaluation_pipelines.service.pages.domain.changed_agents import changed_agents, of_late

SIDE = Side((date(2026, 6, 1), date(2026, 6, 7)), 20)


def change(state: State, value: float | None = None) -> BeforeAfter:
    ends = (None, None) if value is None else (value - 2, value + 3)
    return BeforeAfter(state, SIDE, SIDE, Difference(value, *ends))


CHANGES = {
    ("acme", "a"): change("better", 9.0),
    (None, "a"): change("worse", -5.0),
    (None, "b"): change("worse", -12.0),
    (None, "c"): change("unclear", 0.5),
    (None, "d"): change("too few"),
    (None, "e"): change("indication", -20.0),
}


def url(name: str) -> str:
    return f"/agents/{name}"


def test_agents_are_named_by_their_change_in_all_organizations_the_largest_first() -> None:
    found = changed_agents(CHANGES, url)
    named = {each.title: [one.name for one in each.agents] for each in found.groups}
    assert named == {"Getting worse": ["b", "a"], "Getting better": [], "No clear change": ["c"]}
    worst = found.groups[0].agents[0]
    assert (worst.url, worst.difference) == (
        "/agents/b",
        "12.0 points less (between 9.0 and 14.0)",
    )
    assert found.too_few == 2
    assert found.has_agents
    assert not changed_agents({}, url).has_agents


def test_many_agents_are_counted() -> None:
    many: dict[tuple[str | None, str], BeforeAfter] = {
        (None, f"a{number:02}"): change("worse", -5.0) for number in range(15)
    }
    (worse, *_) = changed_agents(many, url).groups
    assert len(worse.agents) == module.MOST_NAMED
    assert worse.more == 15 - module.MOST_NAMED


def test_the_agents_of_an_organization_have_a_few_words() -> None:
    assert of_late(CHANGES) == {("acme", "a"): "getting better"}
