"""Rules of the comparison: each breaks when what it guards against is there."""

from dataclasses import replace

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.compare import (
    CHECKS,
    Comparison,
    every_session_is_accounted_for,
    figures_lie_in_their_intervals,
    models_and_pairs_stand_once,
    no_model_got_worse,
)
from evaluation_pipelines_tests.comparison_builders import (
    compared,
    run,
    three_models,
    worse_lately,
)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compared([*three_models(), run(900, None), run(901, 0.0, is_disqualified=True)])


def test_a_sound_comparison_keeps_all_rules_and_each_is_named_as_its_function(
    found: Comparison,
) -> None:
    results = [rule(found) for rule in CHECKS]
    assert all(result.passed for result in results)
    assert [result.rule for result in results] == [rule.__name__ for rule in CHECKS]


def test_a_row_that_stands_twice_is_found(found: Comparison) -> None:
    models = replace(found, models=pl.concat([found.models, found.models]))
    assert not models_and_pairs_stand_once(models).passed
    pairs = replace(found, pairs=pl.concat([found.pairs, found.pairs]))
    assert models_and_pairs_stand_once(pairs).table == "model_comparison"
    assert not models_and_pairs_stand_once(pairs).passed


@pytest.mark.parametrize(
    "wrong", [pl.lit(1.0).alias("avg_cost_usd_low"), pl.lit(101.0).alias("avg_score")]
)
def test_a_figure_outside_of_its_interval_is_found(found: Comparison, wrong: pl.Expr) -> None:
    broken = replace(found, models=found.models.with_columns(wrong))
    result = figures_lie_in_their_intervals(broken)
    assert not result.passed
    assert result.examples[0] == "aspen (provider-a)"


def test_a_session_that_is_nowhere_is_found(found: Comparison) -> None:
    result = every_session_is_accounted_for(replace(found, models=found.models.head(2)))
    assert (result.passed, result.expected) == (False, "146 session windows")


def test_a_model_that_got_worse_is_a_warning() -> None:
    result = no_model_got_worse(compared(worse_lately()))
    assert (result.passed, result.severity) == (False, "warning")
    assert result.found == "a (provider-a) (code) got worse"
    assert result.examples[0].endswith("points since 2026-11-14")
