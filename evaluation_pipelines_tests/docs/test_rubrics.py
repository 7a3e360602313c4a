"""``docs/rubrics.md`` says what the code does, with figures that are measured anew."""

import re

import pytest

from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.rubric import PLACEHOLDERS
from evaluation_pipelines.judging.domain.prompt.truncate import LAST_STEPS
from evaluation_pipelines.judging.domain.verdict import LARGEST_DIFFERENCE
from evaluation_pipelines.judging.rubric_files import SHIPPED_RUBRICS, load_rubrics
from evaluation_pipelines_tests.docs.documents import named, table_rows
from evaluation_pipelines_tests.judging.domain.attacks import ATTACKS
from evaluation_pipelines_tests.judging.domain.redaction_figures import (
    EACH,
    caught_by_group,
    caught_by_kind,
    harmless_text,
)

TEXT = named("rubrics.md")


def test_the_shipped_rubrics_and_their_files_are_named() -> None:
    rows = table_rows(TEXT, "## What a rubric is")

    assert {row[0].strip("`") for row in rows} == set(load_rubrics(None))
    for folder in SHIPPED_RUBRICS.iterdir():
        assert all(f"| `{path.name}` |" in TEXT for path in folder.iterdir())


def test_the_placeholders_are_named_in_their_order() -> None:
    named_ones = re.findall(r"^\| `\{\{(\w+)\}\}`", TEXT, re.MULTILINE)

    assert tuple(named_ones) == PLACEHOLDERS


def test_the_limits_are_those_of_the_code() -> None:
    assert f"the last {LAST_STEPS} steps" in TEXT
    assert f"more than {LARGEST_DIFFERENCE} away" in TEXT


@pytest.mark.parametrize(
    ("group", "row"),
    [("named", 0), ("placed", 1), ("unnamed", 2)],
)
def test_the_figures_of_redaction_are_measured(group: str, row: int) -> None:
    kinds = len(caught_by_kind()[group])
    told, secrets, caught = table_rows(TEXT, "<!-- figures: redaction -->")[row]

    assert f"({kinds} kinds)" in told
    assert int(secrets) == kinds * EACH
    assert float(caught.removesuffix(" %")) == pytest.approx(
        100 * caught_by_group()[group], abs=0.05
    )


def test_nothing_is_taken_from_harmless_text_but_the_token_that_was_planted_in_it() -> None:
    text = harmless_text()

    assert sum(redact(text, personal=()).counts.values()) == 1
    thousands = re.search(r"In (\d+) thousand letters of harmless text", TEXT)
    assert thousands is not None
    assert len(text) >= 1000 * int(thousands[1])


def test_the_attacks_are_counted() -> None:
    noticed = sum(each.is_noticed for each in ATTACKS)

    assert f"tested with {len(ATTACKS)} attacks" in TEXT
    assert f"{noticed} of the {len(ATTACKS)} are noticed" in TEXT


def test_every_attack_that_is_not_noticed_is_admitted() -> None:
    rows = table_rows(TEXT, "Not noticed:\n")

    assert [row[0] for row in rows] == [each.name for each in ATTACKS if not each.is_noticed]


def test_the_success_of_attacks_is_told_for_the_whole_suite() -> None:
    scripted, local = table_rows(TEXT, "the same session without it has less.")

    everything = f"{len(ATTACKS)} of {len(ATTACKS)}"
    assert scripted[1:] == [everything, str(len(ATTACKS)), "0"]  # test_attacked_model.py
    assert f" of {len(ATTACKS)}," in local[1]
