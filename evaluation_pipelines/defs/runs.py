"""Runs: their requests, resources, log, and the message of a failed one."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from logging import Logger

import dagster as dg
from dagster_duckdb import DuckDBResource

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import FAILED_RUN, RaisedAlert, run_of
from evaluation_pipelines.defs.automation import NIGHT_RUN, tagged_dates, tagged_range
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.stores import Stores, open_stores

UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""Statuses of runs that were created and have not ended."""

SECONDS_AFTER_CANCELLATION = 600
CANCELED = (
    f"the last run was canceled: the next one waits {SECONDS_AFTER_CANCELLATION // 60} minutes, "
    "unless you start one. To stop for longer, switch this sensor off."
)


def is_unfinished(instance: dg.DagsterInstance, job_name: str) -> bool:
    """True if a run of a job was created and has not ended."""
    return instance.get_runs_count(dg.RunsFilter(job_name=job_name, statuses=UNFINISHED)) > 0


def ranges_in_runs(instance: dg.DagsterInstance) -> list[tuple[date, date]]:
    """Return the first and last date of each unfinished run over dates."""
    runs = instance.get_runs(dg.RunsFilter(statuses=UNFINISHED))
    return [dates for run in runs if (dates := tagged_dates(run.tags))]


def failed_recently(instance: dg.DagsterInstance, job_name: str, seconds: float) -> bool:
    """True if the last run of a job failed less than ``seconds`` ago: another would fail, too."""
    return _ended_recently(instance, job_name, dg.DagsterRunStatus.FAILURE, seconds)


def canceled_recently(instance: dg.DagsterInstance, job_name: str) -> bool:
    """True if the last run of a job was canceled a short time ago: it must not start again."""
    return _ended_recently(
        instance, job_name, dg.DagsterRunStatus.CANCELED, SECONDS_AFTER_CANCELLATION
    )


def is_nightly(run: dg.DagsterRun) -> bool:
    """True for a nightly run, whose steps report failures as alerts and let later steps go on."""
    return NIGHT_RUN.items() <= run.tags.items()


def last_date_done(instance: dg.DagsterInstance, job_name: str) -> date | None:
    """Return the last date of the last run of a job that succeeded; ``None`` if none has."""
    done = dg.RunsFilter(job_name=job_name, statuses=[dg.DagsterRunStatus.SUCCESS])
    for run in instance.get_runs(done, limit=1):
        if dates := tagged_range(run.tags):
            return dates[1]
    return None


def _ended_recently(
    instance: dg.DagsterInstance, job_name: str, status: dg.DagsterRunStatus, seconds: float
) -> bool:
    """True if the last run of a job ended in ``status`` less than ``seconds`` ago."""
    for record in instance.get_run_records(dg.RunsFilter(job_name=job_name), limit=1):
        is_so = record.dagster_run.status == status
        return is_so and time.time() - (record.end_time or 0) < seconds
    return False


_SECONDS_BETWEEN_LINES = 5.0


class LoggedProgress:
    """Progress that logs units done, total, rate and details every few seconds."""

    def __init__(self, log: Logger, also: Callable[[], None] = lambda: None) -> None:
        """Log to ``log``; ``also`` is called after each line."""
        self._log = log
        self._also = also
        self._what, self._total, self._done = "", 0, 0
        self._detail = ""
        self._began = self._logged = time.monotonic()

    def begin(self, what: str, total: int) -> None:
        """Start a step of ``total`` units."""
        self._what, self._total, self._done = what, total, 0
        self._began = self._logged = time.monotonic()

    def advance(self, units: int) -> None:
        """Advance the progress by ``units``."""
        self._done += units
        now = time.monotonic()
        if now - self._logged >= _SECONDS_BETWEEN_LINES or self._done >= self._total:
            self._logged = now
            rate = self._done / max(now - self._began, 1e-9)
            so_far = f"{self._what}: {self._done} of {self._total} ({rate:.3g}/s)"
            self._log.info("%s%s", so_far, self._detail)
            self._also()

    def tell(self, detail: str) -> None:
        """Add ``detail`` to the lines that follow."""
        self._detail = f", {detail}"


_MOST_RUNS = 100
"""Newest good runs of a job that are looked at."""
_UNKNOWN_FOR = timedelta(days=1)
"""A run may be unknown here and known to another instance of Dagster with the same ledger."""


def end_good_job_alerts(instance: dg.DagsterInstance, ledger: Ledger, now: datetime) -> None:
    """End the open alerts of failed runs whose work was done since, or that were deleted.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    raised = [row for row in AlertStore(ledger).all() if row.ended_at is None]
    failed = [alert for alert in raised if alert.alert.kind == FAILED_RUN]
    over = {alert.alert.cause for alert in failed if _is_over(instance, alert, now)}
    AlertStore(ledger).end(FAILED_RUN, over, now)


def _is_over(instance: dg.DagsterInstance, raised: RaisedAlert, now: datetime) -> bool:
    run_id = run_of(raised.alert)
    failed = None if run_id is None else instance.get_run_record_by_id(run_id)
    if failed is None:
        return raised.raised_at < now - _UNKNOWN_FOR
    job = failed.dagster_run.job_name
    good = dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.SUCCESS])
    since = [
        record.dagster_run
        for record in instance.get_run_records(good, limit=_MOST_RUNS)
        if (record.end_time or 0) > (failed.end_time or 0)
    ]
    return _is_done_by(since, failed.dagster_run)


def _is_done_by(runs: Collection[dg.DagsterRun], failed: dg.DagsterRun) -> bool:
    """True if there are runs with all assets and checks of a failed one, of all of its dates."""
    whole = [run for run in runs if _has_all_of(run, failed)]
    done = {day for run in whole for day in _dates_of(run.tags)}
    return bool(whole) and done.issuperset(_dates_of(failed.tags))


def _has_all_of(run: dg.DagsterRun, other: dg.DagsterRun) -> bool:
    """Compare what two runs of a job select; ``None`` is everything."""
    pairs = (
        (run.asset_selection, other.asset_selection),
        (run.asset_check_selection, other.asset_check_selection),
    )
    return all(ours is None or (theirs is not None and theirs <= ours) for ours, theirs in pairs)


def _dates_of(tags: Mapping[str, str]) -> set[date]:
    dates = tagged_dates(tags)
    if dates is None:
        return set()
    first, last = dates
    return {first + timedelta(days=index) for index in range((last - first).days + 1)}


class StoresResource(dg.ConfigurableResource[Stores]):
    """Landing folder, lake and ledger, configured by the environment of the run.

    Nothing is run configuration, since a ledger URL may contain a password.
    """

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Stores]:
        """Open the stores for one run or tick."""
        with open_stores(load_settings()) as stores:
            yield stores


@dg.definitions
def resources() -> dg.Definitions:
    """Return every resource by the name of its parameter."""
    return dg.Definitions(
        resources={
            "stores": StoresResource(),
            # In memory: a DuckDB file that is open for writing would lock out other processes.
            "duckdb": DuckDBResource(database=":memory:"),
        }
    )
