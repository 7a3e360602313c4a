"""Charts of the report: distribution of the scores, and their means over time."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl

from evaluation_pipelines.comparison.domain.findings import Finding, name_of
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.formatting import points
from evaluation_pipelines.reporting.domain.comparison_report.drawing import (
    INK,
    LINE,
    MUTED,
    WIDTH,
    color,
    dot,
    line,
    shortened,
    svg,
    text,
)
from evaluation_pipelines.reporting.domain.comparison_report.line_chart import (
    Axis,
    Curve,
    Place,
    line_chart,
)

_BINS = 25
_STEPS = 14
SMALLEST_STEP = 3
"""Means of fewer runs are not drawn, since they vary too much."""


def runs_in(finding: Finding, runs: pl.DataFrame, row: Row) -> pl.DataFrame:
    """Return the runs that the averages of one model of a finding are made from."""
    keys = dict(zip(GROUP, finding.group, strict=True)) | {name: row[name] for name in MODEL}
    same = [pl.col(name).eq_missing(pl.lit(value)) for name, value in keys.items()]
    return runs.filter(*same, pl.col("score").is_not_null(), ~pl.col("is_disqualified"))


def distributions(finding: Finding, runs: pl.DataFrame, numbers: dict[str, int]) -> str:
    """Return a histogram of the scores of each ranked model, with the mean marked."""
    left, right, step = 215.0, WIDTH - 20.0, 68.0
    rows = finding.ranked
    bottom = 8 + step * len(rows)
    width = (right - left) / _BINS
    body = []
    for place, row in enumerate(rows):
        base = 8 + step * (place + 1) - 6
        scores = runs_in(finding, runs, row)["score"].to_list()
        counts = [0] * _BINS
        for score in scores:
            counts[min(int(score / 100 * _BINS), _BINS - 1)] += 1
        fill = color(numbers[name_of(row)])
        for at, count in enumerate(counts):
            if count:
                height = count / max(counts) * (step - 16)
                body.append(
                    f'<rect x="{left + at * width + 0.5:.1f}" y="{base - height:.1f}" '
                    f'width="{width - 1:.1f}" height="{height:.1f}" fill="{fill}">'
                    f"<title>{count} sessions with {at * 4} to {at * 4 + 4} points</title></rect>"
                )
        mean = left + row["avg_score"] / 100 * (right - left)
        body += [
            line((left, base), (right, base), LINE),
            line((mean, base - step + 12), (mean, base), INK, 'stroke-width="2"'),
            text(left - 10, base - 24, shortened(name_of(row), 24), "end"),
            text(
                left - 10,
                base - 6,
                f"{row['runs']} runs, mean {points(row['avg_score'])}",
                "end",
                MUTED,
            ),
        ]
    body += [
        text(left + share * (right - left), bottom + 14, f"{share * 100:.0f}", fill=MUTED)
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    return svg(bottom + 22, body, "How the scores of each model are spread", "distributions")


def trend(
    finding: Finding, runs: pl.DataFrame, span: tuple[datetime, datetime], numbers: dict[str, int]
) -> str | None:
    """Return mean scores of each ranked model over time, in up to 14 steps of whole days."""
    since, until = span
    days = max((until - since).days, 1)
    length = timedelta(days=-(-days // _STEPS))
    rows = {name_of(row): row for row in finding.ranked}
    curves = [
        Curve(_steps(name, runs_in(finding, runs, row), since, length), numbers[name])
        for name, row in rows.items()
    ]
    title, legend = "Mean scores over time, by model", _legend(list(rows), numbers)
    return line_chart(title, curves, Axis(values=()), span, legend=legend)


def _steps(name: str, runs: pl.DataFrame, since: datetime, length: timedelta) -> list[Place]:
    """Return the mean of each step with enough runs, in the middle of the step."""
    gone = (pl.col("started_at") - pl.lit(since)).dt.total_microseconds()
    number = gone // (length // timedelta(microseconds=1))
    steps = (
        runs.group_by(step=number)
        .agg(mean=pl.col("score").mean(), number=pl.len())
        .filter(pl.col("number") >= SMALLEST_STEP)
        .sort("step")
    )
    return [
        Place(since + length * (step + 0.5), mean, f"{name}: {count} sessions")
        for step, mean, count in steps.iter_rows()
    ]


def _legend(names: Sequence[str], numbers: dict[str, int]) -> list[str]:
    """Return a legend: names with their colors, as many per line as fit."""
    step = max((WIDTH - 60) / len(names), 130)
    room = int(step / 9)
    return [
        part
        for place, name in enumerate(names[: int((WIDTH - 60) / step)])
        for part in (
            dot(56 + place * step, 12, color(numbers[name]), 5),
            text(66 + place * step, 17, shortened(name, room), "start"),
        )
    ]
