"""Comparison of the models of a time range: rows, pairs, place of each session, and its checks."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby

import polars as pl

from evaluation_pipelines.comparison.domain.audits import correct
from evaluation_pipelines.comparison.domain.groups import BY_MODEL, Grouping
from evaluation_pipelines.comparison.domain.models import (
    Row,
    group_of,
    has_few_people,
    mark_frontier,
    model_of,
    model_rows,
    name_of,
    state_of,
)
from evaluation_pipelines.comparison.domain.money import judge_money
from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER, Limits, pair_rows
from evaluation_pipelines.comparison.domain.regressions import HISTORY, regression_rows
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL, MODELS, Nouns
from evaluation_pipelines.comparison.domain.verdicts import RELEVANT_POINTS
from evaluation_pipelines.formatting import listed, signed
from evaluation_pipelines.schemas import (
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    SCORECARDS,
    SESSION_KEY,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult, keys_are_unique
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter

MIN_RUNS = 30


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
        margin: Points that a cheaper model may score less and still be as good value.
        within: Column of RUNS in whose values models are compared, in addition to task classes.
        nouns: Words for models and sessions.
        by: What takes the place of models, if it is something else.
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
    nouns: Nouns = MODELS
    by: Grouping = BY_MODEL

    @property
    def watched_since(self) -> datetime:
        """Start of the runs that are needed: the watch of models looks back four months."""
        return min(self.since, self.until - HISTORY) if self.by.compares_models else self.since


_KEYS = pl.Schema(dict.fromkeys(SESSION_KEY, pl.String()))


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
    unlisted: pl.DataFrame = field(default_factory=_KEYS.to_frame)


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
    asked = asked_runs(runs, question)
    scored = asked.filter(pl.col("score").is_not_null())
    within = pl.col("started_at").is_between(question.since, question.until, closed="left")
    current = stratified(scored.filter(within), question.within)
    models = model_rows(current, question.min_runs)
    limits = Limits(question.min_runs, question.margin, question.nouns)
    pairs = pair_rows(current, limits, alone=question.alone)
    _rank(models, pairs)
    judge_money(models, pairs, question.margin, alone=question.alone)
    for _, group in groupby(models, group_of):
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


def asked_runs(runs: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Return the RUNS of the asked label, profile and organization, before the end."""
    wanted = {
        "classification_label": question.label,
        "profile_id": question.profile,
        "organization_id": question.organization,
    }
    found = [pl.col(name) == value for name, value in wanted.items() if value is not None]
    return runs.filter(*found, pl.col("started_at") < pl.lit(question.until).cast(UTC_TIME))


def _rank(models: list[Row], pairs: list[Row]) -> None:
    """Set the rank: one more than the number of models that are shown to be better.

    Models between which nothing is decided share a rank; one that too few people used has none.
    """
    beaten = Counter(
        (group_of(pair), model_of(pair, loser))
        for pair in pairs
        if (loser := {A_BETTER: "_b", B_BETTER: "_a"}.get(pair["verdict"])) is not None
    )
    for row in models:
        has_rank = row["state"] == "ranked" and not has_few_people(row)
        row["rank"] = 1 + beaten[group_of(row), model_of(row)] if has_rank else None


def _table(rows: list[Row], span: Row, table: Table) -> pl.DataFrame:
    names = table.schema.names()
    whole = [{name: value for name, value in (row | span).items() if name in names} for row in rows]
    return (
        pl.DataFrame(whole, schema=table.schema, orient="row")
        .select(names)
        .sort(table.order, nulls_last=False)
    )


_SCORES: Mapping[str, Collection[str]] = {
    "runs": (
        *("avg_effective_score", "avg_score", "avg_score_low", "avg_score_high", "score_sd"),
        *("pass_rate", "pass_rate_low", "pass_rate_high"),
        *("score_per_dollar", "score_per_dollar_low", "score_per_dollar_high"),
        *("corrected_score", "corrected_score_low", "corrected_score_high", "naive_score"),
        *("corrected_score_lowest", "corrected_score_highest"),
    ),
    "people_runs": ("people_score",),
}
"""Number of sessions -> columns of MODEL_COMPARISON that tell the score of one, if it is 1."""


def for_reviewer(comparison: Comparison, waiting: Collection[SessionKey]) -> Comparison:
    """Return a comparison without the scores of the sessions that wait for a blind review.

    They are not among the worst sessions, and the score of a model with one such session is null.
    Other means keep them: in a small team they are a fifth of the sessions, without which many
    models would fall below the number that a comparison takes. Who works the score of one out of a
    mean does so on purpose, and has an easier way: to look at it, which leaves it to others.
    """
    if not waiting:
        return comparison
    keys = pl.DataFrame(sorted(waiting), _KEYS, orient="row")
    awaited = comparison.runs.join(keys, on=SESSION_KEY, how="semi")
    if awaited.is_empty():
        return comparison
    names = pl.element().is_in(awaited["session_key"].to_list())
    worst = pl.col("worst_sessions").list.eval(pl.element().filter(~names))
    return replace(
        comparison,
        models=_without_single(comparison.models, awaited),
        regressions=comparison.regressions.with_columns(worst),
        unlisted=keys,
    )


