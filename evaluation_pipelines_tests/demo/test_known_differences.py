"""The differences that the made-up team has by construction are found in the scores."""

import math
from collections.abc import Iterator
from datetime import date

import polars as pl
import pytest

from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry
from evaluation_pipelines_tests.telemetry_generator.team import (
    ASPEN,
    BIRCH,
    FIREFIGHTER,
    MODELS,
    REVIEWER,
    Model,
)
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

SIGMAS = 3
"""A found value is this far from the known one in 3 of 1000 seeds; the seed here is fixed."""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    with open_workplace(tmp_path_factory.mktemp("team")) as workplace:
        write_telemetry(
            workplace.landing.root, seed=1, end=date(2026, 11, 21), extent=Extent(4, 40)
        )
        workplace.ingest()
        workplace.build()
        yield workplace


def scores(team: Workplace, model: str, dimension: str) -> pl.Series:
    return team.performance().filter(pl.col("model") == model)[dimension].drop_nulls()


def mean_and_error(values: pl.Series) -> tuple[float, float]:
    """Mean and its standard error."""
    mean, deviation = values.mean(), values.std()
    assert isinstance(mean, float)
    assert isinstance(deviation, float)
    return mean, deviation / math.sqrt(len(values))


def difference(first: pl.Series, second: pl.Series) -> tuple[float, float]:
    """Difference of two means and its standard error."""
    (mean_1, error_1), (mean_2, error_2) = mean_and_error(first), mean_and_error(second)
    return mean_1 - mean_2, math.hypot(error_1, error_2)


def test_quality_differs_by_as_much_as_the_failures_of_the_models(team: Workplace) -> None:
    found, error = difference(*(scores(team, model.name, "quality") for model in (ASPEN, BIRCH)))

    # 10 * (0.19 - 0.03) = 1.6: quality is ten times the share of calls that succeed.
    known = 10 * (BIRCH.tool_failure - ASPEN.tool_failure)
    assert known == pytest.approx(1.6)
    assert abs(found - known) < SIGMAS * error
    assert found > 2 * error


@pytest.mark.parametrize(
    ("dimension", "better", "worse"),
    [("autonomy", ASPEN, BIRCH), ("cost_efficiency", BIRCH, ASPEN)],
)
def test_autonomy_and_cost_differ_in_the_known_direction(
    team: Workplace, dimension: str, better: Model, worse: Model
) -> None:
    found, error = difference(*(scores(team, each.name, dimension) for each in (better, worse)))

    assert found > SIGMAS * error


def test_the_cheaper_model_makes_a_quarter_fewer_calls_for_a_prompt(team: Workplace) -> None:
    # Scores are capped at five calls a prompt: the amount shows in the sessions only.
    calls = pl.col("total_tools") + pl.col("tools_denied")
    ratios = {}
    for model in (ASPEN, BIRCH):
        sessions = team.sessions().filter(pl.col("model") == model.name, pl.col("prompts") > 0)
        ratio = sessions.select(calls.sum() / pl.col("prompts").sum()).item()
        # Error of a ratio of means, by its linear approximation.
        _, error = mean_and_error(sessions.select(calls - ratio * pl.col("prompts")).to_series())
        ratios[model.name] = (ratio, error / mean_and_error(sessions.select(calls).to_series())[0])

    (aspen, aspen_error), (birch, birch_error) = ratios[ASPEN.name], ratios[BIRCH.name]
    known = BIRCH.calls_per_prompt / ASPEN.calls_per_prompt
    assert known == pytest.approx(0.75)
    assert abs(math.log(birch / aspen / known)) < SIGMAS * math.hypot(aspen_error, birch_error)


def test_every_token_has_exactly_its_price(team: Workplace) -> None:
    for model in MODELS:
        sessions = team.sessions().filter(pl.col("models") == [model.name])
        nano_dollars = (
            sessions["input_tokens"] * model.input_price
            + sessions["output_tokens"] * model.output_price
            + sessions["cache_read_tokens"] * model.cache_read_price
            + sessions["cache_creation_tokens"] * model.cache_write_price
        )
        assert sessions.height > 50
        assert sessions["cost_usd"].to_list() == pytest.approx((nano_dollars / 1e9).to_list())

    prices = ("input_price", "output_price", "cache_read_price", "cache_write_price")
    assert [getattr(ASPEN, name) / getattr(BIRCH, name) for name in prices] == [3, 3, 3, 3]


def test_firefighter_gets_worse_from_day_to_day_and_reviewer_does_not(team: Workplace) -> None:
    assert FIREFIGHTER.decline == 0.3
    # From the first to the last of four days: 0.3 more failures are 3.0 less quality.
    found, error = _quality_change(team, "Firefighter")
    assert abs(found + 10 * FIREFIGHTER.decline) < SIGMAS * error
    assert found < -SIGMAS * error

    assert REVIEWER.decline == 0.0
    found, error = _quality_change(team, "Reviewer")
    assert abs(found) < SIGMAS * error


def _quality_change(team: Workplace, masque: str) -> tuple[float, float]:
    quality = team.performance().filter(pl.col("masque") == masque)
    first, last = (
        quality.filter(pl.col("session_date") == date(2026, 11, day))["quality"].drop_nulls()
        for day in (17, 20)
    )
    return difference(last, first)
