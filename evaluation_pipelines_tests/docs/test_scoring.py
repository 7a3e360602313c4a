"""``docs/scoring.md`` says what the code does: every worked example is worked out again.

So is every one of ``scoring-examples.md``, next to this test.
"""

from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.comparison.masque_lift import masque_lift
from evaluation_pipelines.schemas import AGENT_SESSIONS, RANKED_PERFORMANCE, TOOL_REPORTS
from evaluation_pipelines.sessions.domain.performance import (
    WEIGHTS,
    printed,
    recommendation,
    score_sessions,
)
from evaluation_pipelines.sessions.percentiles import with_percentiles
from evaluation_pipelines_tests.docs.documents import blocks, named, table_rows
from evaluation_pipelines_tests.docs.worked_examples import Claim, claims, worked_out
from evaluation_pipelines_tests.world.rows import session, sessions_frame

TEXT = named("scoring.md")
EXAMPLES = Path(__file__).with_name("scoring-examples.md").read_text("utf-8")
DIMENSIONS = "### The five dimensions"

COPIED = set(
    """
    organization_id person_id team user_id user_email account_id host_user team_id repository
    branch environment session_attributes service_version classification_label source_cli
    session_date
    """.split()
)
"""Columns that say whose a session is: the page lists them, without arithmetic to show."""


@pytest.fixture(scope="module")
def worked() -> list[Claim]:
    return [*claims(TEXT), *claims(EXAMPLES)]


def test_every_worked_example_is_what_the_code_makes_of_it(worked: list[Claim]) -> None:
    assert [fault for claim in worked for fault in claim.faults()] == []


def test_every_column_that_is_computed_has_a_worked_example(worked: list[Claim]) -> None:
    shown = {claim.column for claim in worked} | {"percentile_in_class"} | COPIED

    tables = (AGENT_SESSIONS, RANKED_PERFORMANCE, TOOL_REPORTS)
    assert shown >= {name for table in tables for name in table.schema}


def test_every_dimension_shows_its_arithmetic(worked: list[Claim]) -> None:
    shown = {claim.column for claim in worked if len(claim.steps) > 1}

    assert shown >= {*WEIGHTS, "composite", "active_s", "total_tokens", "cost_usd"}


def test_the_weights_are_those_of_the_code() -> None:
    weights = {name.strip("`"): float(weight) for name, weight, *_ in table_rows(TEXT, DIMENSIONS)}

    assert weights == WEIGHTS


def test_the_table_of_recommendations_is_what_the_code_says() -> None:
    rows = table_rows(TEXT, "### Rounding and recommendation")
    composites = pl.DataFrame({"composite": [float(row[0]) for row in rows]})
    decided = composites.select(printed(pl.col("composite")).round(9), recommendation())

    assert [(float(row[1]), row[2].strip("`")) for row in rows] == decided.rows()


def test_the_percentile_is_what_the_code_says() -> None:
    block = next(block for block in blocks(TEXT) if block.language == "percentile")
    lines = dict(line.split(" = ", 1) for line in block.body.split("\n"))
    composites = [float(lines["composite"]), *map(float, lines["before"].split())]
    of_class = [session(session_key=f"s{at:02}") for at, _ in enumerate(composites)]
    day_before = pl.col("session_date") - pl.duration(days=1)
    every = score_sessions(sessions_frame(of_class)).with_columns(
        composite=pl.Series(composites),
        session_date=pl.when(pl.col("session_key") == "s00")
        .then("session_date")
        .otherwise(day_before),
    )
    percentile = with_percentiles(every[:1], every)["percentile_in_class"].item()

    for step in lines["percentile_in_class"].split(" = "):
        assert worked_out(step, {}) == pytest.approx(percentile)


def test_the_lift_is_what_the_code_says() -> None:
    block = next(block for block in blocks(TEXT) if block.language == "lift")
    lines = dict(line.split(" = ", 1) for line in block.body.split("\n") if " = " in line)
    sides = {name: list(map(float, lines[name].split())) for name in ("masque", "baseline")}
    worn = {"masque": {"masque": "A", "attribution": "clean"}, "baseline": {}}
    rows = [
        session(session_key=f"{side}{n}", person_id=f"{side}{n}", **worn[side])
        for side, composites in sides.items()
        for n, _ in enumerate(composites)
    ]
    performance = score_sessions(sessions_frame(rows)).sort("session_key", descending=True)
    # Sorted backwards, the masque comes first: its values are told backwards, too.
    told = [*reversed(sides["masque"]), *reversed(sides["baseline"])]
    scores = performance.with_columns(composite=pl.Series(told))
    (lift,) = masque_lift(sessions_frame(rows), scores, 5).to_dicts()

    for step in lines["difference"].split(" = "):
        assert worked_out(step, {}) == pytest.approx(lift["composite_difference"])
    for end in ("low", "high"):
        *_, rounded = next(line for line in block.body.split("\n") if line.startswith(end)).split(
            " ≈ "
        )
        assert float(rounded) == pytest.approx(lift[f"composite_{end}"], abs=0.0051)
