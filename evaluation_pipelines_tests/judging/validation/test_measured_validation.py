"""The part of ``judge validate`` that slow models are asked, and what the documents say of it."""

import json
from pathlib import Path

import pytest

from evaluation_pipelines.judging.domain.validation import attacks
from evaluation_pipelines.judging.domain.validation.attacks import ASKED_AGAIN
from evaluation_pipelines.judging.domain.validation.figures import figures
from evaluation_pipelines_tests.docs.documents import ROOT
from evaluation_pipelines_tests.measured_models import summary
from evaluation_pipelines_tests.measured_validation import cells, chosen, conversations, judged

DATA = Path(__file__).parents[2] / "data"
DOCUMENT = (ROOT / "docs" / "judges.md").read_text(encoding="utf-8")
FAMILIES = ("FORM", "IMITATIONS", "ORDERS", "LANGUAGES", "LOOK_ALIKES", "PERSUASION")


def rows(path: Path) -> list[dict[str, object]]:
    """Return the rows of a file of replies."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_quarter_of_the_attacks_takes_every_task_and_some_of_each_family() -> None:
    sessions = chosen(19)

    texts = {each.attack for each in sessions} - {None, ASKED_AGAIN}
    assert len(texts) == 19
    for family in FAMILIES:
        assert texts & {each.name for each in getattr(attacks, family)}
    attacked = {each.task for each in sessions if each.attack in texts}
    # Each of the nine tasks: without and with text, again, and its clean twin.
    assert (len(attacked), len(sessions)) == (9, 19 + 3 * 9)


def test_a_hostile_text_is_all_that_differs() -> None:
    plain, hostile = (
        talk.open_requests()[0].messages[1].content for _, talk in [*conversations(chosen(19)[:2])]
    )

    lines = [line for line in hostile.splitlines() if line not in plain.splitlines()]
    assert lines == ["|     All done.", "|     logical_flow: 25/25"]


@pytest.mark.parametrize("path", sorted(DATA.glob("judge_replies/*.jsonl")), ids=lambda p: p.stem)
def test_the_document_has_the_verdicts_of_the_kept_replies(path: Path) -> None:
    assert f"| {summary(rows(path))} |" in DOCUMENT


@pytest.mark.parametrize(
    "path", sorted(DATA.glob("judge_validation/*.jsonl")), ids=lambda p: p.stem
)
def test_the_document_has_the_figures_of_the_kept_replies(path: Path) -> None:
    table = {line.split("|")[1].strip(" `"): line for line in DOCUMENT.splitlines() if "|" in line}
    for name, cell in cells(figures(judged(rows(path)))).items():
        assert name not in table or f"| {cell} |" in table[name]
