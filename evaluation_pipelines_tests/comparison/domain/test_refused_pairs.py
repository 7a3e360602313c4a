"""Pairs of models that cannot be compared have no interval, and no sentence rests on them."""

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.answers import answers_of
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.findings import findings, verdict_list
from evaluation_pipelines.comparison.domain.runs import MODELS
from evaluation_pipelines.reporting.domain.comparison_tables import pair_cells
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.comparison_builders import compared, run, sample, scores

REASON = "only 8 sessions of one of the two models can be compared (30 needed)"


def named(name: str, mean: float, start: int, number: int, cost: float, task: str) -> list[Row]:
    """Runs of a model that cost about the same."""
    rows = sample(name, scores(mean, number, seed=start), 100 * start, provider=None)
    return [
        row | {"task_class": task, "cost_usd": cost * (1 + at % 5 / 10)}
        for at, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def found() -> Comparison:
    """C is worse than a; b leads, but has only 8 runs in the task class of the others."""
    return compared(
        [
            *named("a", 84, 1, 48, 0.4, "debug"),
            *named("b", 88, 2, 48, 0.4, "review"),
            *named("b", 84, 3, 8, 0.4, "debug"),
            *named("c", 60, 4, 48, 0.1, "debug"),
        ]
    )


def test_a_refused_pair_has_no_corrected_interval(found: Comparison) -> None:
    rows = {(row["model_a"], row["model_b"]): row for row in found.pairs.iter_rows(named=True)}
    corrected = [
        f"{name}_{end}_holm" for name in ("adjusted", "cost_ratio") for end in ("low", "high")
    ]
    for pair in (("a", "b"), ("b", "c")):
        row = rows[pair]
        assert (row["verdict"], row["reason"]) == ("not decided", REASON)
        assert [row[name] for name in corrected] == [None] * 4
        # Its figure, and the interval of this pair alone, stay in the table.
        assert None not in (row["adjusted_difference"], row["adjusted_low"], row["cost_ratio_low"])
        assert not pair_cells(row, MODELS)[2].below
    assert rows["a", "c"]["verdict"] == "A better"
    assert rows["a", "c"]["adjusted_low_holm"] > 0
    listed = {(each["model_a"], each["model_b"]): each for each in verdict_list(found)["pairs"]}
    assert listed["b", "c"]["corrected_low"] is None
    assert listed["b", "c"]["low"] is not None


def test_both_answers_name_the_same_difference_which_is_shown(found: Comparison) -> None:
    said = {each.name: each.sentence for each in answers_of(findings(found)[0], found)}
    pair = found.pairs.filter(pl.col("model_a") == "a", pl.col("model_b") == "c").row(0, named=True)
    shown = f"{pair['adjusted_difference']:.1f} points less than a ("
    assert f"c scores {shown}" in said["Quality"]
    money = said["Value"]
    assert money.startswith("no cheaper alternative. c costs 75% less than a but ")
    assert f"but scores {shown}" in money


def test_models_that_cannot_be_compared_are_not_called_equally_good(found: Comparison) -> None:
    said = answers_of(findings(found)[0], found)[0].sentence
    assert said.startswith("a or b. ")
    assert f". a and b cannot be compared: {REASON}" in said


def test_scores_without_any_spread_have_no_interval() -> None:
    rows = [run(at, 30.0, person=f"user {at % 2}", active_ms=60_000) for at in range(4)]
    row = compared(rows).models.row(0, named=True)
    assert (row["avg_score"], row["avg_score_low"], row["avg_score_high"]) == (30.0, None, None)
    assert (row["avg_duration_ms"], row["avg_duration_ms_low"]) == (60_000, None)
