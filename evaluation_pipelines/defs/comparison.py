"""Assets over many dates: comparison, books, analysts' database, missing tools, judge changes.

The books (``evaluation_books``) have a step of their own, so that a job can select it, and books
that do not balance delay no telemetry: they are closed right after the build of a date, never in
the same step.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime

import dagster as dg

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import OPEN_BOOKS, reported
from evaluation_pipelines.attention.send import raise_alert
from evaluation_pipelines.build import DAILY_TABLES, Build, DateFailed
from evaluation_pipelines.comparison.compare_models import (
    compare_models,
    tables_of,
    usual_question,
    write_comparison,
)
from evaluation_pipelines.comparison.domain.compare import CHECKS, Comparison
from evaluation_pipelines.comparison.domain.prediction import HEADINGS, lines
from evaluation_pipelines.comparison.prediction import write_predictions
from evaluation_pipelines.defs.automation import (
    SESSION_DATES,
    WHEN_DATE_CHANGED,
    WHEN_INPUTS_SETTLED,
    WHEN_SESSIONS_SETTLED,
    LatestVersions,
)
from evaluation_pipelines.defs.daily_tables import (
    asset_spec,
    daily_tables,
    materialization,
    report_unbuilt,
)
from evaluation_pipelines.defs.judging import judge_scores
from evaluation_pipelines.defs.metadata import (
    EVERY_HOUR,
    CheckResults,
    asset_check_result,
    check_specs,
    column_schema,
    explaining_tables,
    frame_metadata,
    logged_outputs,
)
from evaluation_pipelines.defs.reputation import agent_scores, external_signals, reputation_scores
from evaluation_pipelines.defs.runs import LoggedProgress
from evaluation_pipelines.defs.sessions import masque_lift
from evaluation_pipelines.formatting import (
    LONGEST_SENTENCE,
    bullets,
    escaped,
    markdown_table,
)
from evaluation_pipelines.judge_changes.anchors import change_rows, write_judge_changes
from evaluation_pipelines.judge_changes.domain.judge_change import (
    NO_CHANGE,
    JudgeChange,
    every_judge_change_is_measured,
    headline,
    sentences,
    title,
)
from evaluation_pipelines.judging.domain.missing_tools import MissingToolCounts, most_named
from evaluation_pipelines.judging.score_table import last_period, write_missing_tools
from evaluation_pipelines.reporting.comparison_report import write_report
from evaluation_pipelines.reporting.domain.book_states import STATES
from evaluation_pipelines.reporting.domain.books import books_balance
from evaluation_pipelines.reporting.domain.comparison_report import (
    markdown_answers,
    picture,
    report,
)
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import (
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
    MISSING_TOOLS,
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    OUTCOME_PREDICTIONS,
    SESSION_EVALUATIONS,
    SESSION_OUTCOMES,
    Table,
)
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores

_SHOWN = 3
_PREVIEW = (
    *("change_id", "judge_profile_id", "changed_on", "former_model", "new_model"),
    *("trend", "judges_part", "agents_part", "state"),
)


def _spec(table: Table, group: str, scores: Table, more: str = "") -> dg.AssetSpec:
    """Return the asset of a table of all sessions and one kind of their scores."""
    return dg.AssetSpec(
        table.name,
        deps=[AGENT_SESSIONS.name, scores.name],
        description=f"{table.sentence}{more}",
        group_name=group,
        kinds={"polars", "parquet"},
        owners=["team:evaluation"],
        code_version="1",
        metadata={"dagster/column_schema": column_schema(table)},
        automation_condition=WHEN_INPUTS_SETTLED,
    )


_ANCHORS_HELP = (
    "\n\n`evaluation-pipelines judge changes --anchors` lets both judges score the anchors."
)


@dg.multi_asset(
    specs=[
        _spec(table, "judging", JUDGE_SCORES, _ANCHORS_HELP)
        for table in (JUDGE_CHANGES, JUDGE_ANCHORS)
    ],
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
            "dagster/row_count": sum(change.anchors.height for change in found),
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
    description=f"{MISSING_TOOLS.sentence}\n\n"
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


@dg.asset(
    deps=[SESSION_OUTCOMES.name, "commit_outcomes", SESSION_EVALUATIONS.name, JUDGE_SCORES.name],
    description=OUTCOME_PREDICTIONS.sentence,
    group_name="comparison",
    kinds={"polars", "parquet"},
    owners=["team:evaluation"],
    code_version="1",
    metadata={"dagster/column_schema": column_schema(OUTCOME_PREDICTIONS)},
    automation_condition=WHEN_INPUTS_SETTLED,
)
def outcome_predictions(stores: dg.ResourceParam[Stores]) -> dg.MaterializeResult[None]:
    """Scores that predict outcomes, with verdicts that change at planned looks."""
    found = write_predictions(stores, datetime.now(UTC))
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": found.height,
            "verdicts": dg.MetadataValue.md(markdown_table(HEADINGS, lines(found)[:_TOOLS_SHOWN])),
            "path": dg.MetadataValue.path(stores.lake.folder_name(OUTCOME_PREDICTIONS)),
        }
    )


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


@dg.multi_asset(
    specs=[_spec(table, "comparison", SESSION_EVALUATIONS) for table in TABLES],
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
    if all(result.passed or result.severity == "warning" for result in results):
        write_comparison(stores, found)
        for table, frame in tables_of(found):
            yield dg.MaterializeResult(
                asset_key=table.name,
                metadata={
                    "dagster/row_count": frame.height,
                    "preview": frame_metadata(frame.select(_PREVIEWS[table.name]).head(20)),
                    "path": dg.MetadataValue.path(stores.lake.folder_name(table)),
                },
            )
    for result in results:
        yield asset_check_result(result)
    if broken := [result for result in results if not result.passed and result.severity == "error"]:
        raise dg.Failure(
            "The comparison failed its checks and was not written. The previous one stays: "
            + ", ".join(f"{result.rule}: {result.found}" for result in broken),
            allow_retries=False,
        )


@dg.asset(
    deps=[table.name for table in TABLES],
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
    html, markdown = write_report(stores, found).addresses
    shown = report(found)
    groups = [section for section in shown.sections if section.answers]
    pictures = [
        f"**{found.label}**\n\n{drawn}"
        for found in (group.finding for group in groups)
        if (drawn := picture(found))
    ]
    models = [group.models.markdown() for group in groups]
    return dg.MaterializeResult(
        metadata={
            "answer": dg.MetadataValue.md(markdown_answers(shown)),
            "models": dg.MetadataValue.md("\n\n".join(models) or "none ranked"),
            "cost and quality": dg.MetadataValue.md("\n\n".join(pictures) or "none ranked"),
            "sessions not ranked": dg.MetadataValue.md(shown.coverage.markdown()),
            "report": dg.MetadataValue.path(html),
            "markdown": dg.MetadataValue.path(markdown),
        }
    )


def _compare(stores: Stores) -> Comparison:
    now = datetime.now(UTC)
    return compare_models(stores, usual_question(stores.settings, now), now)


_BOOKS = next(daily for daily in DAILY_TABLES if daily.table is EVALUATION_BOOKS)

_STATES = markdown_table(
    ("state", "meaning", "how to change it"),
    [(state, meaning.meaning, meaning.what_next) for state, meaning in STATES.items()],
)
_DESCRIPTION = (
    f"{EVALUATION_BOOKS.sentence}\n\n"
    f"The state is the first of these that applies:\n\n{_STATES}\n\n"
    "The check `books_balance` compares the counts of ingest, of the tables and of the states. "
    "Books that do not balance are not written."
)


@dg.multi_asset(
    specs=[
        asset_spec(_BOOKS).replace_attributes(
            description=_DESCRIPTION, automation_condition=WHEN_DATE_CHANGED
        )
    ],
    check_specs=check_specs([_BOOKS], blocking={books_balance.__name__}),
    can_subset=True,
    partitions_def=SESSION_DATES,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def evaluation_books(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> Iterator[dg.AssetCheckResult | dg.Output[None]]:
    """Close the books of the dates of a run that have landed events; report the others."""
    landed = {
        part_date.session_date
        for part_date in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)
    }
    requested = set(map(date.fromisoformat, context.partition_keys))
    days = requested & landed
    checks, now = CheckResults(), datetime.now(UTC)

    def report(published: Mapping[date, BuiltPartition]) -> None:
        latest = LatestVersions(context.instance, list(published))
        for day, built in published.items():
            more = {"judge_cost_usd": dg.MetadataValue.text(_cost_usd(built))}
            context.log_event(materialization(stores, _BOOKS, day, built, more, latest))
            checks.add_built(day, built)
            AlertStore(stores.ledger).end(OPEN_BOOKS, [str(day)], now)

    report_unbuilt(context, stores, _BOOKS, requested - landed)
    outcome = Build(stores, [EVALUATION_BOOKS.name], report).run(days, LoggedProgress(context.log))
    failed = [result for result in outcome if isinstance(result, DateFailed)]
    for failure in failed:
        checks.add_failed(failure)
        _observe(context, failure)
        alert = reported(OPEN_BOOKS, failure.session_date, failure.error)
        raise_alert(stores, alert, now, context.log)
    yield from checks.asset_check_results(context.op_execution_context.selected_asset_check_keys)
    if failed:
        reasons = "\n".join(f"{failure.session_date}: {failure.error}" for failure in failed)
        raise dg.Failure(reasons, allow_retries=False)
    yield from logged_outputs(context, [EVALUATION_BOOKS.name])


def _cost_usd(built: BuiltPartition) -> str:
    """Return the cost of judging the sessions, or "unknown" if a price is unknown."""
    cost = built.frame["judge_cost_usd"]
    return "unknown" if cost.null_count() else str(round(float(cost.sum()), 6))


def _observe(context: dg.AssetExecutionContext, failed: DateFailed) -> None:
    """Show the tables of books that do not balance, which are not written."""
    if failed.broken is not None:
        context.log_event(
            dg.AssetObservation(
                EVALUATION_BOOKS.name,
                description=f"Not written: {failed.error}",
                partition=failed.session_date.isoformat(),
                metadata=explaining_tables(failed.broken),
            )
        )


@dg.asset(
    deps=[
        daily_tables,
        masque_lift,
        judge_scores,
        evaluation_books,
        missing_tools,
        judge_changes,
        external_signals,
        reputation_scores,
        agent_scores,
        *(table.name for table in TABLES),
    ],
    group_name="reporting",
    kinds={"duckdb"},
    owners=["team:evaluation"],
    code_version="1",
    freshness_policy=EVERY_HOUR,
    automation_condition=WHEN_SESSIONS_SETTLED,
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
