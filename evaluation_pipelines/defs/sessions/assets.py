"""Assets built from all sessions: the lift of masques."""

from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.defs.automation import WHEN_INPUTS_SETTLED
from evaluation_pipelines.defs.metadata import column_schema, frame_metadata
from evaluation_pipelines.schemas import AGENT_SESSIONS, MASQUE_LIFT, SESSION_PERFORMANCE
from evaluation_pipelines.storage.stores import Stores

_PREVIEW = (
    *("organization_id", "masque", "task_class", "composite_difference"),
    *("composite_low", "composite_high", "sessions", "baseline_sessions"),
)


@dg.asset(
    deps=[AGENT_SESSIONS.name, SESSION_PERFORMANCE.name],
    description=f"{MASQUE_LIFT.grain.capitalize()}.\n\nObserved: the masque need not be the cause.",
    group_name="sessions",
    kinds={"polars", "parquet"},
    owners=["team:evaluation"],
    code_version="1",
    metadata={"dagster/column_schema": column_schema(MASQUE_LIFT)},
    automation_condition=WHEN_INPUTS_SETTLED,
)
def masque_lift(stores: dg.ResourceParam[Stores]) -> dg.MaterializeResult[None]:
    """Compare the sessions of each masque with the baseline, by kind of task."""
    lift = write_masque_lift(stores, datetime.now(UTC))
    shown = lift.filter(composite_state="shown")
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": lift.height,
            "with enough sessions": shown.height,
            "preview": frame_metadata(shown.select(_PREVIEW)),
            "path": dg.MetadataValue.path(stores.lake.place(MASQUE_LIFT, None)),
        }
    )
