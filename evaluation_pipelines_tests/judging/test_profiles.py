"""Judge profiles: selection, criteria, and the resulting scorecards."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.build.build import Build
from evaluation_pipelines.build.results import DateBuilt
from evaluation_pipelines.doctor.domain.diagnosis import State, diagnose
from evaluation_pipelines.doctor.examine import examine_machine
from evaluation_pipelines.judging.plans import PlanOverrides
from evaluation_pipelines.judging.rubric_files import SHIPPED_RUBRICS, log_rubric_faults
from evaluation_pipelines.schemas import SCORECARDS, SESSION_EVALUATIONS
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import JUNE_1, Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.workplace import NOW

CODE: dict[str, Any] = {"classification__label": "code"}
KEY = "s1#baseline-1"

TASTE = """
id: taste
version: 1
name: Taste
match_labels: [code]
method: llm
rubric: agent-methodology
model: judge-of-taste
samples: 2
criteria:
  - {id: brevity, name: Brevity, description: Was nothing done twice?, weight: 3}
  - {id: tool_relevance, weight: 1}
"""


@pytest.fixture
def taste_profiles(tmp_path: Path) -> Path:
    """A profile folder with a profile that names its own judge model."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "taste.yaml").write_text(TASTE)
    return tmp_path / "profiles"


def test_a_session_is_judged_by_the_best_match_that_has_a_judge(judged: Judged) -> None:
    fill(judged.workplace, session_with_texts("s1", **CODE), session_with_texts("s2", 60))
    judged.run()

    code, other = judged.score(KEY), judged.score("s2#baseline-1")
    assert (code.judge_profile_id, code.judge_profile_version) == ("code-hybrid", 4)
    assert (other.judge_profile_id, other.judge_profile_version) == ("default", 1)


def test_a_profile_sets_criteria_points_model_and_samples(
    judge: JudgeEndpoint, tmp_path: Path, taste_profiles: Path
) -> None:
    with open_judged(tmp_path, judge.base_url, profiles_dir=taste_profiles) as judged:
        fill(judged.workplace, session_with_texts("s1", **CODE))
        judged.run()

        score = judged.score(KEY)
        assert (score.judge_model, score.samples) == ("judge-of-taste", 2)
        assert score.criteria_scores is not None
        assert score.criteria_scores.keys() == {"brevity", "tool_relevance"}
        request = judge.requests[0].body
        assert request["model"] == "judge-of-taste"
        prompt = request["messages"][0]["content"]
        # Weights of 3 and 1 are 75 and 25 of 100 points.
        assert "brevity: <points>/75" in prompt
        assert "tool_relevance: <points>/25" in prompt
        assert "Was nothing done twice?" in prompt
        # A criterion without a description in the profile has that of the rubric.
        assert "Was the fittest tool used at each stage" in prompt


def test_a_new_version_judges_what_has_no_card_yet_however_old(
    judge: JudgeEndpoint, tmp_path: Path, taste_profiles: Path
) -> None:
    with open_judged(tmp_path, judge.base_url, profiles_dir=taste_profiles) as judged:
        stores = judged.workplace.stores
        fill(judged.workplace, session_with_texts("s1", **CODE), session_with_texts("s2", **CODE))
        keys = {KEY, "s2#baseline-1"}
        judged.run(max_sessions=1)
        (first,) = [each for each in keys if judged.scores(each)]
        Build(stores, clock=lambda: NOW).run([JUNE_1])
        newer = TASTE.replace("version: 1", "version: 2").replace("weight: 3", "weight: 4")
        (taste_profiles / "taste.yaml").write_text(newer)

        assert judged.run().states == {"scored": 1, "due": 1}
        Build(stores, clock=lambda: NOW).run([JUNE_1])
        evaluated = stores.lake.read(SESSION_EVALUATIONS, [JUNE_1])
        versions = dict(evaluated.select("session_key", "profile_version").iter_rows())
        # Both sessions ended before the second version; the card of the first keeps its own.
        assert versions == {each: 1 if each == first else 2 for each in keys}


def test_a_run_for_one_profile_does_not_judge_sessions_of_others(judged: Judged) -> None:
    fill(judged.workplace, session_with_texts("s1", **CODE), session_with_texts("s2", 60))

    report = judged.run(overrides=PlanOverrides(profile="code-hybrid"))
    assert (len(report.totals), report.states) == (1, {"due": 1, "no_profile": 1})
    assert len(judged.run(overrides=PlanOverrides(profile="default")).totals) == 2


def test_a_bad_rubric_stops_its_own_profile_alone_and_is_named(
    judge: JudgeEndpoint, tmp_path: Path, taste_profiles: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(SHIPPED_RUBRICS / "agent-methodology", tmp_path / "rubrics" / "mine")
    criteria = tmp_path / "rubrics" / "mine" / "criteria.yaml"
    text = criteria.read_text()
    criteria.write_text(text.replace("points: 25", "points: 30"))
    (taste_profiles / "taste.yaml").write_text(TASTE.replace("agent-methodology", "mine"))
    folders = {"profiles_dir": taste_profiles, "judge_rubrics_dir": tmp_path / "rubrics"}
    with open_judged(tmp_path, judge.base_url, **folders) as judged:
        fill(judged.workplace, session_with_texts("s1", **CODE), session_with_texts("s2", 60))
        report = judged.run()

        assert (len(report.totals), report.states) == (1, {"due": 1})
        assert report.faults.total() == 1
        assert "1 not judged: profile taste names a rubric that cannot be used" in report.summary()
        log_rubric_faults(judged.workplace.settings)
        assert "mine: criteria: the points add up to 120, not 100" in caplog.text
        facts = examine_machine(judged.workplace.settings, NOW, asks=False)
        (check,) = [each for each in diagnose(facts) if "add up to 120" in each.seen]
        assert (check.area, check.state) == ("judge", State.FAILED)

        criteria.write_text(text)
        assert len(judged.run().totals) == 1
        assert judged.score(KEY).judge_profile_id == "taste"


def test_a_profile_with_an_unknown_rubric_is_named(
    judge: JudgeEndpoint, tmp_path: Path, taste_profiles: Path
) -> None:
    (taste_profiles / "taste.yaml").write_text(TASTE.replace("agent-methodology", "mine"))
    with open_judged(tmp_path, judge.base_url, profiles_dir=taste_profiles) as judged:
        fill(judged.workplace, session_with_texts("s1", **CODE))
        assert "1 not judged: profile taste names the rubric mine" in judged.run().summary()


def test_a_judgment_becomes_a_card_and_the_effective_score(judged: Judged) -> None:
    fill(judged.workplace, session_with_texts("s1", **CODE), session_with_texts("s2", 60))
    judged.run()
    stores = judged.workplace.stores
    (built,) = Build(stores, clock=lambda: NOW).run([JUNE_1])
    assert isinstance(built, DateBuilt)

    cards = stores.lake.read(SCORECARDS, [JUNE_1]).to_dicts()
    (card,) = [each for each in cards if each["profile_id"] == "code-hybrid"]
    assert (card["session_key"], card["is_best_match"], card["method"]) == (KEY, True, "hybrid")
    assert card["overall_score"] is not None
    assert card["reasoning"]
    evaluated = stores.lake.read(SESSION_EVALUATIONS, [JUNE_1]).to_dicts()
    effective = {row["session_key"]: row["effective_source"] for row in evaluated}
    assert effective[KEY] == "scorecard"
