"""Table of the masque lift."""

import polars as pl

from evaluation_pipelines.schemas.table import Column, Table, columns

LIFT_MEASURES = {
    "composite": "composite, 0-10",
    "failure_rate": "share of tool calls that failed, 0-1",
    "cost_usd": "cost, USD",
    "active_s": "active time, seconds",
}
"""Measure of the lift -> its meaning."""


def _of(measure: str, meaning: str) -> tuple[Column, ...]:
    return columns(
        (f"{measure}_sessions", pl.Int64, f"clean sessions of which it is known: {meaning}"),
        (f"{measure}_baseline_sessions", pl.Int64, "baseline sessions of which it is known"),
        (f"{measure}_people", pl.Int64, "people compared: with both, else those of fewer people"),
        (f"{measure}_mean", pl.Float64, f"mean of people's means in clean sessions: {meaning}"),
        (f"{measure}_baseline_mean", pl.Float64, "mean of people's means in baseline sessions"),
        (f"{measure}_difference", pl.Float64, "mean - baseline mean; observed, not caused"),
        (f"{measure}_low", pl.Float64, "lower end of the 95% interval of the difference"),
        (f"{measure}_high", pl.Float64, "upper end of it"),
        (
            f"{measure}_state",
            pl.String,
            "shown, 'no spread', or of the smaller side 'not yet: n of 5' or 'too few people: ...'",
        ),
    )


MASQUE_LIFT = Table(
    name="masque_lift",
    grain="one row per masque and kind of task: its clean sessions against the baseline",
    key=("organization_id", "masque", "task_class"),
    order=("organization_id", "masque", "task_class"),
    columns=(
        *columns(
            ("organization_id", pl.String, "organization"),
            ("masque", pl.String, "persona worn"),
            ("task_class", pl.String, "kind of task by the tool mix alone"),
            ("sessions", pl.Int64, "ended clean sessions of this masque and kind of task"),
            ("baseline_sessions", pl.Int64, "ended baseline sessions of this kind of task"),
            ("first_date", pl.Date, "first session date of either side"),
            ("last_date", pl.Date, "last session date of either side"),
            ("clustered_by", pl.String, "person, or session and day where persons are unknown"),
        ),
        *(column for each in LIFT_MEASURES.items() for column in _of(*each)),
    ),
)
