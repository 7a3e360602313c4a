"""Missing tools as an asset."""

from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import WHEN_INPUTS_SETTLED
from evaluation_pipelines.defs.metadata import column_schema, picture
from evaluation_pipelines.judging.domain.missing_tools import MissingToolCounts, most_named
from evaluation_pipelines.judging.missing_tools import last_period, write_missing_tools
from evaluation_pipelines.reporting.domain.charts import bars_svg
from evaluation_pipelines.reporting.domain.markdown import escaped, markdown_table
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES, MISSING_TOOLS
from evaluation_pipelines.storage.stores import Stores

_SHOWN, _BARS = 20, 12
_COLUMNS = (
    "tool",
    "organization",
    "sessions",
    "of",
    "mentions",
    "last",
    "models",
    "masques",
    "for example",
)


@dg.asset(
    deps=[JUDGE_SCORES.name, AGENT_SESSIONS.name],
    description=f"{MISSING_TOOLS.grain.capitalize()}.\n\n"
    "Of the last 28 complete days, and of the 28 days before those.",
    group_name="judging",
    kinds={"polars", "parquet"},
    owners=["team:evaluation"],
    code_version="1",
    metadata={"dagster/column_schema": column_schema(MISSING_TOOLS)},
    automation_condition=WHEN_INPUTS_SETTLED,
)
def missing_tools(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> dg.MaterializeResult[None]:
    """Count the tools of the last 28 days and of the 28 before."""
    found = write_missing_tools(stores, last_period(datetime.now(UTC)))
    for line in found.lines():
        context.log.info("%s", line)
    rows = stores.lake.read_whole(MISSING_TOOLS).height
    return dg.MaterializeResult(metadata=_metadata(found, rows, stores))


def _metadata(found: MissingToolCounts, rows: int, stores: Stores) -> dict[str, dg.MetadataValue]:
    shown = most_named(found.tools)
    metadata: dict[str, dg.MetadataValue] = {
        "dagster/row_count": dg.MetadataValue.int(rows),
        "period": dg.MetadataValue.text(str(found.period)),
        "answers": dg.MetadataValue.md(_listed(found.lines() or ["no judge was asked"])),
        "path": dg.MetadataValue.path(stores.lake.place(MISSING_TOOLS, None)),
    }
    if not shown.is_empty():
        bars = [(row["tool"], row["sessions"]) for row in shown.head(_BARS).to_dicts()]
        label = f"sessions in which judges missed it, {found.period}"
        metadata["most missed"] = picture(bars_svg(bars, label), label)
        metadata["tools"] = dg.MetadataValue.md(_table(found))
    return metadata


def _table(found: MissingToolCounts) -> str:
    rows = [
        (
            *(row["tool"], row["organization_id"]),
            *(row["sessions"], row["asked_sessions"], row["mentions"], row["last_date"]),
            *(", ".join(row[name]) for name in ("agent_models", "masques")),
            row["examples"][0]["rationale"] if row["examples"] else None,
        )
        for row in most_named(found.tools).head(_SHOWN).to_dicts()
    ]
    return markdown_table(_COLUMNS, rows)


def _listed(lines: list[str]) -> str:
    return "\n".join(f"* {escaped(line, 400)}" for line in lines)
