"""What is made of many sessions together, made again without those that were forgotten."""

from collections.abc import Callable, Sequence
from datetime import datetime

import polars as pl

from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.erasure.context import ErasureContext
from evaluation_pipelines.erasure.ledger_rows import add_rows
from evaluation_pipelines.judge_changes.measure import write_judge_changes
from evaluation_pipelines.judging.score_table import last_period, write_missing_tools
from evaluation_pipelines.reporting.comparison_report import (
    list_reports,
    refresh_comparison,
    report_files,
)
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.reputation.updates import (
    change_reputation,
    clickhouse_exists,
    export_agent_scores,
    export_reputation,
)
from evaluation_pipelines.schemas import (
    AGENT_SCORES,
    EXTERNAL_SIGNALS,
    JUDGE_CHANGES,
    MASQUE_LIFT,
    MISSING_TOOLS,
    MODEL_COMPARISON,
    REPUTATION_SCORES,
    Table,
)
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import names_forgotten

_MAKERS: Sequence[tuple[Table, Callable[[Stores, datetime], object]]] = (
    (MASQUE_LIFT, write_masque_lift),
    (JUDGE_CHANGES, write_judge_changes),
    (MISSING_TOOLS, lambda stores, now: write_missing_tools(stores, last_period(now))),
)
"""Tables without partitions, and what makes each again."""


def make_aggregates_again(context: ErasureContext) -> None:
    """Make tables, reports and the analysts' database again, those that exist.

    Earlier reports and databases are deleted.

    Raises:
        UserError: One of them cannot be made.
    """
    stores, settings = context.stores, context.stores.settings
    for table, make in _MAKERS:
        if _is_written(stores, table):
            make(stores, context.clock())
            context.done(table.name)
    _make_report_again(context)
    if settings.analytics_path.exists():
        published = publish_analytics(stores, context.clock())
        context.hold.check()
        for file in published.file.parent.iterdir():
            if file != published.file:
                file.unlink()
        context.done(settings.analytics_path.name)


def _make_report_again(context: ErasureContext) -> None:
    """Replace the comparison and its report, and delete all other reports that were there."""
    stores, made = context.stores, set[str]()
    files = report_files(stores)
    before = list_reports(files)
    if _is_written(stores, MODEL_COMPARISON):
        report = refresh_comparison(stores, context.clock())
        made = {each.rpartition("/")[2] for each in report.addresses}
        context.done(MODEL_COMPARISON.name)
    context.hold.check()
    for name in before:
        if name not in made:
            files.delete(name)


def erase_reputation(context: ErasureContext) -> None:
    """Take rows out of ClickHouse, if there is one, and compute scores and exports again.

    Raises:
        ClickHouseError: It cannot be used.
        LakeError: An export cannot be written.
    """
    stores, now = context.stores, context.clock()
    if not clickhouse_exists(stores.settings):
        return
    with change_reputation(stores, now) as store:
        erased = store.forget(context.forgotten)
        with writing(stores.ledger.engine) as connection:
            for table, number in erased.items():
                add_rows(connection, context.erasure_id, f"clickhouse {table}", number)
        if _is_written(stores, REPUTATION_SCORES):
            export_reputation(stores, store)
        if _is_written(stores, AGENT_SCORES):
            export_agent_scores(stores, store, now)
    _erase_rejects(context)
    context.done("clickhouse")


def _is_written(stores: Stores, table: Table) -> bool:
    return bool(stores.lake.parts(table, [None]))


def _erase_rejects(context: ErasureContext) -> None:
    """Take examples of unusable lines out that name what was forgotten."""
    lake = context.stores.lake
    files = lake.read_whole(EXTERNAL_SIGNALS)
    rejects = [
        [each for each in rows if not names_forgotten(each["text"], context.forgotten)]
        for rows in files["rejects"].to_list()
    ]
    kept = files.with_columns(rejects=pl.Series(rejects, dtype=EXTERNAL_SIGNALS.schema["rejects"]))
    if not kept.equals(files):
        lake.write_whole(kept, EXTERNAL_SIGNALS)
