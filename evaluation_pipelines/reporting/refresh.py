"""All that only analysts read, made again: aggregates, reports, and their database."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.formatting import one_line
from evaluation_pipelines.judge_changes.measure import write_judge_changes
from evaluation_pipelines.judging.missing_tools import last_period, write_missing_tools
from evaluation_pipelines.reporting.analysts_database import Published
from evaluation_pipelines.reporting.comparison_report import refresh_comparison
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.reporting.report_files import Report
from evaluation_pipelines.storage.daily_table import ANY_ERROR
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What was published.

    Attributes:
        published: The database.
        reports: The reports that were made.
        failed: What could not be made and is published as before, each with its reason.
    """

    published: Published
    reports: list[Report] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def refresh_published(stores: Stores, now: datetime) -> Refreshed:
    """Make what a build does not write, and publish the analysts' database.

    Raises:
        AnalyticsError: The database cannot be published; the previous one stays.
    """
    reports, failed = list[Report](), dict[str, str]()
    made: dict[str, Callable[[], object]] = {
        "masque_lift": lambda: write_masque_lift(stores, now),
        "missing_tools": lambda: write_missing_tools(stores, last_period(now)),
        "judge_changes": lambda: write_judge_changes(stores, now),
        "the comparison of models": lambda: reports.append(refresh_comparison(stores, now)[1]),
    }
    for name, make in made.items():
        try:
            make()
        except ANY_ERROR as error:
            failed[name] = f"{type(error).__name__}: {one_line(str(error))}"
    return Refreshed(publish_analytics(stores, now), reports, failed)
