"""Compare the models of a time range: rows, pairs, regressions, coverage."""

from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

import polars as pl

from evaluation_pipelines.comparison.domain.audits import correct
from evaluation_pipelines.comparison.domain.effects import RELEVANT_POINTS
from evaluation_pipelines.comparison.domain.models import (
    Row,
    has_few_people,
    mark_frontier,
    model_rows,
)
from evaluation_pipelines.comparison.domain.money import judge_money
from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER, Limits, pair_rows
from evaluation_pipelines.comparison.domain.regression.rows import HISTORY, regression_rows
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.schemas import (
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    SCORECARDS,
    SESSION_KEY,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter

MIN_RUNS = 30

DAYS = 28
"""Default number of complete days before today to compare, and to show on pages."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to compare.

    Attributes:
        since: Start of the time range; runs that started then or later.
        until: End of the time range, exclusive.
        label: One classification label; None for each of them.
        profile: Only runs scored under this judge profile; None for all.
        organization: Only its runs; None for all.
        min_runs: A model with fewer runs is not ranked.
        sessions: Only these sessions.
        alone: Correct the verdicts of each label by itself, as if it were the only one.
        margin: Points that a cheaper model may score less and still be as good for the money.
        within: Column of RUNS in whose values models are compared, in addition to task classes.
    """

    since: datetime
    until: datetime
    label: str | None = None
    profile: str | None = None
    organization: str | None = None
    min_runs: int = MIN_RUNS
    sessions: SessionFilter = ALL_SESSIONS
    alone: bool = False
    margin: float = RELEVANT_POINTS
    within: str | None = None

    @property
    def watched_since(self) -> datetime:
        """Start of the runs that are needed: the regression watch looks back four months."""
        return min(self.since, self.until - HISTORY)


def _no_sessions() -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(SESSION_KEY, pl.String()))


@dataclass(frozen=True, slots=True, eq=False)  # its frames cannot be compared
class Comparison:
    """Result of a comparison.

    Attributes:
        question: What was compared.
        computed_at: Time of the comparison.
        runs: RUNS of the time range, including those without a score.
        models: MODEL_COMPARISON.
        pairs: MODEL_COMPARISON_PAIRS.
        regressions: MODEL_REGRESSIONS.
        as_of: The past time of which it is; None for the present.
        cards: SCORECARDS of the worst sessions, if they have one.
        unlisted: SESSION_KEY of sessions that are never among the worst ones.
    """

    question: Question
    computed_at: datetime
    runs: pl.DataFrame
    models: pl.DataFrame
    pairs: pl.DataFrame
    regressions: pl.DataFrame
    as_of: datetime | None = None
    cards: pl.DataFrame = field(default_factory=SCORECARDS.schema.to_frame)
    unlisted: pl.DataFrame = field(default_factory=_no_sessions)


def compare(
    runs: pl.DataFrame,
    audits: pl.DataFrame,
    question: Question,
    now: datetime,
    as_of: datetime | None = None,
    *,
    watches: bool = True,
) -> Comparison:
    """Compare the models of a time range.

    Args:
        runs: RUNS from ``question.watched_since`` to ``question.until``.
        audits: AUDITS.
        question: What to compare.
        now: Time of the comparison.
        as_of: The past time of the scores.
        watches: Look for models that got worse.
    """
    asked = runs.filter(*_conditions(question))
    scored = asked.filter(pl.col("score").is_not_null())
    within = pl.col("started_at").is_between(question.since, question.until, closed="left")
    current = stratified(scored.filter(within), question.within)
    models, pairs = (
        model_rows(current, question.min_runs),
        pair_rows(current, Limits(question.min_runs, question.margin), alone=question.alone),
    )
    _rank(models, pairs)
    judge_money(models, pairs, question.margin, alone=question.alone)
    for _, group in groupby(models, lambda row: [row[name] for name in GROUP]):
        mark_frontier(list(group))
    correct(models, current, audits)
    regressions = regression_rows(scored, question.until) if watches else []
    span: Row = {"since": question.since, "until": question.until, "computed_at": now}
    return Comparison(
        question,
        now,
        asked.filter(within),
        _table(models, span, MODEL_COMPARISON),
        _table(pairs, span, MODEL_COMPARISON_PAIRS),
        _table(regressions, span, MODEL_REGRESSIONS),
        as_of,
    )


def stratified(runs: pl.DataFrame, within: str | None) -> pl.DataFrame:
    """Return the runs with task classes of their own in each value of a column."""
    if within is None:
        return runs
    parts = (pl.col(name).fill_null("unknown") for name in ("task_class", within))
    return runs.with_columns(task_class=pl.concat_str(*parts, separator="\0"))


def _conditions(question: Question) -> list[pl.Expr]:
    wanted = {
        "classification_label": question.label,
        "profile_id": question.profile,
        "organization_id": question.organization,
    }
    found = [pl.col(name) == value for name, value in wanted.items() if value is not None]
    return [*found, pl.col("started_at") < pl.lit(question.until).cast(UTC_TIME)]


def _rank(models: list[Row], pairs: list[Row]) -> None:
    """Set the rank: one more than the number of models that are shown to be better.

    Models between which nothing is decided share a rank; one that too few people used has none.
    """
    beaten: dict[tuple[object, ...], int] = {}
    for pair in pairs:
        loser = {A_BETTER: "b", B_BETTER: "a"}.get(pair["verdict"])
        if loser is not None:
            group = (pair[name] for name in GROUP)
            key = (*group, *(pair[f"{name}_{loser}"] for name in MODEL))
            beaten[key] = beaten.get(key, 0) + 1
    for row in models:
        key = tuple(row[name] for name in (*GROUP, *MODEL))
        row["rank"] = 1 + beaten.get(key, 0) if _can_be_ranked(row) else None


def _can_be_ranked(row: Row) -> bool:
    return row["state"] == "ranked" and not has_few_people(row)


def _table(rows: list[Row], span: Row, table: Table) -> pl.DataFrame:
    names = table.schema.names()
    whole = [{name: value for name, value in (row | span).items() if name in names} for row in rows]
    return (
        pl.DataFrame(whole, schema=table.schema, orient="row")
        .select(names)
        .sort(table.order, nulls_last=False)
    )
