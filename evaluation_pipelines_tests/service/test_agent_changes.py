"""Changes of agents: of which sessions, and scores of two judges on one scale or kept apart."""

from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.runs import RUNS
from evaluation_pipelines.reporting.agent_changes import AgentTimes, agent_changes, on_one_scale
from evaluation_pipelines.schemas import JUDGE_CHANGES
from evaluation_pipelines_tests.service.answers import A1
from evaluation_pipelines_tests.service.clients import Service

CHANGE = {
    "change_id": "x",
    "judge_profile_id": "default",
    "changed_on": date(2026, 6, 10),
    "former_model": "a",
    "new_model": "b",
}


def run(day: int, judge: str | None, source: str = "judge") -> dict[str, Any]:
    start = datetime(2026, 6, day, 12, tzinfo=UTC)
    of = {"started_at": start, "score": 60.0, "effective_source": source, "judge_model": judge}
    return {**dict.fromkeys(RUNS.names()), "task_class": "edit", **of}


RUNS_OF_BOTH = pl.DataFrame(
    [run(9, "a"), run(10, "b"), run(9, None, "composite"), run(10, None, "composite")],
    schema=RUNS,
    orient="row",
)


def changes(**columns: object) -> pl.DataFrame:
    return pl.DataFrame([{**CHANGE, **columns}], schema=JUDGE_CHANGES.schema)


def test_scores_before_a_bridged_change_are_on_the_scale_of_the_new_judge() -> None:
    found = on_one_scale(RUNS_OF_BOTH, changes(trend="bridged", judges_part=4.0))
    assert found.schema == RUNS
    assert found["score"].to_list() == [64.0, 60.0, 60.0, 60.0]
    assert found["task_class"].n_unique() == 1


def test_judged_scores_before_a_cut_are_another_kind_of_task() -> None:
    found = on_one_scale(RUNS_OF_BOTH, changes(trend="cut", reason="not measured"))
    assert found["score"].to_list() == [60.0] * 4
    before, after, *others = found["task_class"].to_list()
    assert before != after
    assert others[0] == others[1]


def test_without_a_change_nothing_is_moved() -> None:
    found = on_one_scale(RUNS_OF_BOTH, JUDGE_CHANGES.no_rows)
    assert found["score"].to_list() == [60.0] * 4
    assert found["task_class"].n_unique() == 1


DAYS = ((date(2026, 6, 1), date(2026, 6, 2)), (date(2026, 5, 30), date(2026, 5, 31)))


def scored(service: Service, **asked: Any) -> dict[tuple[str, str], int]:
    """Return the number of scored sessions by organization and agent."""
    times = AgentTimes(**{"organization": None, "agent": None, "choices": (DAYS,)} | asked)
    changes = agent_changes(service.workplace.lake, times)
    return {agent: change.recent.scored for agent, change in changes.items()}


def test_agents_are_compared_in_each_organization_alone(answered: Service) -> None:
    name = "claude-code"
    assert scored(answered) == {("acme", name): 3, ("beta", name): 2}
    assert scored(answered, organization="beta") == {("beta", name): 2}
    assert scored(answered, agent="another") == {}


def test_scores_that_wait_for_a_blind_review_are_left_out(answered: Service) -> None:
    withheld = frozenset({("acme", A1)})
    assert scored(answered, organization="acme", withheld=withheld)["acme", "claude-code"] == 2
