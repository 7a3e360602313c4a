"""Rubrics come from the package and from a folder of the user's own."""

import re
import shutil
from pathlib import Path

import pytest

from evaluation_pipelines.judging.domain.prompt.rubric import rubric_problems
from evaluation_pipelines.judging.rubric_files import SHIPPED_RUBRICS, RubricError, load_rubrics

SHIPPED = ("agent-methodology", "incident-investigation")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with one rubric, `mine`."""
    shutil.copytree(SHIPPED_RUBRICS / "agent-methodology", tmp_path / "mine")
    return tmp_path


def test_two_rubrics_are_shipped_and_hold_no_fault() -> None:
    rubrics = load_rubrics(None)

    assert tuple(rubrics) == SHIPPED
    for name, rubric in rubrics.items():
        assert rubric.name == name
        assert rubric_problems(rubric) == []
    assert len({rubric.prompt_hash for rubric in rubrics.values()}) == 2


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_rubric_has_the_four_categories_of_25_points(name: str) -> None:
    criteria = load_rubrics(None)[name].criteria

    assert {each.id: each.points for each in criteria} == {
        "logical_flow": 25,
        "consistency": 25,
        "tool_relevance": 25,
        "synthesis_quality": 25,
    }


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize(
    "said",
    [
        "usual 10 to 22; 23",  # logical_flow, tool_relevance
        "usual 15 to 22; 23",  # consistency
        "usual 8 to 20; 21",  # synthesis_quality
        "between 55 and 75",
        "* 90 to 100:",
        "* 75 to 89:",
        "* 60 to 74:",
        "* 45 to 59:",
        "* 0 to 44:",
        "above 70",
        "60 at most",
        "55 at most",
        "5 to 10 points off tool_relevance",
        "5 to 10 points off consistency",
        "at least 200 words",
    ],
)
def test_a_shipped_rubric_names_its_ranges_and_caps(name: str, said: str) -> None:
    assert said in load_rubrics(None)[name].score_template


@pytest.mark.parametrize("name", SHIPPED)
def test_no_word_of_a_rubric_counts_on_another_scale(name: str) -> None:
    rubric = load_rubrics(None)[name]

    assert rubric.score_template.isascii()
    numbers = re.findall(r"\b\d+\s*/\s*\d+\b", rubric.score_template)
    assert numbers == []  # an example of a score would be copied by a weak judge


def test_rubrics_of_ones_own_stand_beside_the_shipped_ones(own: Path) -> None:
    (own / "README.md").write_text("not a rubric", encoding="utf-8")
    (own / ".git").mkdir()

    assert tuple(load_rubrics(own)) == (*SHIPPED, "mine")


def test_another_wording_is_another_hash(own: Path) -> None:
    before = load_rubrics(own)["mine"].prompt_hash
    path = own / "mine" / "missing_tools.md"
    path.write_text(path.read_text(encoding="utf-8") + "!", encoding="utf-8")

    assert load_rubrics(own)["mine"].prompt_hash != before


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("score.md", "{{CRITERIA}}", "", "{{CRITERIA}} stands there 0 times, not once"),
        ("score.md", "{{CRITERIA}}", "{{CRITERIA}} {{MODEL}}", "{{MODEL}} is no placeholder"),
        ("missing_tools.md", "Second", "{{ALERT_DATA}}", "{{ALERT_DATA}} has no place here"),
        ("criteria.yaml", "points: 25", "points: 30", "their points make 120 together, not 100"),
        ("criteria.yaml", "points: 25", "points: '25'", "0.points: Input should be a valid int"),
        ("criteria.yaml", "name: ", "title: ", "0.name: Field required"),
        ("criteria.yaml", "id: consistency", "id: logical_flow", "logical_flow stands there twice"),
        ("criteria.yaml", "- id", "id", "is no YAML"),
    ],
)
def test_a_fault_is_told_with_its_place(
    own: Path, file: str, old: str, new: str, message: str
) -> None:
    path = own / "mine" / file
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    with pytest.raises(RubricError, match=re.escape(message)) as caught:
        load_rubrics(own)
    assert str(caught.value).startswith(str(own / "mine"))


def test_a_file_that_is_empty_missing_or_no_text_is_told(own: Path) -> None:
    (own / "mine" / "criteria.yaml").write_text("", encoding="utf-8")
    with pytest.raises(RubricError, match="the file: Input should be a valid list"):
        load_rubrics(own)

    (own / "mine" / "criteria.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(RubricError, match=r"criteria\.yaml: cannot be read as UTF-8"):
        load_rubrics(own)

    (own / "mine" / "criteria.yaml").unlink()
    with pytest.raises(RubricError, match=r"criteria\.yaml: cannot be read"):
        load_rubrics(own)

    (own / "mine" / "score.md").write_bytes(b"a" * 300_000)
    with pytest.raises(RubricError, match=r"score\.md: larger than 256 KB"):
        load_rubrics(own)


def test_a_name_must_be_free_and_plain(own: Path) -> None:
    (own / "mine").rename(own / "agent-methodology")
    with pytest.raises(RubricError, match="is named agent-methodology already; rename"):
        load_rubrics(own)

    (own / "agent-methodology").rename(own / "My Rubric")
    with pytest.raises(RubricError, match="'My Rubric' is no name of a rubric"):
        load_rubrics(own)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RubricError, match="nowhere: the folder of rubrics cannot be read"):
        load_rubrics(tmp_path / "nowhere")
