"""Arms compared by an outcome, from the lake."""

from collections.abc import Mapping
from datetime import datetime

import polars as pl

from evaluation_pipelines.as_of import as_of as stores_as_of
from evaluation_pipelines.comparison.compare_models import runs_to_compare
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.domain.outcomes import (
    OutcomeComparison,
    Rule,
    compare_outcomes,
    outcome_values,
)
from evaluation_pipelines.schemas import MIXED, SESSION_KEY, SESSION_OUTCOMES
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores


def compare_by_outcome(
    stores: Stores, question: Question, rule: Rule, as_of: datetime | None = None
) -> OutcomeComparison:
    """Compare models, or what takes their place, by an outcome of all their sessions.

    Raises:
        GroupingError: Arms overlap or are empty, or no session has an attribute.
        LakeError: A file cannot be read.
    """
    seen = stores if as_of is None else stores_as_of(stores, as_of)
    lake = seen.lake.snapshot()
    runs, evaluations = runs_to_compare(lake, question)
    named = pl.concat_str("model", "model_variant", separator=" ", ignore_nulls=True)
    asked = runs.filter(
        pl.col("started_at") >= question.since, pl.col("model") != MIXED
    ).with_columns(model=named)
    found = with_outcomes(lake, asked, evaluations, {"value": rule})
    return compare_outcomes(found.with_columns(pl.col("value") / 100), rule)


def with_outcomes(
    lake: Lake, runs: pl.DataFrame, evaluations: pl.DataFrame, outcomes: Mapping[str, Rule]
) -> pl.DataFrame:
    """Return runs with a column for each outcome, 0 to 100, and ``is_young`` of the last one.

    Args:
        lake: The lake.
        runs: Runs with SESSION_KEY.
        evaluations: Their rows of SESSION_EVALUATIONS.
        outcomes: Rules by the names of the columns. Sessions without a commit are not merged.

    Raises:
        LakeError: A file cannot be read.
    """
    for name, rule in outcomes.items():
        rows = lake.select(SESSION_OUTCOMES, pl.col("kind").is_in([rule.kind, "merged"]))
        values = outcome_values(rows, evaluations, rule, of_all=True)
        columns = values.select(*SESSION_KEY, "is_young", (100 * pl.col("value")).alias(name))
        runs = runs.drop("is_young", strict=False).join(columns, on=SESSION_KEY, how="left")
    return runs