def _without_single(models: pl.DataFrame, awaited: pl.DataFrame) -> pl.DataFrame:
    subject = [*GROUP, *MODEL]
    marked = models.join(
        awaited.select(subject).unique().with_columns(_waits=pl.lit(value=True)),
        on=subject,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    waits = pl.col("_waits").fill_null(value=False)
    shown = [
        pl.when(~(waits & (pl.col(number) == 1))).then(name).alias(name)
        for number, names in _SCORES.items()
        for name in names
    ]
    return marked.with_columns(shown).drop("_waits")


WORST = 10


def coverage(comparison: Comparison) -> list[Row]:
    """Return every session window of the time range in exactly one row, ranked ones first.

    ``what`` and ``why`` as in ``places``, the number of ``sessions``, and SESSION_KEY of one.
    """
    return (
        places(comparison)
        .group_by("what", "why")
        .agg(
            pl.len().alias("sessions"),
            pl.col(SESSION_KEY).sort_by("session_key", "organization_id").first(),
        )
        .sort(pl.col("what") != _RANKED, -pl.col("sessions").cast(pl.Int64), "what", "why")
        .rows(named=True)
    )


def places(comparison: Comparison) -> pl.DataFrame:
    """Return all RUNS with the outcome ``what`` of each, the state of its model, and ``why``."""
    keys, question, nouns = [*GROUP, *MODEL], comparison.question, comparison.question.nouns
    states = comparison.models.select(*keys, "state")
    texts = {
        _RANKED: "in the ranking",
        "insufficient": f"the {nouns.model} has fewer than {question.min_runs} {nouns.sessions} "
        "that are comparable",
        "mixed": f"several {nouns.models}, or variants of one, share the output: outside the "
        "ranking",
        state_of(None, 0, 0): f"the {nouns.model} is missing in the telemetry: outside the ranking",
    }
    of_state = pl.col("state").replace_strict(texts, default=None, return_dtype=pl.String)
    is_unscored = pl.col("score").is_null()
    why = pl.lit("a disqualifier was found: in no average")
    return comparison.runs.join(states, on=keys, how="left", nulls_equal=True).with_columns(
        what=pl.when(is_unscored)
        .then(pl.lit("no score"))
        .when("is_disqualified")
        .then(pl.lit("disqualified"))
        .otherwise("state"),
        why=pl.when(is_unscored)
        .then(pl.col("reason").fill_null("nothing to score"))
        .when("is_disqualified")
        .then(why)
        .otherwise(of_state),
    )


_RANKED = "ranked"


def worst_sessions(comparison: Comparison) -> pl.DataFrame:
    """Return the RUNS with the lowest scores, the newest first among equals."""
    listed = comparison.runs.join(comparison.unlisted, on=SESSION_KEY, how="anti")
    scored = listed.filter(pl.col("score").is_not_null())
    order = ("score", "started_at", "session_key")
    return scored.sort(order, descending=[False, True, False]).head(WORST)


_ROUNDING = 1e-6


def models_and_pairs_stand_once(found: Comparison) -> CheckResult:
    """No model has two rows in a group, and no pair either."""
    models = keys_are_unique(found.models, MODEL_COMPARISON)
    pairs = keys_are_unique(found.pairs, MODEL_COMPARISON_PAIRS)
    broken = pairs if models.passed else models
    return replace(broken, table=MODEL_COMPARISON.name, rule="models_and_pairs_stand_once")


def figures_lie_in_their_intervals(found: Comparison) -> CheckResult:
    """Every figure lies between the ends of its interval, and every mean score in 0-100."""
    names = [
        name
        for name in found.models.columns
        if f"{name}_low" in found.models.columns and name != "corrected_score"
    ]
    outside = pl.any_horizontal(
        (pl.col(name) < pl.col(f"{name}_low") - _ROUNDING)
        | (pl.col(name) > pl.col(f"{name}_high") + _ROUNDING)
        for name in names
    ) | ~pl.col("avg_score").is_between(0, 100)
    wrong = found.models.filter(outside).rows(named=True)
    return CheckResult(
        rule="figures_lie_in_their_intervals",
        table=MODEL_COMPARISON.name,
        severity="error",
        passed=not wrong,
        expected="every figure between the ends of its interval",
        found=f"{len(wrong):,} rows with a figure outside",
        examples=tuple(name_of(row) for row in wrong[:EXAMPLES]),
    )


def every_session_is_accounted_for(found: Comparison) -> CheckResult:
    """Runs, disqualified and unscored sessions add up to all sessions of the time range."""
    counted = int(found.models.select(pl.sum("runs") + pl.sum("disqualified")).item())
    unscored = sum(row["sessions"] for row in coverage(found) if row["what"] == "no score")
    return CheckResult(
        rule="every_session_is_accounted_for",
        table=MODEL_COMPARISON.name,
        severity="error",
        passed=counted + unscored == found.runs.height,
        expected=f"{found.runs.height:,} session windows",
        found=f"{counted:,} in rows and {unscored:,} without a score",
        examples=(),
    )


def no_model_got_worse(found: Comparison) -> CheckResult:
    """The regression watch has no alert."""
    alerts = found.regressions.filter(pl.col("state") == "alert").rows(named=True)
    named = [f"{name_of(row)} ({row['classification_label']})" for row in alerts]
    return CheckResult(
        rule="no_model_got_worse",
        table="model_regressions",
        severity="warning",
        passed=not alerts,
        expected="no model at least 3 points below what the previous 90 days predict",
        found=f"{listed(named)} got worse" if alerts else "none",
        examples=tuple(
            f"{name}: {signed(row['change'])} points since {row['window_since']:%Y-%m-%d}"
            for name, row in zip(named, alerts, strict=True)
        ),
    )


CHECKS = (
    models_and_pairs_stand_once,
    figures_lie_in_their_intervals,
    every_session_is_accounted_for,
    no_model_got_worse,
)
