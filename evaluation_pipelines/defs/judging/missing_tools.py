"""Missing tools as an asset: counted, and optionally prioritized by a model."""

from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import WHEN_INPUTS_SETTLED
from evaluation_pipelines.defs.metadata import column_schema, picture
from evaluation_pipelines.judging.domain.missing_tools.priorities import most_named
from evaluation_pipelines.judging.missing_tools import (
    MissingTools,
    last_period,
    write_missing_tools,
)
from evaluation_pipelines.judging.tool_priorities import ask_for_priorities
from evaluation_pipelines.reporting.domain.charts import bars_svg
from evaluation_pipelines.reporting.domain.markdown import escaped, markdown_table
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES, MISSING_TOOLS
from evaluation_pipelines.storage.stores import Stores

AUTOMATION_CONDITION_TAG = "dagster/from_automation_condition"

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

_ORDERED = ("priority", "tool", "organization_id", "sessions", "priority_reason")


@dg.asset(
    deps=[JUDGE_SCORES.name, AGENT_SESSIONS.name],
    description=f"{MISSING_TOOLS.grain.capitalize()}.\n\n"
    "Of the last 28 complete days, and of the 28 days before those. "
    "With `EVAL_JUDGE_ORDERS_MISSING_TOOLS` the nightly run asks a model for `priority`.",
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
    """Count the tools; then request their priorities, if that is enabled, and add them."""
    now = datetime.now(UTC)
    period = last_period(now)
    found = write_missing_tools(stores, period)
    not_asked: list[str] = []
    # Once a period: in the nightly run, after sessions of yesterday were judged, or by hand.
    is_nightly_or_manual = AUTOMATION_CONDITION_TAG not in context.run.tags
    if is_nightly_or_manual and stores.settings.judge_orders_missing_tools:
        not_asked = ask_for_priorities(stores, found.counted, now)
        found = write_missing_tools(stores, period)
    for line in (*found.counted.lines(), *found.priority_notes, *not_asked):
        context.log.info("%s", line)
    rows = stores.lake.read_whole(MISSING_TOOLS).height
    return dg.MaterializeResult(metadata=_metadata(found, not_asked, rows, stores))


def _metadata(
    found: MissingTools, not_asked: list[str], rows: int, stores: Stores
) -> dict[str, dg.MetadataValue]:
    shown = most_named(found.tools)
    metadata: dict[str, dg.MetadataValue] = {
        "dagster/row_count": dg.MetadataValue.int(rows),
        "period": dg.MetadataValue.text(str(found.counted.period)),
        "answers": dg.MetadataValue.md(_listed(found.counted.lines() or ["no judge was asked"])),
        "path": dg.MetadataValue.path(stores.lake.place(MISSING_TOOLS, None)),
    }
    if not shown.is_empty():
        bars = [(row["tool"], row["sessions"]) for row in shown.head(_BARS).to_dicts()]
        label = f"sessions in which judges missed it, {found.counted.period}"
        metadata["most missed"] = picture(bars_svg(bars, label), label)
        metadata["tools"] = dg.MetadataValue.md(_table(found))
    if lines := [*found.priority_notes, *not_asked]:
        metadata["put in order"] = dg.MetadataValue.md(_listed(lines))
    if found.cost_usd is not None:
        metadata["cost_usd"] = dg.MetadataValue.float(found.cost_usd)
    ordered = found.tools.drop_nulls("priority").sort("priority", "organization_id")
    if not ordered.is_empty():
        rows_of = ordered.select(_ORDERED).rows()
        table = markdown_table(("place", "tool", "organization", "sessions", "why"), rows_of, 400)
        metadata["what to do first"] = dg.MetadataValue.md(table)
    return metadata


def _table(found: MissingTools) -> str:
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
