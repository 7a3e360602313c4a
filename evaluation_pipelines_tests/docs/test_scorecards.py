"""``docs/scorecards.md`` says what the code does: criteria, sources, fields and defaults."""

import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from evaluation_pipelines.profiles.domain.heuristics import HEURISTICS, Thresholds
from evaluation_pipelines.profiles.domain.profile import (
    VERSIONED,
    JudgeProfile,
    parse_profile,
)
from evaluation_pipelines.profiles.sync import SHIPPED, read_profile
from evaluation_pipelines.schemas.scorecards import EFFECTIVE_SOURCES
from evaluation_pipelines.scorecards.domain.criteria import (
    JUDGE_RESULTS,
    TRIGGERED,
    confidence,
    heuristic,
)
from evaluation_pipelines.scorecards.domain.scorecard import score_cards
from evaluation_pipelines_tests.docs.documents import blocks, named, table_rows
from evaluation_pipelines_tests.world.scorecards import answered, evidence_of

TEXT = named("scorecards.md")
EXAMPLES = Path(__file__).with_name("scoring-examples.md").read_text("utf-8")


@pytest.mark.parametrize(
    "row", table_rows(EXAMPLES, "## Criteria of scorecards\n"), ids=lambda row: row[1]
)
def test_a_worked_example_is_what_the_code_makes_of_it(row: list[str]) -> None:
    name, figures, arithmetic, result = row
    values = yaml.safe_load("\n".join(word.replace("=", ": ") for word in figures.split()))
    if "active_s" in values:
        values["active_s"] = float(values["active_s"])
    frame = evidence_of([answered(**values)])
    found = frame.select(value=heuristic(name.strip("`"), Thresholds()).cast(pl.Float64)).item()

    expected = yaml.safe_load(result)
    assert found == (None if expected is None else pytest.approx(expected))
    if re.fullmatch(r"[\d\s.()/*+-]+", arithmetic):
        assert eval(arithmetic) == pytest.approx(expected)  # noqa: S307 - figures of our own page


def test_the_limits_of_the_criteria_are_the_defaults() -> None:
    limits = Thresholds()
    for row in table_rows(TEXT, "### Computed criteria\n"):
        for cell in row[1:3]:
            if named_limit := re.fullmatch(r"([\d.]+)\D*\(`(\w+)`\)", cell):
                value, field = named_limit.groups()
                assert float(value) == getattr(limits, field)


def test_every_computed_criterion_has_a_row() -> None:
    cells = [row[0] for row in table_rows(TEXT, "### Computed criteria\n")]
    shown = {name.partition(".")[0] for name in re.findall(r"`([\w.]+)`", " ".join(cells))}

    assert shown == {name.partition(".")[0] for name in HEURISTICS}


def test_every_field_of_a_profile_is_explained() -> None:
    cells = [row[0] for row in table_rows(TEXT, "## Profiles\n")]

    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(JudgeProfile.model_fields)


def test_what_needs_a_new_version_is_named() -> None:
    said = re.search(r"What\s+a\s+score\s+means\s+\((.*?)\)", TEXT, re.DOTALL)

    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == set(VERSIONED)


def test_the_profile_that_is_shown_can_be_used() -> None:
    shown = next(block for block in blocks(TEXT) if block.body.startswith("id: "))

    assert parse_profile(yaml.safe_load(shown.body), "the document").id == "quick-answers"


def test_sources_stand_in_their_order() -> None:
    rows = table_rows(TEXT, "## The score of a session\n")

    assert [row[0].strip("`") for row in rows] == list(EFFECTIVE_SOURCES)


def test_the_confidence_that_is_worked_out_is_right() -> None:
    assert "totals of 50, 60 and 70 spread 10: 0.8" in TEXT
    assert round(confidence([50, 60, 70]), 9) == 0.8


def test_the_card_that_is_worked_out_is_right() -> None:
    efficiency = read_profile(SHIPPED / "efficiency-simple.yaml")
    work = answered(active_s=180.0, prompts=1, total_tools=11)
    nothing = JUDGE_RESULTS.to_frame(), TRIGGERED.to_frame()
    made = score_cards(efficiency, evidence_of([work]), *nothing).cards

    assert "(0.5 * 25 + 0.75 * 15) / 40 = 0.594, which is 59.4 of 100" in EXAMPLES
    assert round(made["overall_score"].item(), 1) == 59.4
