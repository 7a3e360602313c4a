"""How often intervals hold the truth, and how often verdicts are false, over many samples."""

import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER, TOO_FEW
from evaluation_pipelines.comparison.run_file import compare_file
from evaluation_pipelines_tests.simulation.scenarios import MODELS, MONDAY, Scenario, runs_of

SMALLEST_COVERAGE = 0.93
LARGEST_FALSE = 0.05

_ROUNDING = 0.05
"""Points by which true means at the ceiling may differ from what is said."""

_NOW = MONDAY + timedelta(days=30)
_VERDICTS = {A_BETTER: 1, B_BETTER: -1}


@dataclass(slots=True)
class Share:
    """Number of hits among a number of trials."""

    hits: int = 0
    trials: int = 0

    def add(self, *, is_hit: bool) -> None:
        """Count a trial."""
        self.hits += is_hit
        self.trials += 1

    def __add__(self, other: "Share") -> "Share":
        """Return the hits among the trials of both."""
        return Share(self.hits + other.hits, self.trials + other.trials)

    @property
    def value(self) -> float:
        """The share; NaN without any trial."""
        return self.hits / self.trials if self.trials else math.nan

    @property
    def error(self) -> float:
        """Its Monte-Carlo standard error."""
        if not self.trials:
            return math.nan
        return math.sqrt(self.value * (1 - self.value) / self.trials)


@dataclass(slots=True)
class Measured:
    """What a scenario gave.

    Attributes:
        scenario: The scenario.
        samples: Number of reports.
        refused: Pairs without a verdict for want of people.
        difference: Intervals of differences that hold the truth.
        mean: The same of mean scores.
        passed: The same of pass rates.
        cost: The same of mean costs.
        worth: The same of points per dollar.
        false: Reports with a false verdict.
        found: Pairs with the first model whose true difference is found; 0 of 0 if there is none.
        headline: Labels in which the first model is shown to beat every other one.
        hinted: Pairs with an indication of a difference.
        ratio: Intervals of cost ratios that hold the truth.
        false_money: Reports that call a model not worse that is worse by the margin.
        found_money: Models as good as the best that are shown to be not worse.
        widths: Widths of the intervals of differences.
    """

    scenario: Scenario
    samples: int
    refused: Share = field(default_factory=Share)
    difference: Share = field(default_factory=Share)
    mean: Share = field(default_factory=Share)
    passed: Share = field(default_factory=Share)
    cost: Share = field(default_factory=Share)
    worth: Share = field(default_factory=Share)
    false: Share = field(default_factory=Share)
    found: Share = field(default_factory=Share)
    headline: Share = field(default_factory=Share)
    hinted: Share = field(default_factory=Share)
    ratio: Share = field(default_factory=Share)
    false_money: Share = field(default_factory=Share)
    found_money: Share = field(default_factory=Share)
    widths: list[float] = field(default_factory=list)

    def __add__(self, other: "Measured") -> "Measured":
        """Return what both counted of one scenario."""
        kept = [field.name for field in fields(self) if field.name != "scenario"]
        both = {name: getattr(self, name) + getattr(other, name) for name in kept}
        return Measured(self.scenario, **both)

    @property
    def width(self) -> float:
        """Median width of the intervals of differences."""
        return float(pl.Series(self.widths).median() or math.nan)  # type: ignore[arg-type]

    @property
    def is_refused(self) -> bool:
        """True if hardly any verdict was given."""
        return self.refused.value > 0.99 or self.scenario.unknown

    def failures(self) -> list[str]:
        """Return the goals that are not reached beyond chance; empty if all are."""
        if not self.scenario.is_visible:
            return []
        found = [
            f"{name} covers {share.value:.1%}"
            for name, share in self.intervals().items()
            if share.trials and share.value + 2 * share.error < SMALLEST_COVERAGE
        ]
        for share, what in ((self.false, "verdicts"), (self.false_money, "verdicts on money")):
            limit = LARGEST_FALSE + 2 * math.sqrt(0.05 * 0.95 / max(share.trials, 1))
            if share.value > limit:
                found.append(f"{share.value:.1%} false {what}")
        return found

    def intervals(self) -> Mapping[str, Share]:
        """Return the coverage of each kind of interval."""
        return {
            "difference": self.difference,
            "mean": self.mean,
            "pass rate": self.passed,
            "cost": self.cost,
            "points per dollar": self.worth,
            "cost ratio": self.ratio,
        }


