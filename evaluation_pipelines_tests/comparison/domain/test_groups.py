"""What takes the place of models in a comparison: values of sessions, and arms."""

import re
from collections.abc import Mapping

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.domain.groups import (
    Grouping,
    GroupingError,
    grouped,
    grouping,
)
from evaluation_pipelines.reporting.domain.comparison_report import markdown_report
from evaluation_pipelines.schemas import MIXED
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines_tests.world.rows import Row, session, sessions_frame
from evaluation_pipelines_tests.world.runs import SINCE, UNTIL, compared, run, runs, sample
from evaluation_pipelines_tests.world.runs import scores as drawn

MAIN, NEW = SessionFilter(branch="main"), SessionFilter(branch="new")


def group(
    by: Grouping, *sessions: Mapping[str, object]
) -> list[tuple[str | None, str | None, str | None]]:
    """What a run of each session is compared as: the columns that name a model."""
    rows = [
        session(session_key=f"s{at}#baseline-1", **columns) for at, columns in enumerate(sessions)
    ]
    some = runs(run(at, agent_id=columns.get("agent_id")) for at, columns in enumerate(sessions))
    found = grouped(some, sessions_frame(rows), by)
    return found.select("model", "provider", "model_variant").rows()


@pytest.mark.parametrize(
    ("by", "columns", "name"),
    [
        ("model_variant", {"model_variant": "effort high"}, "effort high"),
        ("model_variant", {}, "default settings"),
        ("model_variant", {"model_variant": MIXED}, MIXED),
        ("agent", {"agent_id": "release"}, "release"),
        ("masque", {"masque": "critic", "attribution": "clean"}, "critic"),
        ("masque", {"attribution": "baseline"}, "no masque"),
        ("masque", {"masque": "critic", "attribution": "mixed"}, MIXED),
        ("masque", {"attribution": "remainder"}, MIXED),
        ("branch", {"branch": "main"}, "main"),
        ("branch", {}, None),
        ("environment", {"environment": "ci"}, "ci"),
        ("attribute:squad", {"session_attributes": [{"key": "squad", "value": "blue"}]}, "blue"),
    ],
)
def test_a_run_is_of_the_group_that_its_session_has(by: str, columns: Row, name: object) -> None:
    other = {"session_attributes": [{"key": "squad", "value": "x"}, {"key": "tier", "value": "y"}]}
    assert group(grouping(by), columns, other)[0] == (name, None, None)


def test_versions_of_two_programs_are_two_groups() -> None:
    both = [{"service_version": "2.0", "source_cli": program} for program in ("codex", "gemini")]
    found = group(grouping("service_version"), *both)
    assert found == [("2.0", "codex", None), ("2.0", "gemini", None)]


def test_models_stay_what_they_are() -> None:
    assert group(grouping("model"), {"branch": "main"}) == [("model-a", "provider-a", None)]


def test_sessions_in_no_arm_are_left_out() -> None:
    arms = Grouping(arms=(("old", MAIN), ("new", NEW)))
    branches = [{"branch": name} for name in ("new", "other", "main")]
    assert [name for name, *_ in group(arms, *branches)] == ["new", "old"]


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (
            Grouping(arms=(("a", MAIN), ("b", SessionFilter(agent="x")))),
            "arms overlap: 1 sessions are in more than one, and each must be in one",
        ),
        (Grouping(arms=(("a", MAIN), ("b", NEW))), "arm 'b': no session of this time is in it"),
        (
            grouping("attribute:squat"),
            "by 'attribute:squat': no session has this attribute, did you mean 'squad'?",
        ),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_sentence(by: Grouping, message: str) -> None:
    attributes = [{"key": "squad", "value": "blue"}]
    with pytest.raises(GroupingError, match=f"^{re.escape(message)}$"):
        group(by, {"branch": "main", "agent_id": "x", "session_attributes": attributes})
    with pytest.raises(GroupingError, match=r"by 'weather': choose model, model_variant, agent, "):
        grouping("weather")


def test_groups_are_named_by_what_is_compared() -> None:
    names = ("model_variant", "service_version", "branch", "attribute:squad")
    plurals = [grouping(by).nouns.models for by in names]
    assert plurals == ["variants", "versions", "branches", "squads"]
    assert Grouping(arms=(("a", MAIN), ("b", NEW))).nouns.model == "arm"


def test_arms_that_share_no_person_say_so() -> None:
    arms = [
        [run | {"model": name, "person": f"{name} {run['person']}"} for run in sample("x", s, n)]
        for name, s, n in (("a", drawn(85, 40, 5, 1), 0), ("b", drawn(60, 40, 5, 2), 100))
    ]
    by = Grouping(arms=(("a", MAIN), ("b", NEW)))
    found = compared([*arms[0], *arms[1]], Question(SINCE, UNTIL, nouns=by.nouns, by=by))
    said = "a (provider-a) and b (provider-a) share no known user, so people may explain"
    assert said in markdown_report(found).replace("\\", "")
    assert found.pairs.select(pl.col("people_both").sum()).item() == 0
