"""What the user interface shows of a table: its columns, rows and pictures."""

import base64
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import polars as pl

from evaluation_pipelines.domain.charts import histogram_svg
from evaluation_pipelines.domain.markdown import markdown_table
from evaluation_pipelines.domain.quality import RuleResult
from evaluation_pipelines.domain.schemas import Table
from evaluation_pipelines.stages.daily_tables import Made

PREVIEW_ROWS = 8
CELL_LETTERS = 18
"""A longer text would be broken into many lines in the narrow tables of the interface."""

_PREVIEWS = {
    "agent_events": ("session_id", "event_time", "event_name", "tool_name", "success", "model"),
    "agent_sessions": (
        "session_key",
        "source_cli",
        "model",
        "status",
        "total_tools",
        "tools_failed",
        "cost_usd",
    ),
    "session_performance": (
        "session_key",
        "composite",
        "recommendation",
        "quality",
        "autonomy",
        "productivity",
        "token_efficiency",
        "cost_efficiency",
    ),
}


def column_schema(table: Table) -> dg.TableSchema:
    """Columns with types and descriptions."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(each.name, str(each.dtype), each.description) for each in table.columns
        ]
    )


def partition_metadata(made: Made, path: Path) -> dict[str, dg.MetadataValue]:
    """Row count, place, preview, what was counted, and a chart where the table has scores."""
    shown = made.frame.select(_PREVIEWS[made.table.name]).head(PREVIEW_ROWS)
    scores = made.frame["composite"] if "composite" in made.frame.columns else None
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(made.frame.height),
        **{name: dg.MetadataValue.int(number) for name, number in made.facts.items()},
        **({} if scores is None else {"composites": _composites(scores)}),
        "preview": frame_metadata(shown),
        "path": dg.MetadataValue.path(str(path)),
    }


def frame_metadata(frame: pl.DataFrame) -> dg.MetadataValue:
    """The rows of a small frame as a table."""
    floats = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
    rows = frame.with_columns(pl.col(floats).round(3)).rows()
    return dg.MetadataValue.md(markdown_table(frame.columns, rows, CELL_LETTERS))


def rule_metadata(results: Sequence[tuple[str, RuleResult]]) -> dict[str, dg.MetadataValue]:
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


def _composites(composites: pl.Series) -> dg.MetadataValue:
    """Distribution of the composites of a date as a picture, with the numbers as text."""
    known = composites.drop_nulls().to_list()
    svg = histogram_svg(known, "composite", limits=(0, 10), marks={"review": 4, "keep": 7})
    encoded = base64.b64encode(svg.encode()).decode()
    text = f"{len(known)} of {len(composites)} sessions have a composite"
    return dg.MetadataValue.md(f"![{text}](data:image/svg+xml;base64,{encoded})\n\n{text}")
