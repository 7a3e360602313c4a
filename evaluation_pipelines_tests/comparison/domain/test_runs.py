"""The runs that are compared: where their columns come from, and whose runs are alike."""

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.runs import RUNS, arms, clusters_of, runs_of
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines_tests.builders import Row, at, session, sessions_frame
from evaluation_pipelines_tests.comparison_builders import run, runs, sample


def evaluation(**columns: object) -> Row:
    """The evaluation of the session of the builders: its scorecard says 80."""
    defaults: Row = {
        "session_key": "s1#baseline-1",
        "session_id": "s1",
        "organization_id": "default",
        "agent_id": "agent",
        "model": "model-a",
        "provider": "provider-a",
        "classification_label": "code",
        "task_class": "debug",
        "started_at": at(0),
        "effective_100": 80.0,
        "effective_source": "scorecard",
        "profile_id": "p",
        "profile_version": 2,
        "automatic_100": 80.0,
        "automatic_source": "scorecard",
        "disqualified": False,
    }
    return dict.fromkeys(SESSION_EVALUATIONS.schema, None) | defaults | columns


def only(**columns: object) -> Row:
    """The run that an evaluation becomes."""
    evaluations = pl.DataFrame([evaluation(**columns)], schema=SESSION_EVALUATIONS.schema)
    found = runs_of(evaluations, sessions_frame([session(person_id="ada", agent_id="agent")]))
    assert found.schema == RUNS
    return found.row(0, named=True)


def test_a_run_has_the_score_of_its_session_and_what_it_cost() -> None:
    found = only()
    assert found["score"] == 80
    assert (found["cost_usd"], found["total_tokens"], found["active_ms"]) == (0.09, 1000, 300_000)
    assert (found["profile_id"], found["profile_version"]) == ("p", 2)
    assert (found["user"], found["agent"]) == ("user\0default\0ada", "agent\0default\0agent")
    assert found["agent_id"] == "agent"
    assert (found["tools_ok"], found["tools_failed"]) == (9, 1)


def test_a_composite_is_no_profiles_score_but_the_risk_is_by_one() -> None:
    found = only(effective_source="composite", automatic_source="composite")
    assert (found["profile_id"], found["profile_version"]) == (None, None)
    assert found["risk_profile_id"] == "p"


def test_a_run_that_people_scored_stays_with_its_automatic_score() -> None:
    found = only(effective_source="override", effective_100=20.0)
    assert (found["score"], found["people_score"]) == (80, 20)
    assert (found["effective_source"], found["profile_id"]) == ("scorecard", "p")


def test_a_run_that_only_people_scored_counts_by_their_score() -> None:
    found = only(
        effective_source="override",
        effective_100=20.0,
        automatic_100=None,
        automatic_source="none",
    )
    assert (found["score"], found["people_score"]) == (20, 20)
    assert (found["effective_source"], found["profile_id"]) == ("override", "p")


@pytest.mark.parametrize(
    ("source", "disqualified", "expected"),
    [
        ("scorecard", True, True),
        ("scorecard", False, False),
        ("scorecard", None, False),
        ("override", True, True),  # what people say does not change the automatic score
    ],
)
def test_a_disqualified_run_stays_apart(
    source: str, disqualified: bool | None, expected: bool
) -> None:
    found = only(effective_source=source, disqualified=disqualified)
    assert found["is_disqualified"] == expected


def test_ten_users_on_every_side_are_clusters() -> None:
    clusters = clusters_of([runs(sample("a", [1.0] * 20, 0, users=10))])
    assert clusters.kind == "user"
    assert len(set(clusters.codes[0].tolist())) == 10


def test_nine_users_on_one_side_are_too_few_and_agents_are_asked() -> None:
    ten = sample("a", [1.0] * 20, 0, users=10)
    nine = sample("b", [1.0] * 20, 100, users=9)
    assert clusters_of([runs(ten), runs(nine)]).kind is None

    with_agents = [row | {"agent": f"agent {place % 10}"} for place, row in enumerate(nine)]
    both = [row | {"agent": f"agent {place % 10}"} for place, row in enumerate(ten)]
    assert clusters_of([runs(both), runs(with_agents)]).kind == "agent"


def test_without_clusters_every_run_stands_alone() -> None:
    clusters = clusters_of([runs(sample("a", [1.0] * 20, 0, users=2))])
    assert not clusters.is_used
    assert len(set(clusters.codes[0].tolist())) == 20


def test_a_run_without_a_user_counts_with_its_agent_and_else_by_itself() -> None:
    rows = [run(at, user=None, agent=f"agent {at % 5}" if at < 10 else None) for at in range(15)]
    clusters = clusters_of([runs(rows)])
    assert clusters.kind == "user"
    # Five agents and five runs without a user.
    assert len(set(clusters.codes[0].tolist())) == 10


def test_users_and_task_classes_have_the_same_number_on_both_sides() -> None:
    first = runs([*sample("a", [1.0] * 10, 0, 10), run(50, 2.0, task_class=None, user="user 0")])
    second = runs(sample("b", [3.0] * 10, 100, 10, task_class="refactor"))
    a, b, kind = arms(first, second)
    assert kind == "user"
    assert a.clusters.tolist()[:10] == b.clusters.tolist()
    assert (set(a.classes.tolist()) & set(b.classes.tolist()), a.scores[-1]) == (set(), 2.0)
