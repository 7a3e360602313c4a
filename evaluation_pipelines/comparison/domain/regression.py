"""Regression watch: does a model score lower than before?"""

from datetime import datetime, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.arms import arms_of
from evaluation_pipelines.comparison.domain.differences import difference
from evaluation_pipelines.comparison.domain.models import Row, counted, parts, state_of
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.comparison.domain.verdicts import ALPHA, holm

RECENT = timedelta(days=7)
BEFORE = timedelta(days=28)
SMALLEST_SIDE = 20
ALERT_POINTS = 3.0
"""3 % of the scale: a smaller drop is no alarm, however certain."""


def regression_rows(runs: pl.DataFrame, until: datetime) -> list[Row]:
    """Return the rows of ``model_regressions``, without ``computed_at``.

    Args:
        runs: RUNS with a score, from 35 days before ``until`` on.
        until: End of the last 7 days.
    """
    rows = [
        _row(dict(zip((*GROUP, *MODEL), key, strict=True)), counted(part), until)
        for key, part in parts(runs)
        if state_of(key[len(GROUP)], part.height, 0) == "ranked"
    ]
    for label in {row["classification_label"] for row in rows}:
        family = [row for row in rows if row["classification_label"] == label]
        for row, corrected in zip(family, holm([row["p"] for row in family]), strict=True):
            row["p_holm"] = corrected
            row["state"] = _state(row)
    return rows


def _row(key: Row, used: pl.DataFrame, until: datetime) -> Row:
    start = pl.col("started_at")
    recent = used.filter(start >= until - RECENT, start < until)
    before = used.filter(start >= until - RECENT - BEFORE, start < until - RECENT)
    row: dict[str, Any] = {
        **key,
        "recent_runs": recent.height,
        "before_runs": before.height,
        "recent_score": recent["score"].mean(),
        "before_score": before["score"].mean(),
    }
    figures = ("change", "change_low", "change_high", "p", "clustered_by")
    row |= dict.fromkeys(figures)
    if min(recent.height, before.height) < SMALLEST_SIDE:
        return row
    arms = arms_of([recent, before])
    if min(len(side.known_people) for side in arms.sides) < 2:
        # Of a single person, only sessions and days can tell chance from change.
        alone = [side.with_columns(person=pl.lit(None, pl.String)) for side in (recent, before)]
        arms = arms_of(alone)
    found = difference(*arms.sides)
    values = (found.value, found.low, found.high, found.p, arms.clustered_by)
    return row | dict(zip(figures, values, strict=True))


def _state(row: Row) -> str:
    if row["change"] is None:
        return "insufficient"
    if row["p_holm"] is None or row["p_holm"] >= ALPHA:
        return "steady"
    if row["change"] > 0:
        return "higher"
    return "alert" if row["change"] <= -ALERT_POINTS else "lower"
