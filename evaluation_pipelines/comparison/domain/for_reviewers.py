"""A comparison as reviewers see it: without what it says of single sessions that wait for them."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.scorecards.domain.withheld import SessionKey

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
    schema = dict.fromkeys(SESSION_KEY, pl.String())
    keys = pl.DataFrame(sorted(waiting), schema, orient="row")
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
