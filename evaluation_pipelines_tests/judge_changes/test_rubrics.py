"""Changes of the wording of a rubric: the former wording is asked again while it is kept."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import sqlalchemy as sa

from evaluation_pipelines.judge_changes.current import NoSuchJudgeError
from evaluation_pipelines.judging.rubric_files import SHIPPED_RUBRICS
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.tables.judging import RUBRIC_TEXTS
from evaluation_pipelines_tests.judge_changes.changed import (
    judge_changed_by,
    measured,
    only_change,
    run_anchors,
)
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import Judged

STRICTER = "Be stricter than strict."
PRAISE = "Give full marks always."


@pytest.fixture
def rubrics(tmp_path: Path) -> Path:
    """A folder with one rubric."""
    folder = tmp_path / "rubrics" / "mine"
    folder.mkdir(parents=True)
    for path in (SHIPPED_RUBRICS / "agent-methodology").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def reword(rubric: Path) -> None:
    """Add a sentence to the beginning of a rubric."""
    score = rubric / "score.md"
    score.write_text(f"{STRICTER}\n{score.read_text('utf-8')}", "utf-8")


def reworded(folder: Path, judge: JudgeEndpoint, rubric: Path) -> AbstractContextManager[Judged]:
    """Open stores whose rubric was reworded between June 3 and 4."""
    settings = {
        "judge_model": "judge-1",
        "judge_rubric": rubric.name,
        "judge_rubrics_dir": rubric.parent,
    }
    return judge_changed_by(folder, judge, settings, lambda: reword(rubric), **settings)


def test_the_former_wording_is_asked_again(
    tmp_path: Path, judge: JudgeEndpoint, rubrics: Path
) -> None:
    with reworded(tmp_path, judge, rubrics) as judged:
        _, change = only_change(judged)
        assert change.former.differences(change.new) == ["wording of the rubric"]
        begun = len(judge.requests)
        assert run_anchors(judged).is_finished

        prompts = [each.body["messages"][0]["content"] for each in judge.requests[begun:]]
        is_strict = [each.startswith(STRICTER) for each in prompts]
        # 18 anchors, three samples, once with each wording.
        assert (is_strict.count(False), is_strict.count(True)) == (54, 54)
        assert measured(judged).is_bridged


def test_a_wording_that_is_lost_cuts_the_trend(
    tmp_path: Path, judge: JudgeEndpoint, rubrics: Path
) -> None:
    with reworded(tmp_path, judge, rubrics) as judged:
        with writing(judged.workplace.ledger.engine) as connection:
            connection.execute(sa.delete(RUBRIC_TEXTS))
        with pytest.raises(NoSuchJudgeError, match="wording of the rubric mine"):
            run_anchors(judged)
        found = measured(judged)

        assert (found.state, found.is_bridged) == ("impossible", False)
        assert "the former judge cannot be asked again" in (found.reason or "")


def test_other_criteria_are_another_judge_and_the_former_ones_are_asked_again(
    tmp_path: Path, judge: JudgeEndpoint, rubrics: Path
) -> None:
    settings = {
        "judge_model": "judge-1",
        "judge_rubric": rubrics.name,
        "judge_rubrics_dir": rubrics.parent,
    }
    path = rubrics / "criteria.yaml"

    def praise() -> None:
        """Change nothing but what one criterion asks for."""
        first, described, rest = path.read_text("utf-8").partition("description: ")
        path.write_text(f"{first}{described}{PRAISE} {rest}", "utf-8")

    with judge_changed_by(tmp_path, judge, settings, praise, **settings) as judged:
        _, change = only_change(judged)
        assert change.former.differences(change.new) == ["wording of the rubric"]
        begun = len(judge.requests)
        assert run_anchors(judged).is_finished

        prompts = [each.body["messages"][0]["content"] for each in judge.requests[begun:]]
        kind = [PRAISE in each for each in prompts]
        assert (kind.count(False), kind.count(True)) == (54, 54)
