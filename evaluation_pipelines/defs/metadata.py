"""Metadata of assets: rows, numbers, previews, links to pages, and freshness policies.

An asset without a policy may have any age. The tables of a date have none, except one: a date is
as fresh as its telemetry, and is rebuilt when that changes.
"""

import base64
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta

import dagster as dg
import polars as pl

from evaluation_pipelines.build import DateFailed
from evaluation_pipelines.formatting import markdown_table
from evaluation_pipelines.judging.domain.badge import GREEN_FROM
from evaluation_pipelines.reporting.domain.book_states import STATES
from evaluation_pipelines.reporting.domain.charts import bars_svg, histogram_svg
from evaluation_pipelines.schemas import (
    EVALUATION_BOOKS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.schemas.table import CheckResult
from evaluation_pipelines.scorecards.domain.evaluation import EFFECTIVE_RANGE, PASSES_FROM
from evaluation_pipelines.sessions.domain.performance import KEEP_FROM, REVIEW_FROM, SCORE_RANGE
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.daily_table import BuiltPartition, DailyTable


def page_link(settings: Settings, table: Table, day: date) -> dict[str, dg.MetadataValue]:
    """Return metadata that links to the page of a day; none if no service URL is set."""
    if settings.service_url is None:
        return {}
    return {"page": dg.MetadataValue.url(f"{settings.service_url}{_path(table, day)}")}


def _path(table: Table, day: date) -> str:
    if table is EVALUATION_BOOKS:
        return f"/operations/books/{day}"
    page = "/tools" if table is TOOL_REPORTS else "/sessions"
    return f"{page}?from={day}&to={day}"


SOURCE_ASSET_OBSERVATION = "__source_asset_observation__"
"""Dagster's metadata key for an output whose events the step already logged."""


def logged_outputs(
    context: dg.AssetExecutionContext, tables: Iterable[str]
) -> Iterator[dg.Output[None]]:
    """Yield the outputs of the selected ``tables``, so that later steps of the run start.

    Args:
        context: Context of the step, after its tables are written.
        tables: Names of tables, each after the tables it is built from.
    """
    selected = context.op_execution_context.selected_output_names
    for name in tables:
        if name in selected:
            yield dg.Output(None, name, metadata={SOURCE_ASSET_OBSERVATION: True})


PREVIEW_ROWS = 8
CELL_LETTERS = 18
"""The interface would break a longer text into many lines in its narrow tables."""
_TEXT_LETTERS = 400
"""Limit for explanatory tables, which have few columns."""


def column_schema(table: Table) -> dg.TableSchema:
    """Return the columns of a table with types and descriptions."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(column.name, str(column.dtype), column.description)
            for column in table.columns
        ]
    )


def partition_metadata(
    built: BuiltPartition, preview: Sequence[str], path: str
) -> dict[str, dg.MetadataValue]:
    """Return row count, path, preview, other counts, and a chart for tables with scores."""
    shown = built.frame.select(preview).head(PREVIEW_ROWS)
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(built.row_count),
        **{name: dg.MetadataValue.int(number) for name, number in built.facts.items()},
        **_charts(built),
        **explaining_tables(built),
        "preview": frame_metadata(shown),
        "path": dg.MetadataValue.path(path),
    }


def explaining_tables(built: BuiltPartition) -> dict[str, dg.MetadataValue]:
    """Return the small explanatory tables of a partition, by name."""
    return {
        name: dg.MetadataValue.md(markdown_table(frame.columns, frame.rows(), _TEXT_LETTERS))
        for name, frame in built.shown.items()
    }


def frame_metadata(frame: pl.DataFrame) -> dg.MetadataValue:
    """Return the rows of a small frame as a table, with floats rounded to three digits."""
    floats = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
    rows = frame.with_columns(pl.col(floats).round(3)).rows()
    return dg.MetadataValue.md(markdown_table(frame.columns, rows, CELL_LETTERS))


def histogram_metadata(
    values: Sequence[float],
    label: str,
    limits: tuple[float, float],
    marks: Mapping[str, float],
    text: str,
) -> dg.MetadataValue:
    """Return a histogram with named marks, and ``text`` below it."""
    return picture(histogram_svg(values, label, limits, marks), text)


def picture(svg: str, text: str) -> dg.MetadataValue:
    """Return a picture with ``text``, which says what it shows, below it."""
    encoded = base64.b64encode(svg.encode()).decode()
    return dg.MetadataValue.md(f"![{text}](data:image/svg+xml;base64,{encoded})\n\n{text}")


def check_metadata(results: Sequence[tuple[str, CheckResult]]) -> dict[str, dg.MetadataValue]:
    """Return what one check expected and found on the dates of a run.

    Args:
        results: Dates with their results. The last failed date is shown, or the last date if
            none failed.
    """
    failed = [(day, result) for day, result in results if not result.passed]
    day, shown = (failed or results)[-1]
    metadata: dict[str, dg.MetadataValue] = {
        "dates_checked": dg.MetadataValue.int(len(results)),
        "dates_broken": dg.MetadataValue.int(len(failed)),
        "date": dg.MetadataValue.text(day),
        "expected": dg.MetadataValue.text(shown.expected),
        "found": dg.MetadataValue.text(shown.found),
    }
    if shown.examples:
        metadata["examples"] = dg.MetadataValue.text("\n".join(shown.examples))
    if len(failed) > 1:
        rows = [(day, result.found, ". ".join(result.examples)) for day, result in failed]
        table = markdown_table(("date", "found", "examples"), rows)
        metadata["all_broken_dates"] = dg.MetadataValue.md(table)
    return metadata


def _charts(built: BuiltPartition) -> dict[str, dg.MetadataValue]:
    """Return the chart of a table that people open for its scores or states."""
    if built.table is SESSION_PERFORMANCE:
        marks = {"review": REVIEW_FROM, "keep": KEEP_FROM}
        return {"composites": _scores(built.frame["composite"], "composite", SCORE_RANGE, marks)}
    if built.table is SESSION_EVALUATIONS:
        marks = {"passes": PASSES_FROM, "green": GREEN_FROM}
        scores = built.frame["effective_100"]
        return {"effective scores": _scores(scores, "effective score", EFFECTIVE_RANGE, marks)}
    if built.table is EVALUATION_BOOKS:
        return {"sessions by state": _states(built.frame["state"])}
    return {}


def _states(states: pl.Series) -> dg.MetadataValue:
    """Return the number of sessions in each state as bars, without empty states."""
    counts = Counter(states)
    rows = [(state, counts[state]) for state in STATES if counts[state]]
    text = ", ".join(f"{number:,} {state}" for state, number in rows) or "no sessions"
    return picture(bars_svg(rows, f"sessions, n = {len(states)}"), text)


def _scores(
    scores: pl.Series, name: str, limits: tuple[float, float], marks: Mapping[str, float]
) -> dg.MetadataValue:
    """Return a histogram of the scores of a date, with their number as text."""
    known = scores.drop_nulls().to_list()
    article = "an" if name[0] in "aeiou" else "a"
    text = f"{len(known):,} of {len(scores):,} sessions have {article} {name}"
    return histogram_metadata(known, name, limits, marks, text)


WITH_TELEMETRY = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=36), fail_window=timedelta(days=4)
)
"""Warns after a working day without any session, fails after a long weekend without one."""

EVERY_HOUR = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=3), fail_window=timedelta(hours=26)
)
"""For assets built hourly and by the nightly run. Three hours without a build mean that runs fail
or wait; a day and two hours mean that people read yesterday's data."""


WAS_BUILT = "every_date_was_built"


def check_specs(
    tables: Iterable[DailyTable], blocking: Collection[str] = ()
) -> list[dg.AssetCheckSpec]:
    """Return the checks of tables: that every date was built, and the checks of each table.

    Args:
        tables: Daily tables.
        blocking: Names of checks that skip the later steps of a run when they fail.
    """
    return [
        dg.AssetCheckSpec(
            name, asset=daily.table.name, description=description, blocking=name in blocking
        )
        for daily in tables
        for name, description in {
            WAS_BUILT: "Every date of the run was built and published.",
            **daily.check_descriptions(),
        }.items()
    ]


def asset_check_result(result: CheckResult) -> dg.AssetCheckResult:
    """Return the result of one check as Dagster's check result type."""
    return dg.AssetCheckResult(
        passed=result.passed,
        asset_key=result.table,
        check_name=result.rule,
        severity=_severity([result]),
        metadata={
            "expected": result.expected,
            "found": result.found,
            **({"examples": "\n".join(result.examples)} if result.examples else {}),
        },
    )


class CheckResults:
    """Check results of the dates of a run."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, str], list[tuple[str, CheckResult]]] = defaultdict(list)

    def add_built(self, day: date, built: BuiltPartition) -> None:
        """Add the results of a published partition."""
        self._add_checks(day, built)
        self._add_was_built(day, built.table.name, None)

    def add_failed(self, failed: DateFailed) -> None:
        """Add the results of a date that failed at one of its tables."""
        if failed.broken is not None:
            self._add_checks(failed.session_date, failed.broken)
        self._add_was_built(failed.session_date, failed.table, failed.error)

    def asset_check_results(
        self, selected: Collection[dg.AssetCheckKey]
    ) -> Iterator[dg.AssetCheckResult]:
        """Yield one result for each selected check that has a result on some date."""
        for key in sorted(selected, key=lambda key: key.to_user_string()):
            results = self._results[key.asset_key.to_user_string(), key.name]
            failed = [(day, result) for day, result in results if not result.passed]
            if results:
                yield dg.AssetCheckResult(
                    passed=not failed,
                    asset_key=key.asset_key,
                    check_name=key.name,
                    severity=_severity([result for _, result in failed]),
                    metadata=check_metadata(results),
                    description=", ".join(f"{day}: {result.found}" for day, result in failed)
                    or None,
                )

    def _add_checks(self, day: date, built: BuiltPartition) -> None:
        for check in built.checks:
            self._results[built.table.name, check.rule].append((day.isoformat(), check))

    def _add_was_built(self, day: date, table: str, error: str | None) -> None:
        result = CheckResult(table, WAS_BUILT, error is None, "built", error or "built")
        self._results[table, WAS_BUILT].append((day.isoformat(), result))


def _severity(results: Collection[CheckResult]) -> dg.AssetCheckSeverity:
    is_warning = results and all(result.severity == "warning" for result in results)
    return dg.AssetCheckSeverity.WARN if is_warning else dg.AssetCheckSeverity.ERROR
