"""The runs that are compared: where their columns come from, and who counts as a person."""

from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.runs import (
    PEOPLE,
    RUNS,
    SESSIONS,
    Arms,
    arms_of,
    numbered,
    runs_of,
)
from evaluation_pipelines_tests.world.rows import Row, at, session, sessions_frame
from evaluation_pipelines_tests.world.runs import run, runs, sample
from evaluation_pipelines_tests.world.scorecards import evaluated_session, evaluated_sessions


def only(**columns: object) -> Row:
    """The run that an evaluation becomes."""
    evaluations = evaluated_sessions([evaluated_session(**({"profile_version": 2} | columns))])
    found = runs_of(evaluations, sessions_frame([session(person_id="ada", agent_id="agent")]))
    assert found.schema == RUNS
    return found.row(0, named=True)


def test_a_run_has_the_score_of_its_session_and_what_it_cost() -> None:
    found = only()
    assert found["score"] == 80
    assert (found["cost_usd"], found["total_tokens"], found["active_ms"]) == (0.09, 1000, 300_000)
    assert (found["profile_id"], found["profile_version"]) == ("p", 2)
    assert (found["person"], found["session_id"]) == ("ada", "s1")
    assert (found["agent_id"], found["failed_at_start"]) == ("agent", False)
    assert (found["tools_ok"], found["tools_failed"]) == (9, 1)


def test_one_person_in_two_organizations_is_one_person() -> None:
    names = ({"organization_id": "acme"}, {"organization_id": "beta"})
    evaluations = evaluated_sessions(evaluated_session(**name) for name in names)
    found = runs_of(
        evaluations, sessions_frame([session(person_id="ada", **name) for name in names])
    )
    assert found["person"].to_list() == ["ada", "ada"]


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (None, ("model-a", None)),
        ("effort high", ("model-a", "effort high")),
        ("mixed", ("mixed", None)),
    ],
)
def test_a_run_of_several_variants_is_mixed(
    variant: str | None, expected: tuple[str, str | None]
) -> None:
    sessions = sessions_frame([session(model_variant=variant)])
    found = runs_of(evaluated_sessions([evaluated_session()]), sessions)
    assert found.select("model", "model_variant").row(0) == expected


@pytest.mark.parametrize(
    ("columns", "score", "source", "profile"),
    [
        # What people scored stays with its automatic score; without one theirs counts.
        ({}, 80, "scorecard", "p"),
        ({"automatic_100": None, "automatic_source": "none"}, 20, "override", "p"),
        # A composite is no profile's score.
        ({"automatic_source": "composite"}, 80, "composite", None),
    ],
)
def test_a_run_that_people_scored_stays_with_its_automatic_score(
    columns: Row, score: float, source: str, profile: str | None
) -> None:
    found = only(**({"effective_source": "override", "effective_100": 20.0} | columns))
    assert (found["score"], found["people_score"]) == (score, 20)
    assert (found["effective_source"], found["profile_id"]) == (source, profile)
    assert (found["profile_version"] is None) is (profile is None)
    assert found["risk_profile_id"] == "p"


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


def several(*evaluated: dict[str, Any]) -> pl.DataFrame:
    """The runs of some evaluations; each has a session of its own."""
    evaluations, sessions = [], []
    for number, columns in enumerate(evaluated):
        key = {"session_key": f"s{number}#baseline-1", "session_id": f"s{number}"}
        calls = {name: columns[name] for name in ("tools_ok", "tools_failed") if name in columns}
        rest = {name: value for name, value in columns.items() if name not in calls}
        evaluations.append(evaluated_session(**({"profile_version": 2} | key | rest)))
        sessions.append(session(**key, **calls))
    return runs_of(evaluated_sessions(evaluations), sessions_frame(sessions))


FAILED: dict[str, Any] = {
    "automatic_source": "status",
    "effective_source": "status",
    "automatic_100": 0.0,
    "effective_100": 0.0,
    "profile_id": None,
    "profile_version": None,
    "status": "failed",
    "tools_ok": 0,
    "tools_failed": 0,
}


def test_a_run_that_failed_at_the_start_counts_as_0_in_the_largest_group_of_its_label() -> None:
    composite = {"effective_source": "composite", "automatic_source": "composite"}
    found = several({}, {}, composite, FAILED)
    row = found.filter(session_key="s3#baseline-1").row(0, named=True)
    assert (row["score"], row["failed_at_start"]) == (0, True)
    assert (row["effective_source"], row["profile_id"], row["profile_version"]) == (
        "scorecard",
        "p",
        2,
    )


def test_a_failed_run_stays_apart_without_another_score_of_its_label_and_with_tool_calls() -> None:
    other = several({}, FAILED | {"classification_label": "general"}).row(1, named=True)
    assert (other["effective_source"], other["failed_at_start"]) == ("status", True)
    called = several({}, FAILED | {"tools_failed": 1}).row(1, named=True)
    assert (called["effective_source"], called["failed_at_start"]) == ("status", False)


def alone(rows: list[Row]) -> Arms:
    """The runs of a single side."""
    return arms_of([numbered(runs(rows))])


def test_people_and_task_classes_have_the_same_number_on_both_sides() -> None:
    first = runs([*sample("a", [1.0] * 10, 0, 10), run(50, 2.0, task_class=None, person="user 0")])
    second = runs(sample("b", [3.0] * 10, 100, 10, task_class="refactor"))
    both = numbered(pl.concat([first, second]))
    found = arms_of([both[: len(first)], both[len(first) :]])
    a, b = found.sides
    assert found.clustered_by == PEOPLE
    assert a.people.tolist()[:10] == b.people.tolist()
    assert (set(a.classes.tolist()) & set(b.classes.tolist()), a.scores[-1]) == (set(), 2.0)


def test_a_fifth_of_unknown_persons_is_one_more_unit_and_more_make_sessions_clusters() -> None:
    known = sample("a", [1.0] * 8, 0, users=4)
    unknown = [run(100 + at, person=None) for at in range(3)]
    found = alone([*known, *unknown[:2]])
    assert found.clustered_by == PEOPLE
    assert found.sides[0].people.tolist()[-2:] == [-1, -1]
    assert len(found.sides[0].known_people) == 4

    found = alone([*known, *unknown])
    assert found.clustered_by == SESSIONS
    assert len(found.sides[0].known_people) == 11  # each run is a session of its own


def test_windows_of_a_session_on_a_day_are_one_cluster() -> None:
    same = [run(at, person=None, session_id="s") for at in range(3)]
    later = run(9, person=None, session_id="s", started_at=at(86_400 * 300))
    found = alone([*same, later])
    assert len(found.sides[0].known_people) == 2
