"""Changes of judges as assets: two tables with a check."""

from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import WHEN_INPUTS_SETTLED
from evaluation_pipelines.defs.check_results import asset_check_result
from evaluation_pipelines.defs.metadata import column_schema, frame_metadata
from evaluation_pipelines.judge_changes.domain.judge_change import (
    NO_CHANGE,
    JudgeChange,
    change_rows,
    every_judge_change_is_measured,
    headline,
    sentences,
    title,
)
from evaluation_pipelines.judge_changes.measure import write_judge_changes
from evaluation_pipelines.reporting.domain.markdown import LONGEST_SENTENCE, bullets, escaped
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
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
    now = datetime.now(UTC)
    found = write_judge_changes(stores, now)
    rows = change_rows(found, now)
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
            "dagster/row_count": sum(len(each.anchors) for each in found),
            "path": dg.MetadataValue.path(stores.lake.folder_name(JUDGE_ANCHORS)),
        },
    )
    yield asset_check_result(every_judge_change_is_measured(rows))


def _answer(found: JudgeChange) -> str:
    said = escaped(f"{title(found.change)}: {headline(found)}", LONGEST_SENTENCE)
    return f"**{said}**\n\n{bullets(sentences(found))}"
