"""What the user interface shows of a table: its columns, rows and pictures."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg
import polars as pl

from evaluation_pipelines.reporting.domain.charts import bars_svg, histogram_svg
from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.reporting.domain.reconciliation.states import STATES
from evaluation_pipelines.schemas import (
    EVALUATION_BOOKS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.schemas.checks import CheckResult
from evaluation_pipelines.scorecards.domain.evaluation import GREEN_FROM, PASSES_FROM
from evaluation_pipelines.storage.daily_table import BuiltPartition

PREVIEW_ROWS = 8
CELL_LETTERS = 18
"""A longer text would be broken into many lines in the narrow tables of the interface."""
_TEXT_LETTERS = 400
"""Of tables that explain: they have few columns."""


def column_schema(table: Table) -> dg.TableSchema:
    """Columns with types and descriptions."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(each.name, str(each.dtype), each.description) for each in table.columns
        ]
    )


def partition_metadata(
    made: BuiltPartition, preview: Sequence[str], path: Path
) -> dict[str, dg.MetadataValue]:
    """Row count, place, preview, what was counted, and a chart where the table has scores."""
    shown = made.frame.select(preview).head(PREVIEW_ROWS)
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(made.row_count),
        **{name: dg.MetadataValue.int(number) for name, number in made.facts.items()},
        **_pictures(made),
        **explaining_tables(made),
        "preview": frame_metadata(shown),
        "path": dg.MetadataValue.path(str(path)),
    }


def explaining_tables(made: BuiltPartition) -> dict[str, dg.MetadataValue]:
    """The small tables that explain a partition, with all their text."""
    return {
        name: dg.MetadataValue.md(markdown_table(frame.columns, frame.rows(), _TEXT_LETTERS))
        for name, frame in made.shown.items()
    }


def frame_metadata(frame: pl.DataFrame) -> dg.MetadataValue:
    """The rows of a small frame as a table."""
    floats = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
    rows = frame.with_columns(pl.col(floats).round(3)).rows()
    return dg.MetadataValue.md(markdown_table(frame.columns, rows, CELL_LETTERS))


def distribution(
    values: Sequence[float],
    label: str,
    limits: tuple[float, float],
    marks: Mapping[str, float],
    text: str,
) -> dg.MetadataValue:
    """A histogram as a picture, with the numbers as text."""
    return picture(histogram_svg(values, label, limits, marks), text)


def picture(svg: str, text: str) -> dg.MetadataValue:
    """A picture, with what it shows as text below."""
    encoded = base64.b64encode(svg.encode()).decode()
    return dg.MetadataValue.md(f"![{text}](data:image/svg+xml;base64,{encoded})\n\n{text}")


def rule_metadata(results: Sequence[tuple[str, CheckResult]]) -> dict[str, dg.MetadataValue]:
    """Expected, found and examples of one rule over the dates of a run; broken dates are shown."""
    broken = [(day, each) for day, each in results if not each.passed]
    day, shown = (broken or results)[-1]
    metadata: dict[str, dg.MetadataValue] = {
        "dates_checked": dg.MetadataValue.int(len(results)),
        "dates_broken": dg.MetadataValue.int(len(broken)),
        "date": dg.MetadataValue.text(day),
        "expected": dg.MetadataValue.text(shown.expected),
        "found": dg.MetadataValue.text(shown.found),
    }
    if shown.examples:
        metadata["examples"] = dg.MetadataValue.text("\n".join(shown.examples))
    if len(broken) > 1:
        rows = [(day, each.found, "; ".join(each.examples)) for day, each in broken]
        table = markdown_table(("date", "found", "examples"), rows)
        metadata["all_broken_dates"] = dg.MetadataValue.md(table)
    return metadata


def _pictures(made: BuiltPartition) -> dict[str, dg.MetadataValue]:
    """Distribution of the scores of a date, for the tables that people open for that."""
    if made.table is SESSION_PERFORMANCE:
        marks = {"review": 4.0, "keep": 7.0}
        return {"composites": _distribution(made.frame["composite"], "composite", 10, marks)}
    if made.table is SESSION_EVALUATIONS:
        marks = {"passes": float(PASSES_FROM), "green": float(GREEN_FROM)}
        scores = made.frame["effective_100"]
        return {"effective scores": _distribution(scores, "effective score", 100, marks)}
    if made.table is EVALUATION_BOOKS:
        return {"sessions by state": _states(made.frame["state"])}
    return {}


def _states(states: pl.Series) -> dg.MetadataValue:
    """How many sessions are in which state, as bars; states without any are left out."""
    counted = Counter(states)
    rows = [(state, counted[state]) for state in STATES if counted[state]]
    told = ", ".join(f"{number} {state}" for state, number in rows) or "no session"
    return picture(bars_svg(rows, f"sessions, n = {len(states)}"), told)


def _distribution(
    scores: pl.Series, name: str, highest: float, marks: Mapping[str, float]
) -> dg.MetadataValue:
    """Distribution of the scores of a date as a picture, with the numbers as text."""
    known = scores.drop_nulls().to_list()
    article = "an" if name[0] in "aeiou" else "a"
    text = f"{len(known)} of {len(scores)} sessions have {article} {name}"
    return distribution(known, name, (0, highest), marks, text)
