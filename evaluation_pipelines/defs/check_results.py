"""The rules of the daily tables as asset checks: one result per table and rule for a whole run."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import date

import dagster as dg

from evaluation_pipelines.build.build import DateFailed
from evaluation_pipelines.defs.metadata import rule_metadata
from evaluation_pipelines.schemas.checks import CheckResult
from evaluation_pipelines.storage.daily_table import BuiltPartition, DailyTable

WAS_BUILT = "every_date_was_built"


def check_specs(
    tables: Iterable[DailyTable], blocking: Collection[str] = ()
) -> list[dg.AssetCheckSpec]:
    """For each of these tables: its rules, and whether all dates of the run were built.

    What follows in a run waits in vain for a rule of ``blocking`` that is broken.
    """
    return [
        dg.AssetCheckSpec(
            name, asset=daily.table.name, description=description, blocking=name in blocking
        )
        for daily in tables
        for name, description in {
            WAS_BUILT: "Every date of the run was built and published.",
            **daily.rule_descriptions(),
        }.items()
    ]


class CheckResults:
    """Collects what each date of a run was found to keep or to break."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, str], list[tuple[str, CheckResult]]] = defaultdict(list)

    def note_made(self, day: date, made: BuiltPartition) -> None:
        """A partition was published."""
        self._note_rules(day, made)
        self._note_built(day, made.table.name, None)

    def note_failed(self, failed: DateFailed) -> None:
        """A date failed at one of its tables."""
        if failed.broken is not None:
            self._note_rules(failed.session_date, failed.broken)
        self._note_built(failed.session_date, failed.table, failed.error)

    def check_results(
        self, selected: Collection[dg.AssetCheckKey]
    ) -> Iterator[dg.AssetCheckResult]:
        """One result for each selected check that had something to look at."""
        for key in sorted(selected, key=lambda each: each.to_user_string()):
            results = self._results[key.asset_key.to_user_string(), key.name]
            broken = [(day, each) for day, each in results if not each.passed]
            warns = bool(broken) and all(each.severity == "warning" for _, each in broken)
            if results:
                yield dg.AssetCheckResult(
                    passed=not broken,
                    asset_key=key.asset_key,
                    check_name=key.name,
                    severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
                    metadata=rule_metadata(results),
                    description="; ".join(f"{day}: {each.found}" for day, each in broken) or None,
                )

    def _note_rules(self, day: date, made: BuiltPartition) -> None:
        for each in made.rules:
            self._results[made.table.name, each.rule].append((day.isoformat(), each))

    def _note_built(self, day: date, table: str, error: str | None) -> None:
        result = CheckResult(table, WAS_BUILT, error is None, "built", error or "built")
        self._results[table, WAS_BUILT].append((day.isoformat(), result))
