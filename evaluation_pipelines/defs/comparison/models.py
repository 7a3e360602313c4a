"""The model comparison as assets: its tables and its report."""

from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.comparison.compare_models import (
    compare_models,
    last_days,
    tables_of,
    write_comparison,
)
from evaluation_pipelines.comparison.domain.checks import CHECKS
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.comparison.domain.coverage import coverage
from evaluation_pipelines.comparison.domain.findings import findings
from evaluation_pipelines.defs.automation import WHEN_INPUTS_SETTLED
from evaluation_pipelines.defs.check_results import asset_check_result
from evaluation_pipelines.defs.freshness import EVERY_HOUR
from evaluation_pipelines.defs.metadata import column_schema, frame_metadata
from evaluation_pipelines.reporting.comparison_report import write_report
from evaluation_pipelines.reporting.domain.comparison_report.markdown import (
    answers,
    models_table,
    picture,
)
from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    SESSION_EVALUATIONS,
    Table,
)
from evaluation_pipelines.storage.stores import Stores

TABLES = (MODEL_COMPARISON, MODEL_COMPARISON_PAIRS, MODEL_REGRESSIONS)
_PREVIEWS = {
    MODEL_COMPARISON.name: ("classification_label", "model", "state", "rank", "runs", "avg_score"),
    MODEL_COMPARISON_PAIRS.name: (
        "classification_label",
        "model_a",
        "model_b",
        "adjusted_difference",
        "verdict",
    ),
    MODEL_REGRESSIONS.name: ("classification_label", "model", "change", "state"),
}
_CHECKED = {"no_model_got_worse": MODEL_REGRESSIONS.name}


def _spec(table: Table) -> dg.AssetSpec:
    return dg.AssetSpec(
        table.name,
        deps=[AGENT_SESSIONS.name, SESSION_EVALUATIONS.name],
        description=f"{table.grain[0].upper()}{table.grain[1:]}.",
        group_name="comparison",
        kinds={"polars", "parquet"},
        owners=["team:evaluation"],
        code_version="1",
        metadata={"dagster/column_schema": column_schema(table)},
        automation_condition=WHEN_INPUTS_SETTLED,
    )


@dg.multi_asset(
    specs=[_spec(each) for each in TABLES],
    check_specs=[
        dg.AssetCheckSpec(
            check.__name__,
            asset=_CHECKED.get(check.__name__, MODEL_COMPARISON.name),
            description=(check.__doc__ or "").splitlines()[0],
        )
        for check in CHECKS
    ],
)
def compared_models(
    stores: dg.ResourceParam[Stores],
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    """Compare all models of the 28 complete days before now, label by label."""
    found = _compare(stores)
    results = [check(found) for check in CHECKS]
    if all(each.passed or each.severity == "warning" for each in results):
        write_comparison(stores, found)
        for table, frame in tables_of(found):
            yield dg.MaterializeResult(
                asset_key=table.name,
                metadata={
                    "dagster/row_count": frame.height,
                    "preview": frame_metadata(frame.select(_PREVIEWS[table.name]).head(20)),
                    "path": dg.MetadataValue.path(str(stores.lake.folder(table, None))),
                },
            )
    for each in results:
        yield asset_check_result(each)
    if broken := [each for each in results if not each.passed and each.severity == "error"]:
        raise dg.Failure(
            "The comparison failed its checks and was not written; the previous one stays: "
            + "; ".join(f"{each.rule}: {each.found}" for each in broken),
            allow_retries=False,
        )


@dg.asset(
    deps=[each.name for each in TABLES],
    group_name="comparison",
    kinds={"html"},
    owners=["team:evaluation"],
    code_version="1",
    freshness_policy=EVERY_HOUR,
    automation_condition=WHEN_INPUTS_SETTLED,
)
def model_comparison_report(stores: dg.ResourceParam[Stores]) -> dg.MaterializeResult[None]:
    """The comparison as a report: one self-contained HTML file, and markdown."""
    found = _compare(stores)
    report = write_report(stores.settings.reports_dir, found)
    groups = [each for each in findings(found) if each.is_main and each.ranked]
    left_out = [(each.what, each.why, each.sessions) for each in coverage(found)]
    pictures = [f"**{each.label}**\n\n{shown}" for each in groups if (shown := picture(each))]
    return dg.MaterializeResult(
        metadata={
            "answer": dg.MetadataValue.md(answers(findings(found))),
            "models": dg.MetadataValue.md("\n\n".join(map(models_table, groups)) or "none ranked"),
            "cost and quality": dg.MetadataValue.md("\n\n".join(pictures) or "none ranked"),
            "all sessions": dg.MetadataValue.md(
                markdown_table(("where", "why", "sessions"), left_out)
            ),
            "report": dg.MetadataValue.path(str(report.html.absolute())),
            "markdown": dg.MetadataValue.path(str(report.markdown.absolute())),
        }
    )


def _compare(stores: Stores) -> Comparison:
    now = datetime.now(UTC)
    return compare_models(stores, Question(*last_days(now)), now)
