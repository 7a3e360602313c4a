"""Assets that are counted from judge scores: missing tools, and what another judge did."""

from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import WHEN_INPUTS_SETTLED
from evaluation_pipelines.defs.check_results import asset_check_result
from evaluation_pipelines.defs.metadata import column_schema, frame_metadata
from evaluation_pipelines.judge_changes.domain.judge_change import (
    NO_CHANGE,
    JudgeChange,
    every_judge_change_is_measured,
    headline,
    sentences,
    title,
)
from evaluation_pipelines.judge_changes.measure import change_rows, write_judge_changes
from evaluation_pipelines.judging.domain.missing_tools import MissingToolCounts, most_named
from evaluation_pipelines.judging.score_table import last_period, write_missing_tools
from evaluation_pipelines.reporting.domain.markdown import (
    LONGEST_SENTENCE,
    bullets,
    escaped,
    markdown_table,
)
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
    MISSING_TOOLS,
    Table,
)
from evaluation_pipelines.storage.stores import Stores

_SHOWN = 3
_PREVIEW = (
    *("change_id", "judge_profile_id", "changed_on", "former_model", "new_model"),
    *("trend", "judges_part", "agents_part", "state"),
)


def _spec(table: Table) -> dg.AssetSpec:
    return dg.AssetSpec(
        table.name,
        deps=[AGENT_SESSIONS.name, JUDGE_SCORES.name],
        description=f"{table.grain[0].upper()}{table.grain[1:]}.\n\n"
        "`evaluation-pipelines judge changes --anchors` lets both judges score the anchors.",
        group_name="judging",
        kinds={"polars", "parquet"},
        owners=["team:evaluation"],
        code_version="1",
        metadata={"dagster/column_schema": column_schema(table)},
        automation_condition=WHEN_INPUTS_SETTLED,
    )


@dg.multi_asset(
    specs=[_spec(JUDGE_CHANGES), _spec(JUDGE_ANCHORS)],
    check_specs=[
        dg.AssetCheckSpec(
            every_judge_change_is_measured.__name__,
            asset=JUDGE_CHANGES.name,
            description=(every_judge_change_is_measured.__doc__ or "").splitlines()[0],
        )
    ],
)
def judge_changes(
    stores: dg.ResourceParam[Stores],
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    """Find the changes of judges, and measure them by their anchors."""
    found = write_judge_changes(stores, datetime.now(UTC))
    rows = change_rows(found)
    yield dg.MaterializeResult(
        asset_key=JUDGE_CHANGES.name,
        metadata={
            "dagster/row_count": rows.height,
            "preview": frame_metadata(rows.select(_PREVIEW).head(20)),
            "answer": dg.MetadataValue.md("\n\n".join(map(_answer, found[:_SHOWN])) or NO_CHANGE),
            "path": dg.MetadataValue.path(stores.lake.folder_name(JUDGE_CHANGES)),
        },
    )
    yield dg.MaterializeResult(
        asset_key=JUDGE_ANCHORS.name,
        metadata={
            "dagster/row_count": sum(each.anchors.height for each in found),
            "path": dg.MetadataValue.path(stores.lake.folder_name(JUDGE_ANCHORS)),
        },
    )
    yield asset_check_result(every_judge_change_is_measured(rows))


def _answer(found: JudgeChange) -> str:
    said = escaped(f"{title(found.change)}: {headline(found.row)}", LONGEST_SENTENCE)
    return f"**{said}**\n\n{bullets(sentences(found))}"


_TOOLS_SHOWN = 20
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
    metadata: dict[str, dg.MetadataValue] = {
        "dagster/row_count": dg.MetadataValue.int(rows),
        "period": dg.MetadataValue.text(str(found.period)),
        "answers": dg.MetadataValue.md(bullets(found.lines() or ["no judge was asked"])),
        "path": dg.MetadataValue.path(stores.lake.place(MISSING_TOOLS, None)),
    }
    if not found.tools.is_empty():
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
        for row in most_named(found.tools).head(_TOOLS_SHOWN).to_dicts()
    ]
    return markdown_table(_COLUMNS, rows)
