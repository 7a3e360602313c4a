"""The analysts' database as an asset."""

from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import WHEN_INPUTS_SETTLED
from evaluation_pipelines.defs.comparison.books import evaluation_books
from evaluation_pipelines.defs.comparison.models import TABLES
from evaluation_pipelines.defs.daily_tables import daily_tables
from evaluation_pipelines.defs.freshness import EVERY_HOUR
from evaluation_pipelines.defs.judging.assets import judge_scores
from evaluation_pipelines.defs.judging.missing_tools import missing_tools
from evaluation_pipelines.defs.reputation.assets import (
    agent_scores,
    external_signals,
    reputation_scores,
)
from evaluation_pipelines.defs.sessions.assets import masque_lift
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.storage.stores import Stores


@dg.asset(
    deps=[
        daily_tables,
        masque_lift,
        judge_scores,
        evaluation_books,
        missing_tools,
        external_signals,
        reputation_scores,
        agent_scores,
        *(each.name for each in TABLES),
    ],
    group_name="comparison",
    kinds={"duckdb"},
    owners=["team:evaluation"],
    code_version="1",
    freshness_policy=EVERY_HOUR,
    automation_condition=WHEN_INPUTS_SETTLED,
)
def analytics_database(stores: dg.ResourceParam[Stores]) -> dg.MaterializeResult[None]:
    """One read-only DuckDB file with all tables, swapped in as a link; readers never block it."""
    published = publish_analytics(stores, datetime.now(UTC))
    return dg.MaterializeResult(
        metadata={
            **{f"rows of {name}": rows for name, rows in published.rows.items()},
            "size_bytes": published.size_bytes,
            "path": dg.MetadataValue.path(str(published.link.absolute())),
            "open it with": f"duckdb -readonly {published.link}",
        }
    )
