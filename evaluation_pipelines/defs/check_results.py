"""Freshness policies of the assets that people open.

An asset without a policy may have any age. The tables of a date have none, except one: a date is
as fresh as its telemetry, and is rebuilt when that changes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import date, timedelta

import dagster as dg

from evaluation_pipelines.build import DateFailed
from evaluation_pipelines.defs.metadata import check_metadata
from evaluation_pipelines.schemas.table import CheckResult
from evaluation_pipelines.storage.daily_table import BuiltPartition, DailyTable

WITH_TELEMETRY = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=36), fail_window=timedelta(days=4)
)
"""Warns after a working day without any session, fails after a long weekend without one."""

EVERY_HOUR = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=3), fail_window=timedelta(hours=26)
)
"""For assets built hourly and by the nightly run. Three hours without a build mean that runs fail
or wait; a night and two hours mean that people read yesterday's data."""


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
    """Return the result of one check as Dagster's."""
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
        for key in sorted(selected, key=lambda each: each.to_user_string()):
            results = self._results[key.asset_key.to_user_string(), key.name]
            failed = [(day, each) for day, each in results if not each.passed]
            if results:
                yield dg.AssetCheckResult(
                    passed=not failed,
                    asset_key=key.asset_key,
                    check_name=key.name,
                    severity=_severity([each for _, each in failed]),
                    metadata=check_metadata(results),
                    description="; ".join(f"{day}: {each.found}" for day, each in failed) or None,
                )

    def _add_checks(self, day: date, built: BuiltPartition) -> None:
        for each in built.checks:
            self._results[built.table.name, each.rule].append((day.isoformat(), each))

    def _add_was_built(self, day: date, table: str, error: str | None) -> None:
        result = CheckResult(table, WAS_BUILT, error is None, "built", error or "built")
        self._results[table, WAS_BUILT].append((day.isoformat(), result))


def _severity(results: Collection[CheckResult]) -> dg.AssetCheckSeverity:
    is_warning = results and all(each.severity == "warning" for each in results)
    return dg.AssetCheckSeverity.WARN if is_warning else dg.AssetCheckSeverity.ERROR
