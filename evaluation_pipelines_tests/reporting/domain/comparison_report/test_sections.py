"""Cells of the tables of a comparison, and the line that says which sessions it is of."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.comparison.domain.runs import MODELS
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.domain.comparison_report import span_line
from evaluation_pipelines.reporting.domain.comparison_tables import model_cells, pair_cells
from evaluation_pipelines_tests.comparison_builders import (
    SINCE,
    UNTIL,
    compared,
    run,
    sample,
    scores,
    three_models,
)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compared(three_models())


def test_the_time_range_and_what_narrows_it_are_said(found: Comparison) -> None:
    assert span_line(found) == (
        "Sessions started 2026-10-24 to 2026-11-20 (UTC). Updated 2026-11-21 06:00."
    )
    narrowed = compared(
        [run(1)],
        Question(SINCE, UNTIL, label="code", profile="p", organization="o", within="repository"),
        as_of=UNTIL - timedelta(days=1),
    )
    assert span_line(narrowed) == (
        "Sessions started 2026-10-24 to 2026-11-20 (UTC), label code, profile p, "
        "organization o, compared within each repository, scores as of 2026-11-20. "
        "Updated 2026-11-21 06:00."
    )


def test_unknown_ends_are_left_out(found: Comparison) -> None:
    alone = found.models.filter(pl.col("model") == "absent")
    assert alone.is_empty()
    one = compared([run(1)])
    assert "80.0" in html_page(one)


def test_a_chart_without_data_is_left_out() -> None:
    assert "Quality vs. cost" in html_page(compared(three_models()))
    without_costs = [row | {"cost_usd": None} for row in three_models()]
    assert "Quality vs. cost" not in html_page(compared(without_costs))


def test_a_single_person_and_runs_that_nothing_can_settle() -> None:
    rows = [
        each
        for name, start in (("a", 0), ("b", 100))
        for each in sample(name, [80.0] * 30, start, users=1, provider=None)
    ]
    found = compared(rows)
    assert [model_cells(row, MODELS)[2].below for row in found.models.to_dicts()] == [
        "1 person"
    ] * 2
    # Without any variance no number of runs can be worked out.
    (pair,) = found.pairs.to_dicts()
    assert (pair_cells(pair, MODELS)[-1].shown, pair_cells(pair, MODELS)[-1].below) == ("-", "")


@pytest.mark.parametrize(("known", "shown"), [(1, "-"), (29, "$0.50")])
def test_a_cost_says_of_how_many_sessions_it_is_known(known: int, shown: str) -> None:
    rows = sample("a", scores(80, 30), 0)
    costs = [{"cost_usd": 0.5 if at < known else None} for at in range(len(rows))]
    (row,) = compared([a | b for a, b in zip(rows, costs, strict=True)]).models.to_dicts()
    cost = model_cells(row, MODELS)[5]
    assert (cost.shown, cost.below.rpartition("; ")[2]) == (shown, f"known for {known} of 30")


def test_models_without_a_rank_have_no_intervals_of_costs() -> None:
    rows = [*sample("a", scores(80, 30), 0), *sample("few", scores(80, 12), 100)]
    priced = [row | {"cost_usd": 0.4 + at / 100} for at, row in enumerate(rows)]
    for row in compared(priced).models.to_dicts():
        score, passed, cost, worth = model_cells(row, MODELS)[3:]
        assert cost.shown.startswith("$0.")
        assert all((score.below, passed.below, row["avg_cost_usd_low"]))
        is_ranked = row["model"] == "a"
        assert [bool(each.below) for each in (cost, worth)] == [is_ranked] * 2


def test_a_time_range_of_one_day_and_one_within_days(found: Comparison) -> None:
    day = replace(found, question=Question(SINCE, SINCE + timedelta(days=1)))
    assert span_line(day).startswith("Sessions started on 2026-10-24 (UTC). ")
    noon = replace(found, question=Question(SINCE, SINCE + timedelta(hours=12)))
    assert span_line(noon).startswith("Sessions started 2026-10-24 until 2026-10-24 12:00")