def measure(scenario: Scenario, samples: int, seed: int = 2026) -> Measured:
    """Draw samples of a scenario, compare their models as the report does, and count."""
    measured = Measured(scenario, samples)
    for models, pairs in _compared(scenario, samples, seed):
        for row in models.iter_rows(named=True):
            _count_model(measured, row)
        for (_,), rows in models.group_by("sample"):
            _count_money(measured, list(rows.iter_rows(named=True)))
        for (_,), rows in pairs.group_by("sample"):
            _count_report(measured, list(rows.iter_rows(named=True)))
    return measured


def _compared(
    scenario: Scenario, samples: int, seed: int
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Return models and pairs of all samples; each sample is a report of its own."""
    sample = pl.col("classification_label").str.split("/").list.first()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.parquet"
        # A label alone is a report alone: then all samples are compared at once.
        batches = 1 if scenario.labels == 1 else samples
        for batch in range(batches):
            runs_of(scenario, samples // batches, seed + batch).write_parquet(path)
            found = compare_file(path, _NOW, alone=batches == 1)
            yield found.models.with_columns(sample=sample), found.pairs.with_columns(sample=sample)


def _count_model(measured: Measured, row: Mapping[str, Any]) -> None:
    scenario, number = measured.scenario, MODELS.index(row["model"])
    truths = (
        (measured.mean, "avg_score", scenario.mean(number)),
        (measured.passed, "pass_rate", scenario.pass_rate(number)),
        (measured.cost, "avg_cost_usd", scenario.mean_cost(number)),
        (measured.worth, "score_per_dollar", scenario.mean(number) / scenario.mean_cost(number)),
    )
    for share, name, truth in truths:
        if row[f"{name}_low"] is not None and truth is not None:
            share.add(is_hit=row[f"{name}_low"] <= truth <= row[f"{name}_high"])


def _count_money(measured: Measured, rows: list[Mapping[str, Any]]) -> None:
    """Count models other than the first one: they cost less, and are as good or worse."""
    scenario = measured.scenario
    tested = [row for row in rows if row["model"] != MODELS[0] and row["is_not_worse"] is not None]
    if not tested:
        return
    if scenario.true_difference() >= tested[0]["margin"] - _ROUNDING:
        measured.false_money.add(is_hit=any(row["is_not_worse"] for row in tested))
    elif scenario.true_difference() <= 0:
        for row in tested:
            measured.found_money.add(is_hit=row["is_not_worse"])


def _count_report(measured: Measured, rows: list[Mapping[str, Any]]) -> None:
    scenario = measured.scenario
    has_false, wins = False, Share()
    for row in rows:
        is_first = row["model_a"] == MODELS[0]
        truth = scenario.true_difference() if is_first else 0.0
        verdict = _VERDICTS.get(row["verdict"], 0)
        has_false |= verdict != 0 and verdict * truth <= 0
        measured.refused.add(is_hit=row["verdict"] == TOO_FEW)
        measured.hinted.add(is_hit=row["indication"] in _VERDICTS)
        if is_first and truth:
            is_found = verdict * truth > 0
            measured.found.add(is_hit=is_found)
            wins.add(is_hit=is_found)
        if row["cost_ratio_low"] is not None:
            ratio = scenario.costs(MODELS.index(row["model_a"]))
            measured.ratio.add(is_hit=row["cost_ratio_low"] <= ratio <= row["cost_ratio_high"])
        if row["adjusted_low"] is not None:
            is_hit = row["adjusted_low"] <= truth <= row["adjusted_high"]
            measured.difference.add(is_hit=is_hit)
            measured.widths.append(row["adjusted_high"] - row["adjusted_low"])
    measured.false.add(is_hit=has_false)
    if wins.trials:
        measured.headline.add(is_hit=wins.hits == wins.trials)
