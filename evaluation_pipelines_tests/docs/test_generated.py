"""``docs/commands.md``, ``docs/api.md`` and pictures are those of the program as it is."""

from pathlib import Path

import pytest

from evaluation_pipelines_tests.docs import api, commands
from evaluation_pipelines_tests.docs.documents import documents, links
from evaluation_pipelines_tests.docs.pictures import (
    PAGES,
    PICTURES,
    SERVICE_PAGES,
    judge_change_svg,
)


def test_the_page_of_commands_is_up_to_date() -> None:
    # Refresh it with: .venv/bin/python -m evaluation_pipelines_tests.docs.commands
    assert commands.PAGE.read_text("utf-8") == commands.commands_markdown()


def test_the_page_of_the_api_is_up_to_date() -> None:
    """Otherwise run ``python -m evaluation_pipelines_tests.docs.api``."""
    assert api.PAGE.read_text("utf-8") == api.api_markdown()


SHOWN = sorted(PICTURES.iterdir())


@pytest.mark.parametrize("picture", SHOWN, ids=lambda path: path.name)
def test_a_picture_is_small_and_shown_somewhere(picture: Path) -> None:
    targets = {
        (document.parent / link).resolve()
        for document in documents()
        for link in links(document.read_text(encoding="utf-8"))
        if "://" not in link
    }

    assert picture.stat().st_size < 150_000
    assert picture.resolve() in targets


def test_every_picture_is_one_that_the_project_makes() -> None:
    assert {path.stem for path in SHOWN} == {
        *PAGES,
        *SERVICE_PAGES,
        "composites",
        "comparison",
        "judge-change",
    }


def test_the_picture_of_a_judge_change_is_up_to_date() -> None:
    # Refresh it with: .venv/bin/python -m evaluation_pipelines_tests.docs.pictures
    assert (PICTURES / "judge-change.svg").read_text(encoding="utf-8") == judge_change_svg()
