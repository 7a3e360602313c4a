"""The section of a page about a judge change: its picture and its table."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import points, signed
from evaluation_pipelines.judge_changes.domain.judge_change import (
    DAYS,
    STRATUM,
    JudgeChange,
    headline,
    judges_line,
    sentences,
    title,
)
from evaluation_pipelines.reporting.domain.charts import (
    Axis,
    Curve,
    Place,
    color_legend,
    line_chart,
    score_ends,
)

_FEWEST_POINTS = 10.0
"""The axis spans at least this many points."""

_FORMER, _NEW = 1, 0


def before_and_after(found: JudgeChange) -> str | None:
    """Return the picture; ``None`` if no period before or after has enough scores.

    Scores before are drawn again on the scale of the new judge, with the interval of its part.
    """
    row, is_past = found.row, pl.col("middle") < 0
    begun = row["changed_on"] or row["computed_at"].date() + timedelta(days=1)
    start, length = datetime.combine(begun, time(), UTC), timedelta(days=DAYS)
    former, new = found.means.filter(is_past), found.means.filter(~is_past)

    def places(means: pl.DataFrame, by: str, shift: float = 0.0) -> list[Place]:
        return [
            Place(
                start + timedelta(days=middle),
                mean + shift,
                f"{points(mean + shift)} points, {sessions} sessions, {by}",
            )
            for middle, mean, sessions in means.iter_rows()
        ]

    curves = [
        Curve(places(former, "previous judge"), _FORMER),
        Curve(places(new, "new judge"), _NEW),
    ]
    ends = list[float]()
    if row["trend"] == "bridged":
        shift, low, high = (row[f"judges_part{end}"] for end in ("", "_low", "_high"))
        adjusted, band = places(former, "adjusted", shift), (low - shift, high - shift)
        curves.append(Curve(adjusted, _NEW, is_dashed=True, band=band))
        ends = [each.value + end for each in adjusted for end in band]
    means = found.means["mean"].to_list()
    return line_chart(
        "Mean scores before and after a change of the judge",
        curves,
        Axis(values=[*ends, *score_ends(means, _FEWEST_POINTS)]),
        (start - length, start + length if row["changed_on"] else start),
        [start] if row["changed_on"] else [],
        color_legend(
            ["previous judge", "new judge"], {"previous judge": _FORMER, "new judge": _NEW}
        ),
    )


STRATUM_HEADINGS = (
    *("Label", "Model", "Sessions #", "Anchors #"),
    *("Previous judge #", "New judge #", "Difference #"),
)


def stratum_rows(found: JudgeChange) -> list[tuple[str, ...]]:
    """Return sessions, anchors and mean scores by label and model, as texts."""
    is_scored = pl.col("difference").is_not_null()
    strata = (
        found.anchors.filter(pl.col("replaced_because").is_null())
        .group_by(STRATUM, maintain_order=True)
        .agg(
            pl.col("stratum_sessions").first(),
            pl.len(),
            pl.col("former_score", "new_score", "difference").filter(is_scored).mean(),
        )
    )
    return [
        (
            label,
            model or "unknown",
            f"{sessions}",
            f"{number}",
            points(former),
            points(new),
            signed(by),
        )
        for label, model, sessions, number, former, new, by in strata.iter_rows()
    ]


def change_content(found: JudgeChange) -> dict[str, Any]:
    """Return the values of the template of one change by name; texts are not escaped yet."""
    return {
        "title": title(found.change),
        "judges": judges_line(found.change),
        "headline": headline(found.row),
        "sentences": sentences(found),
        "is_bridged": found.row["trend"] == "bridged",
        "picture": before_and_after(found),
        "headings": STRATUM_HEADINGS,
        "strata": stratum_rows(found),
    }
