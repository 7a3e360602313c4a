"""Coverage of a comparison: the place of every session, and the worst sessions."""

from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.models import state_of
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.schemas import SESSION_KEY

WORST = 10


@dataclass(frozen=True, slots=True)
class CoverageLine:
    """Number of sessions with the same place and reason, with the key of one of them."""

    what: str
    why: str
    sessions: int
    example_organization_id: str
    example: str

    def example_key(self) -> dict[str, str]:
        """Return the key of the example by column."""
        return {"organization_id": self.example_organization_id, "session_key": self.example}


def coverage(comparison: Comparison) -> list[CoverageLine]:
    """Return every session window of the time range in exactly one line, ranked ones first."""
    lines = (
        places(comparison)
        .group_by("what", "why")
        .agg(
            pl.len().alias("sessions"),
            pl.col(SESSION_KEY).sort_by("session_key", "organization_id").first(),
        )
        .sort(pl.col("what") != _RANKED, -pl.col("sessions").cast(pl.Int64), "what", "why")
    )
    return [CoverageLine(*row) for row in lines.iter_rows()]


def places(comparison: Comparison) -> pl.DataFrame:
    """Return all RUNS with ``what`` became of each, as CoverageLine has it, and ``why``."""
    keys = [*GROUP, *MODEL]
    states = comparison.models.select(*keys, "state")
    return comparison.runs.join(states, on=keys, how="left", nulls_equal=True).with_columns(
        what=_what(), why=_why(comparison.question.min_runs)
    )


_RANKED = "ranked"


def _what() -> pl.Expr:
    return (
        pl.when(pl.col("score").is_null())
        .then(pl.lit("no score"))
        .when("is_disqualified")
        .then(pl.lit("disqualified"))
        .otherwise("state")
    )


def _why(min_runs: int) -> pl.Expr:
    texts = {
        _RANKED: "in the ranking",
        "insufficient": f"the model has fewer than {min_runs} sessions that are scored alike",
        "mixed": "several models, or variants of one, share the output: outside the ranking",
        state_of(None, 0, 0): "the model is missing in the telemetry: outside the ranking",
    }
    return (
        pl.when(pl.col("score").is_null())
        .then(pl.col("reason").fill_null("nothing to score"))
        .when("is_disqualified")
        .then(pl.lit("a disqualifier was found: counted apart, in no average"))
        .otherwise(pl.col("state").replace_strict(texts, default=None, return_dtype=pl.String))
    )


def worst_sessions(comparison: Comparison, number: int = WORST) -> pl.DataFrame:
    """Return the RUNS with the lowest scores, the newest first among equals."""
    listed = comparison.runs.join(comparison.unlisted, on=SESSION_KEY, how="anti")
    scored = listed.filter(pl.col("score").is_not_null())
    return scored.sort("score", "started_at", "session_key", descending=[False, True, False]).head(
        number
    )
