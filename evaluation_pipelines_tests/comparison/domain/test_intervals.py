"""Intervals of means, differences and cost ratios, alone and corrected for a report."""

from unittest.mock import ANY

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.answers import facts
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.findings import findings, verdict_list
from evaluation_pipelines.comparison.domain.runs import MODELS
from evaluation_pipelines.reporting.domain.comparison_tables import model_cells, pair_cells
from evaluation_pipelines_tests.comparison_builders import compared, model, run, sample


def test_a_mean_and_its_interval_are_those_of_people_who_weigh_alike() -> None:
    # 90 in four runs of one person, 70 and 50 in one run of two others: a mean of 70; that of all
    # runs would be 80.
    said = [("ann", 90.0)] * 4 + [("ben", 70.0), ("cat", 50.0)]
    rows = [run(at, score, person=who) for at, (who, score) in enumerate(said)]
    others = [
        run(10 + at, 60.0, person=who, model="model-b") for at, who in enumerate(["ann", "ben"])
    ]
    found = compared([*rows, *others])
    row = model(found, "model-a")
    # A standard deviation of 20 points: t(2) * 20 / sqrt(3) = 4.302653 * 11.547 = 49.683.
    low, high = 70 - 49.683, 100
    figures = [row[f"avg_score{end}"] for end in ("", "_low", "_high")]
    assert figures == pytest.approx([70, low, high], abs=1e-3)
    # Six runs at $0.50: a bill is that of all runs.
    assert (row["avg_cost_usd"], row["score_per_dollar"]) == (0.5, 140)
    assert found.pairs.row(0, named=True)["difference"] == pytest.approx(70 - 60)
    listed = verdict_list(found)["models"][0]
    assert [listed[name] for name in ("mean", "low", "high")] == figures
    (shown,) = (cell for cell in model_cells(row, MODELS) if cell.sort == row["avg_score"])
    assert (shown.shown, shown.below) == ("70.0", "20.3 to 100.0")


def several_labels(apart: float) -> Comparison:
    """Two models whose people differ by ``apart`` points and half of the cost, in four labels."""
    labels = ("code", "docs", "ops", "research")
    return compared(
        each
        for label in labels
        for name, cost, more in (("aspen", 0.4, apart), ("birch", 0.2, 0.0))
        for person in range(6)
        for each in sample(
            name,
            [60 + (3 * person - 7.5 + more) * (name == "aspen") for _ in range(6)],
            1000 * labels.index(label) + 100 * person + 50 * (name == "birch"),
            1,
            classification_label=label,
            person=f"user {person}",
            cost_usd=cost * (1 + 0.3 * person if name == "aspen" else 1),
        )
    )


def test_an_interval_next_to_a_verdict_is_corrected_like_it() -> None:
    # People's differences 0, 3, ..., 15 less 7.5 plus 7.1: a mean of 7.1, a standard error of
    # 5.6125 / sqrt(6) = 2.2913, p = 0.027: beyond 0, alone. Four labels divide 0.05 by four, and
    # t(5) is 3.8100 at 0.0125.
    found = several_labels(7.1)
    row = found.pairs.row(0, named=True)
    assert (row["adjusted_low"], row["adjusted_p"]) == (pytest.approx(1.210, abs=1e-3), ANY)
    ends = row["adjusted_low_holm"], row["adjusted_high_holm"]
    assert ends == pytest.approx((7.1 - 3.8100 * 2.2913, 7.1 + 3.8100 * 2.2913), abs=1e-3)
    assert row["verdict"] == "not decided"
    said = " ".join(facts(findings(found)[0]))
    assert "7.1 points more than birch (provider-a) (-1.6 to +15.8), which" in said
    difference = pair_cells(row, MODELS)[2]
    assert (difference.shown, difference.below) == ("+7.1", "-1.6 to +15.8")
    listed = verdict_list(found)["pairs"][0]
    assert (listed["low"], listed["high"]) == (row["adjusted_low"], row["adjusted_high"])
    assert (listed["corrected_low"], listed["corrected_high"]) == ends


def test_a_saving_is_stated_with_an_interval_corrected_for_all_of_the_report() -> None:
    row = several_labels(0.0).pairs.row(0, named=True)
    # Log ratios: ln 2 plus ln 1, 1.3, 1.6, 1.9, 2.2, 2.5; all four labels are shown, so that each
    # has the level of its own step of Holm's: the first, 0.0125.
    logs = np.log(2 * (1 + 0.3 * np.arange(6)))
    error = float(np.std(logs, ddof=1)) / 6**0.5
    assert row["cost_ratio"] == pytest.approx(np.exp(logs.mean()))
    assert row["cost_ratio_low"] == pytest.approx(np.exp(logs.mean() - 2.570582 * error))
    assert row["cost_ratio_low_holm"] == pytest.approx(
        np.exp(logs.mean() - 3.8100 * error), rel=1e-4
    )


def test_an_interval_of_two_people_ends_where_nothing_is_excluded() -> None:
    # Costs that differ a thousandfold, and one degree of freedom: e to the power of some 88.
    rows = [
        run(
            number,
            score,
            person=f"user {number % 2}",
            model=f"model-{name}",
            cost_usd=cost if number % 2 else 1 / cost,
        )
        for start, name, cost in ((0, "a", 1000.0), (10, "b", 0.001))
        for number, score in (
            (start, 10.0 if start else 90.0),
            (start + 1, 90.0 if start else 10.0),
        )
    ]
    row = compared(rows).pairs.row(0, named=True)
    assert (row["adjusted_low"], row["adjusted_high"]) == (-100, 100)
    ends = row["cost_ratio_low"], row["cost_ratio_high"]
    assert ends == pytest.approx((0.001, 1000))
