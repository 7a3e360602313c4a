"""Comparison of models or other groups by scores or outcomes: from the lake to tables."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import polars as pl

from evaluation_pipelines.as_of import as_of as stores_as_of
from evaluation_pipelines.comparison.domain.audits import audits_of
from evaluation_pipelines.comparison.domain.compare import (
    Comparison,
    Question,
    asked_runs,
    compare,
    worst_sessions,
)
from evaluation_pipelines.comparison.domain.groups import grouped
from evaluation_pipelines.comparison.domain.outcomes import (
    OutcomeComparison,
    Rule,
    compare_outcomes,
    outcome_values,
)
from evaluation_pipelines.comparison.domain.runs import runs_of
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    MIXED,
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_OUTCOMES,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import USUAL_DAYS

_SAMPLE = {
    "organization_id": pl.String,
    "session_key": pl.String,
    "profile_id": pl.String,
    "inclusion_probability": pl.Float64,
    "session_date": pl.Date,
}


def last_days(now: datetime, days: int = USUAL_DAYS) -> tuple[datetime, datetime]:
    """Return the last complete days (UTC): their beginning, and the midnight that ends them."""
    until = datetime.combine(now.date(), time(), UTC)
    return until - timedelta(days=days), until


def usual_question(settings: Settings, now: datetime) -> Question:
    """Return the question of the report: all models of the last 28 complete days."""
    return Question(*last_days(now), margin=settings.comparison_margin)


def compare_models(
    stores: Stores, question: Question, now: datetime, as_of: datetime | None = None
) -> Comparison:
    """Compare models, or what takes their place, with overrides made until now (or ``as_of``).

    Args:
        stores: The stores.
        question: What to compare.
        now: Time of the comparison.
        as_of: A past time, see ``evaluation_pipelines.as_of``.

    Raises:
        GroupingError: Arms overlap or are empty, or no session has an attribute.
        LakeError: a file cannot be read.
    """
    seen = stores if as_of is None else stores_as_of(stores, as_of)
    lake = seen.lake.snapshot()
    runs, evaluations = runs_to_compare(lake, question)
    watches = question.by.compares_models
    found = compare(runs, _audits(seen), question, now, as_of, watches=watches)
    ids = worst_sessions(found)["card_id"].drop_nulls().to_list()
    has_card = pl.col("card_id").is_in(ids)
    days = evaluations.filter(has_card)["session_date"].unique().sort()
    return replace(found, cards=lake.read(SCORECARDS, days, where=has_card))


def runs_to_compare(lake: Lake, question: Question) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the RUNS of a question by their groups, and their rows of SESSION_EVALUATIONS.

    Raises:
        GroupingError: Arms overlap or are empty, or no session has an attribute.
        LakeError: a file cannot be read.
    """
    # Not by partition: a session that was taken up again lies on the day of its first event.
    started = pl.col("started_at").is_between(
        pl.lit(question.watched_since).cast(UTC_TIME),
        pl.lit(question.until).cast(UTC_TIME),
        closed="left",
    )
    evaluations = lake.select(SESSION_EVALUATIONS, started)
    sessions = lake.select(AGENT_SESSIONS, started)
    evaluations = question.sessions.rows_of(evaluations, sessions)
    runs = asked_runs(runs_of(evaluations, sessions), question)
    return grouped(runs, sessions, question.by), evaluations


def write_comparison(stores: Stores, found: Comparison) -> None:
    """Replace the tables of the comparison in the lake; raises LakeError."""
    for table, frame in tables_of(found):
        stores.lake.write_whole(frame, table)


def tables_of(found: Comparison) -> tuple[tuple[Table, pl.DataFrame], ...]:
    """Return the tables of a comparison with their rows."""
    return (
        (MODEL_COMPARISON, found.models),
        (MODEL_COMPARISON_PAIRS, found.pairs),
        (MODEL_REGRESSIONS, found.regressions),
    )


def _audits(stores: Stores) -> pl.DataFrame:
    overrides = overrides_with_states(stores)
    samples = OverrideStore(stores.ledger).samples()
    rows = [tuple(getattr(sample, name) for name in _SAMPLE) for sample in samples]
    return audits_of(overrides, pl.DataFrame(rows, schema=_SAMPLE, orient="row"))


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
