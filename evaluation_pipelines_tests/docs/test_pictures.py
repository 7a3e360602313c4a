"""Pictures: small, used, and the chart as the code draws it today."""

import re

import pytest

from evaluation_pipelines_tests.docs.documents import documents, links
from evaluation_pipelines_tests.docs.pictures import PAGES, PICTURES, composites_svg

SHOWN = sorted(PICTURES.iterdir())


def test_the_chart_is_what_the_code_draws_of_the_generated_sessions() -> None:
    # Mend it with: .venv/bin/python -m evaluation_pipelines_tests.docs.pictures
    assert (PICTURES / "composites.svg").read_text(encoding="utf-8") == composites_svg()


@pytest.mark.parametrize("picture", SHOWN, ids=lambda path: path.name)
def test_a_picture_is_small_and_shown_somewhere(picture: str) -> None:
    path = PICTURES / picture
    targets = {
        (document.parent / link).resolve()
        for document in documents()
        for link in links(document.read_text(encoding="utf-8"))
        if "://" not in link
    }

    assert path.stat().st_size < 150_000
    assert path.resolve() in targets


def test_every_picture_is_one_that_the_project_makes() -> None:
    assert {re.sub(r"\.\w+$", "", path.name) for path in SHOWN} == {*PAGES, "composites"}
