"""The outcomes of a session in a row: columns of the relation of sessions."""

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY

COLUMNS = pl.Schema(
    {
        "commit": pl.Boolean,
        "merged": pl.Boolean,
        "reverted": pl.Boolean,
        "survival_7d": pl.Float64,
        "tests_after_last_edit": pl.String,
        "outcome": pl.String,
    }
)
_TESTS = "tests_after_last_edit"

TRACKED_DAYS = 90
"""Age of sessions whose commits are asked about: until then they may still be merged."""

_ONE = (*SESSION_KEY, "kind", "reference")
CONTRADICTED = (pl.col("value").min().over(_ONE) < pl.col("value").max().over(_ONE)).fill_null(
    value=False
)
"""Sources contradict about the reference of a row of ``session_outcomes``: nothing is known."""


def by_session(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Return SESSION_KEY and COLUMNS of the sessions with outcomes.

    One of several commits is enough for ``merged`` and ``reverted``. ``survival_7d`` is the mean by
    lines. If sources contradict about one reference, it is left out. ``outcome`` is all in words,
    such as "1 of 3 reverted".

    Args:
        outcomes: Rows of ``session_outcomes``.
    """
    rows = outcomes.filter(pl.col("kind").is_in(COLUMNS.names()), ~CONTRADICTED)
    value, lines = pl.col("value"), pl.col("lines").fill_null(1)
    tests = pl.when(value == 1).then(pl.lit("passed")).when(value == 0).then(pl.lit("failed"))

    def of(kind: str, what: pl.Expr) -> pl.Expr:
        return what.filter(pl.col("kind") == kind)

    def counted(kind: str) -> pl.Expr:
        """Return the kind, with numbers if it happened to some of several commits."""
        commits = pl.col("reference").filter
        found = commits(pl.col("kind") == kind, value == 1).n_unique()
        every = commits(pl.col("kind") == kind, value.is_not_null()).n_unique()
        in_part = pl.format("{} of {} " + kind, found, every)
        word = pl.when(found < every).then(in_part).otherwise(pl.lit(kind))
        return pl.when(found > 0).then(word)

    survival = of("survival_7d", value * lines).sum()
    survived_of = of("survival_7d", lines * value.is_not_null()).sum()
    return (
        rows.sort("source")
        .group_by(SESSION_KEY)
        .agg(
            of("commit", value).max().cast(pl.Boolean).alias("commit"),
            of("merged", value).max().cast(pl.Boolean).alias("merged"),
            of("reverted", value).max().cast(pl.Boolean).alias("reverted"),
            pl.when(survived_of > 0).then(survival / survived_of).alias("survival_7d"),
            counted("reverted").alias("_reverted"),
            counted("merged").alias("_merged"),
            of(_TESTS, tests.otherwise(pl.lit("none"))).first().alias(_TESTS),
        )
        .with_columns(_IN_WORDS.alias("outcome"))
        .cast(COLUMNS)
        .select(*SESSION_KEY, *COLUMNS)
    )


_HAPPENED = pl.coalesce(
    "_reverted",
    "_merged",
    pl.when(~pl.col("merged")).then(pl.lit("not merged")),
    pl.when("commit").then(pl.lit("committed")),
)
_SHARE = pl.col("survival_7d")
_PERCENT = (100 * _SHARE).round()
# 0 and 100 are of none and all.
_PARTLY = pl.when((_SHARE > 0) & (_SHARE < 1)).then(_PERCENT.clip(1, 99)).otherwise(_PERCENT)
_ALIVE = pl.format("{}% alive", _PARTLY.cast(pl.Int64))
_IN_WORDS = pl.concat_str(
    _HAPPENED, _ALIVE, pl.format("tests: {}", _TESTS), separator=", ", ignore_nulls=True
).replace("", None)
