"""Judge profiles: selection, criteria, and the resulting scorecards."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.attention.domain.item import State
from evaluation_pipelines.attention.domain.items import attention
from evaluation_pipelines.attention.machine import gather_without_stores
from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.judging.plans import PlanOverrides
from evaluation_pipelines.judging.rubric_files import SHIPPED_RUBRICS, log_rubric_faults
from evaluation_pipelines.schemas import SCORECARDS, SESSION_EVALUATIONS
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import JUNE_1, Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.judging.batch.batched import open_batched
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


def evaluated(judged: Judged) -> dict[str, dict[str, Any]]:
    """Return the evaluations of the day as a build makes them now, by session."""
    stores = judged.workplace.stores
    (built,) = Build(stores, clock=lambda: NOW).run([JUNE_1])
    assert isinstance(built, DateBuilt)
    rows = stores.lake.read(SESSION_EVALUATIONS, [JUNE_1]).to_dicts()
    return {row["session_id"]: row for row in rows}


def test_once_a_judge_is_configured_sessions_without_a_label_count_its_scores(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    simple: dict[str, Any] = {"classification__label": "simple"}
    with open_judged(tmp_path, judge.base_url, judge_model=None) as before:
        lines = [session_with_texts(f"s{number}", 60 * number) for number in range(3)]
        fill(before.workplace, *lines, session_with_texts("s3", 300, **simple))
        rows = evaluated(before)
        heuristic = {name: row["effective_100"] for name, row in rows.items()}
        assert {row["reason"] for row in rows.values()} == {None}
        assert rows["s0"]["profile_id"] == "general-performance"

    with open_judged(tmp_path, judge.base_url) as judged:
        report = judged.run(max_sessions=2)
        assert report.summary().endswith("; 2 judged, 2 counted")
        rows = evaluated(judged)
        assert [rows[session]["profile_id"] for session in ("s0", "s1")] == ["default", "default"]
        (card,) = [
            row
            for row in judged.workplace.lake.read(SCORECARDS, [JUNE_1]).to_dicts()
            if (row["session_id"], row["profile_id"]) == ("s0", "default")
        ]
        points = {score["key"]: score["value"] for score in card["criteria_scores"]}
        measured = 2 * (points.pop("performance.composite") + points.pop("tool_effectiveness"))
        # Weights of 2, 2 and four times 1.
        assert rows["s0"]["effective_100"] == pytest.approx((measured + sum(points.values())) / 8)
        # What no judge has scored keeps its score, and says what it waits for.
        assert (rows["s2"]["effective_100"], rows["s2"]["profile_id"]) == (
            heuristic["s2"],
            "general-performance",
        )
        assert rows["s2"]["reason"].startswith("general-performance counts until default scores it")

        assert (
            judged.run()
            .summary()
            .endswith(
                "; 2 judged, 1 counted. 1 not counted, labeled simple: profile efficiency-simple "
                "(heuristic) scores that label. To count them, change its method to hybrid, or "
                "disable it"
            )
        )

    # A process without the settings does not take back what was paid for.
    with open_judged(tmp_path, judge.base_url, judge_model=None) as after:
        assert evaluated(after)["s0"]["effective_100"] == rows["s0"]["effective_100"]


@pytest.mark.parametrize("way", ["run", "request", "batch"])
def test_a_rubric_with_other_criteria_does_not_count_and_says_so(
    judge: JudgeEndpoint, tmp_path: Path, way: str
) -> None:
    folder = tmp_path / "rubrics" / "mine"
    shutil.copytree(SHIPPED_RUBRICS / "agent-methodology", folder)
    text = (folder / "criteria.yaml").read_text()
    for name in ("logical_flow", "consistency", "tool_relevance", "synthesis_quality"):
        text = text.replace(name, f"my_{name}")
    (folder / "criteria.yaml").write_text(text)
    mine = {"judge_rubric": "mine", "judge_rubrics_dir": tmp_path / "rubrics"}
    mode = "batch" if way == "batch" else "direct"
    with open_batched(tmp_path, judge, judge_mode=mode, **mine) as judged:
        judged.land("s1")
        if way == "request":
            judged.request()
        report = judged.run()
        if way == "batch":
            judged.finish()
            report = judged.finish()
        summary = report.summary()
        assert "1 judged, 0 counted. 1 not counted, labeled general: the rubric mine" in summary
        assert evaluated(judged)["s1"]["profile_id"] == "general-performance"


def test_a_profile_sets_criteria_points_model_and_samples(
    judge: JudgeEndpoint, tmp_path: Path, taste_profiles: Path
) -> None:
    with open_judged(tmp_path, judge.base_url, profiles_dir=taste_profiles) as judged:
        fill(judged.workplace, session_with_texts("s1", **CODE))
        judged.run()

        score = judged.score(KEY)
        assert (score.judge_model, score.samples) == ("judge-of-taste", 2)
        # The same reply twice.
        assert (score.sample_totals, score.score_spread) == ([score.total_score] * 2, 0)
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
        (first,) = [key for key in keys if judged.scores(key)]
        Build(stores, clock=lambda: NOW).run([JUNE_1])
        newer = TASTE.replace("version: 1", "version: 2").replace("weight: 3", "weight: 4")
        (taste_profiles / "taste.yaml").write_text(newer)

        assert judged.run().states == {"scored": 1, "due": 1}
        Build(stores, clock=lambda: NOW).run([JUNE_1])
        evaluated = stores.lake.read(SESSION_EVALUATIONS, [JUNE_1])
        versions = dict(evaluated.select("session_key", "profile_version").iter_rows())
        # Both sessions ended before the second version; the card of the first keeps its own.
        assert versions == {key: 1 if key == first else 2 for key in keys}


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
        facts = gather_without_stores(judged.workplace.settings, NOW, asks=False)
        (check,) = [item for item in attention(facts) if "add up to 120" in item.seen]
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
