"""Rubrics of the package and of a folder of the user."""

import re
import shutil
from pathlib import Path

import pytest

from evaluation_pipelines.judging.domain.prompt.rubric import rubric_problems
from evaluation_pipelines.judging.rubric_files import SHIPPED_RUBRICS, load_rubrics, read_rubrics

METHOD = ("agent-methodology", "incident-investigation")
SHIPPED = (*METHOD, "outcome-first")


@pytest.fixture
def user_rubrics(tmp_path: Path) -> Path:
    """A folder with one rubric, ``mine``."""
    shutil.copytree(SHIPPED_RUBRICS / "agent-methodology", tmp_path / "mine")
    return tmp_path


def test_three_valid_rubrics_are_shipped() -> None:
    rubrics = load_rubrics(None)

    assert tuple(rubrics) == SHIPPED
    for name, rubric in rubrics.items():
        assert rubric.name == name
        assert rubric_problems(rubric) == []
    assert len({rubric.prompt_hash for rubric in rubrics.values()}) == 3
    assert [name for name, rubric in rubrics.items() if rubric.asks_outcome] == ["outcome-first"]


RANGES = """usual 10 to 22; 23
usual 15 to 22; 23
usual 8 to 20; 21
between 55 and 75
* 90 to 100:
* 75 to 89:
* 60 to 74:
* 45 to 59:
* 0 to 44:
above 70
60 at most
55 at most
5 to 10 points off tool_relevance
5 to 10 points off consistency
at least 200 words"""
"""Of logical_flow and tool_relevance, consistency, synthesis_quality; then of the total."""


@pytest.mark.parametrize("name", METHOD)
def test_a_shipped_rubric_has_four_categories_of_25_points_with_ranges_and_caps(name: str) -> None:
    rubric = load_rubrics(None)[name]

    assert [(criterion.id, criterion.points) for criterion in rubric.criteria] == [
        ("logical_flow", 25),
        ("consistency", 25),
        ("tool_relevance", 25),
        ("synthesis_quality", 25),
    ]
    assert [text for text in RANGES.split("\n") if text not in rubric.score_template] == []


@pytest.mark.parametrize("name", SHIPPED)
def test_a_rubric_has_no_example_of_a_score(name: str) -> None:
    rubric = load_rubrics(None)[name]

    assert rubric.score_template.isascii()
    numbers = re.findall(r"\b\d+\s*/\s*\d+\b", rubric.score_template)
    assert numbers == []  # an example of a score would be copied by a weak judge


def test_rubrics_of_the_user_are_added_to_the_shipped_ones(user_rubrics: Path) -> None:
    (user_rubrics / "README.md").write_text("not a rubric", encoding="utf-8")
    (user_rubrics / ".git").mkdir()

    assert tuple(load_rubrics(user_rubrics)) == (*SHIPPED, "mine")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("score.md", "{{OUTPUT_SCHEMA}}", "", "{{OUTPUT_SCHEMA}} occurs 0 times; it must occur"),
        ("missing_tools.md", "Second", "{{ALERT_DATA}}", "{{ALERT_DATA}} is not allowed"),
        ("criteria.yaml", "points: 25", "points: 30", "the points add up to 120, not 100"),
        ("criteria.yaml", "points: 25", "points: '25'", "0.points: Input should be a valid int"),
        ("criteria.yaml", "name: ", "title: ", "0.name: Field required"),
        ("criteria.yaml", "- id", "id", "is not valid YAML"),
    ],
)
def test_an_invalid_rubric_is_reported_with_its_path(
    user_rubrics: Path, file: str, old: str, new: str, message: str
) -> None:
    path = user_rubrics / "mine" / file
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    fault = read_rubrics(user_rubrics).faults["mine"]
    assert message in fault
    assert fault.startswith(str(user_rubrics / "mine"))


def test_an_empty_missing_or_binary_file_is_reported(user_rubrics: Path) -> None:
    criteria, score = (user_rubrics / "mine" / name for name in ("criteria.yaml", "score.md"))

    criteria.write_text("", encoding="utf-8")
    assert "the file: Input should be a valid list" in _fault(user_rubrics)
    criteria.write_bytes(b"\xff\xfe")
    assert "criteria.yaml: cannot be read as UTF-8" in _fault(user_rubrics)
    criteria.unlink()
    assert "criteria.yaml: cannot be read" in _fault(user_rubrics)
    score.write_bytes(b"a" * 300_000)
    assert "score.md: larger than 256 KB" in _fault(user_rubrics)


def _fault(folder: Path) -> str:
    return read_rubrics(folder).faults["mine"]


def test_a_folder_that_cannot_be_used_takes_no_other_with_it(user_rubrics: Path) -> None:
    shutil.copytree(user_rubrics / "mine", user_rubrics / "agent-methodology")
    shutil.copytree(user_rubrics / "mine", user_rubrics / "My Rubric")

    rubrics = read_rubrics(user_rubrics)
    assert sorted(rubrics.usable) == sorted((*SHIPPED, "mine"))
    assert rubrics.usable["agent-methodology"] == read_rubrics(None).usable["agent-methodology"]
    copied = user_rubrics / "agent-methodology"
    assert rubrics.faults[str(copied)].startswith(f"{copied} is not read: a shipped rubric has the")
    assert "'My Rubric' is not a rubric name" in rubrics.faults["My Rubric"]


def test_a_missing_folder_leaves_the_shipped_rubrics(tmp_path: Path) -> None:
    rubrics = read_rubrics(tmp_path / "nowhere")

    assert tuple(rubrics.usable) == SHIPPED
    (fault,) = rubrics.faults.values()
    assert "nowhere: the rubric folder cannot be read" in fault


def test_a_score_template_without_a_list_needs_no_file_of_criteria(user_rubrics: Path) -> None:
    score, criteria = (user_rubrics / "mine" / name for name in ("score.md", "criteria.yaml"))
    score.write_text(score.read_text(encoding="utf-8").replace("{{CRITERIA}}", "In prose."))
    criteria.unlink()

    assert load_rubrics(user_rubrics)["mine"].criteria == ()
