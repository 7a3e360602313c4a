"""``docs/judging.md`` says what the code does, with numbers that are measured again."""

import re

import pytest

from evaluation_pipelines.judging.domain.prompt.rubric import PLACEHOLDERS
from evaluation_pipelines.judging.domain.prompt.transcript import LAST_STEPS
from evaluation_pipelines.judging.domain.verdict import LARGEST_DIFFERENCE
from evaluation_pipelines.judging.rubric_files import SHIPPED_RUBRICS, load_rubrics
from evaluation_pipelines_tests.docs.documents import ROOT, named, table_rows
from evaluation_pipelines_tests.judging.domain.attacks import ATTACKS, NOT_NOTICED
from evaluation_pipelines_tests.judging.domain.redaction_figures import (
    EACH,
    caught_by_group,
    caught_by_kind,
    harmless_text,
)

TEXT = named("judging.md") + (
    ROOT / "evaluation_pipelines_tests/benchmarks/robustness.md"
).read_text("utf-8")
WORDS = " ".join(TEXT.split())


def test_the_shipped_rubrics_and_their_files_are_named() -> None:
    rows = table_rows(TEXT, "## Rubrics")

    assert {row[0].strip("`") for row in rows} == set(load_rubrics(None))
    for folder in SHIPPED_RUBRICS.iterdir():
        assert all(f"| `{path.name}` |" in TEXT for path in folder.iterdir())


def test_the_placeholders_are_named_in_their_order() -> None:
    named_ones = re.findall(r"^\| `\{\{(\w+)\}\}`", TEXT, re.MULTILINE)

    assert tuple(named_ones) == PLACEHOLDERS


def test_the_limits_are_those_of_the_code() -> None:
    assert f"the last {LAST_STEPS} steps" in WORDS
    assert f"more than {LARGEST_DIFFERENCE} away" in WORDS


@pytest.mark.parametrize(("group", "row"), [("first", 0), ("more", 1)])
def test_the_figures_of_redaction_are_measured(group: str, row: int) -> None:
    kinds = len(caught_by_kind()[group])
    told, secrets, caught = table_rows(TEXT, "<!-- figures: redaction -->")[row]

    assert f"({kinds} kinds)" in told
    assert int(secrets) == kinds * EACH
    assert float(caught.removesuffix("%")) == pytest.approx(
        100 * caught_by_group()[group], abs=0.05
    )


def test_every_kind_that_is_missed_in_part_is_admitted() -> None:
    rows = table_rows(TEXT, "<!-- missed -->")
    shares = caught_by_kind()

    missed = [kind for group in shares.values() for kind, share in group.items() if share < 1]
    assert [row[0] for row in rows] == missed


def test_the_size_of_the_harmless_text_is_told() -> None:
    # test_redaction.py finds one token in it, which was planted.
    thousands = re.search(r"nothing in (\d+) thousand letters", TEXT)

    assert thousands is not None
    assert len(harmless_text()) >= 1000 * int(thousands[1])


def test_the_attacks_are_counted() -> None:
    noticed = len(ATTACKS) - len(NOT_NOTICED)

    assert f"tested with {len(ATTACKS)} attacks" in WORDS
    assert f"{noticed} of the {len(ATTACKS)} are noticed" in WORDS


def test_every_attack_that_is_not_noticed_is_admitted() -> None:
    rows = table_rows(TEXT, "<!-- not noticed -->")

    assert [row[0] for row in rows] == [
        attack.name for attack in ATTACKS if attack.name in NOT_NOTICED
    ]
