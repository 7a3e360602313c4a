"""The code location on temporary stores and instance, driven step by step in this process."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache

import dagster as dg
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.execution.api import execute_run
from dagster._core.loader import LoadingContextForTest
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from evaluation_pipelines.definitions import defs
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import session as told

FIRST_DAY = date(2025, 2, 6)
"""480 days before the noon of the builders, and in the past on any machine."""

DAILY_TABLES = (
    "agent_events",
    "agent_sessions",
    "session_performance",
    "tool_reports",
    "scorecards",
    "session_evaluations",
)
AGGREGATES = (
    "masque_lift",
    "missing_tools",
    "judge_changes",
    "judge_anchors",
    "outcome_predictions",
    "model_comparison",
    "model_comparison_pairs",
    "model_regressions",
    "model_comparison_report",
    "analytics_database",
)


UNFINISHED = ["", "RUN_ENQUEUED", "RUN_STARTING", "RUN_START", "RUN_CANCELING"]
"""Last event of a run that is created, queued, starting, started or being canceled."""


@cache
def repository() -> dg.RepositoryDefinition:
    return defs().get_repository_def()


def day(number: int) -> date:
    return FIRST_DAY + timedelta(days=number)


def session_line(number: int, session: str = "s", second: float = 0, **values: object) -> bytes:
    """Return one line with the four events of a session that began at noon of a day.

    They are a prompt, two successful tool calls with ``values``, and an answered request.
    """
    began = (number - 480) * 86_400 + second
    tokens = {"input_tokens": 100, "output_tokens": 50, "cache_read_tokens": 300}
    return told(
        f"{session}-{number}",
        began,
        calls=("Read", "Read"),
        call={"duration_ms": "10", **values},
        request={"model": "model-a", "cost_usd": 0.02, **tokens},
        every_s=10,
    )


def land_at(workplace: Workplace, time: datetime, *numbers: int) -> None:
    workplace.land("logs.jsonl", b"".join(map(session_line, numbers)), "ab")
    Ingest(workplace.stores, lambda: time).run()


def _origin(job: str) -> RemoteJobOrigin:
    target = LoadableTargetOrigin(python_file="definitions.py")
    location = InProcessCodeLocationOrigin(loadable_target_origin=target)
    return RemoteRepositoryOrigin(location, "__repository__").get_job_origin(job)


def range_tags(first: date, last: date) -> dict[str, str]:
    return {
        ASSET_PARTITION_RANGE_START_TAG: first.isoformat(),
        ASSET_PARTITION_RANGE_END_TAG: last.isoformat(),
    }


@dataclass
class CodeLocation:
    """The code location; tests tick its sensors and execute its runs."""

    workplace: Workplace
    instance: dg.DagsterInstance
    cursors: dict[str, str | None] = field(default_factory=dict)
    automation_cursors: dict[str, AssetDaemonCursor] = field(default_factory=dict)

    def tick(self, sensor: str) -> SensorExecutionData:
        """Evaluate a sensor as the daemon does, with the cursor of its last tick."""
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(sensor),
            repository_def=repository(),
            sensor_name=sensor,
            resources=repository().get_top_level_resources(),
        ) as context:
            ticked = repository().get_sensor_def(sensor).evaluate_tick(context)
        self.cursors[sensor] = ticked.cursor
        return ticked

    def request_count(self, sensor: str) -> int:
        """Tick a sensor and return the number of runs it requests."""
        return len(self.tick(sensor).run_requests or [])

    def requested_ranges(self, sensor: str) -> list[tuple[date, date]]:
        """Tick a sensor and return the first and last date of each run it requests."""
        return [
            (
                date.fromisoformat(request.tags[ASSET_PARTITION_RANGE_START_TAG]),
                date.fromisoformat(request.tags[ASSET_PARTITION_RANGE_END_TAG]),
            )
            for request in self.tick(sensor).run_requests or []
        ]

    def run_requested(self, sensor: str) -> dg.ExecuteInProcessResult:
        """Tick a sensor, which must request one run, and execute the run."""
        (request,) = self.tick(sensor).run_requests or []
        (target,) = repository().get_sensor_def(sensor).jobs
        return self.execute(target.name, request.tags)

    def nightly_request(self) -> dg.RunRequest | str:
        """Return the run that the nightly schedule requests now, or its skip message."""
        with dg.build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=datetime.now(UTC),
            repository_def=repository(),
            resources=repository().get_top_level_resources(),
        ) as context:
            schedule = repository().get_schedule_def("nightly_evaluation")
            ticked = schedule.evaluate_tick(context)
        if not ticked.run_requests:
            return ticked.skip_message or ""
        (request,) = ticked.run_requests
        return request

    def run_night(self, *assets: str) -> dg.ExecuteInProcessResult:
        """Execute the run that the nightly schedule requests, of some assets or all."""
        request = self.nightly_request()
        assert isinstance(request, dg.RunRequest), request
        return (
            repository()
            .get_job("nightly_evaluation")
            .execute_in_process(
                instance=self.instance,
                tags=request.tags,
                run_config=request.run_config,
                asset_selection=list(map(dg.AssetKey, assets)) or None,
                raise_on_error=False,
            )
        )

    def execute(
        self,
        job: str,
        tags: Mapping[str, str] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Execute a job in this process; a failed run does not raise."""
        found = repository().get_job(job)
        return found.execute_in_process(
            instance=self.instance, tags=tags, run_config=config, raise_on_error=False
        )

    def build(self, first: int, last: int | None = None) -> dg.ExecuteInProcessResult:
        """Execute the build of the daily tables over days by number."""
        tags = range_tags(day(first), day(first if last is None else last))
        return self.execute("build_daily_tables", tags)

    def materialize(self, number: int, *assets: str) -> dg.ExecuteInProcessResult:
        """Execute the run of "Materialize" for some assets and one partition."""
        return self.materialize_range(number, number, *assets)

    def materialize_range(self, first: int, last: int, *assets: str) -> dg.ExecuteInProcessResult:
        """Execute the run of a backfill of some assets; a failed run does not raise."""
        return self._materialize(first, last, assets, None)

    def materialize_without_checks(self, first: int, last: int) -> dg.ExecuteInProcessResult:
        """Materialize all daily tables of a range without checks."""
        return self._materialize(first, last, DAILY_TABLES, set())

    def _materialize(
        self, first: int, last: int, assets: Sequence[str], checks: set[dg.AssetCheckKey] | None
    ) -> dg.ExecuteInProcessResult:
        job = repository().get_implicit_global_asset_job_def()
        selected = job.get_subset(
            asset_selection={dg.AssetKey(asset) for asset in assets}, asset_check_selection=checks
        )
        return selected.execute_in_process(
            instance=self.instance,
            tags=range_tags(day(first), day(last)),
            raise_on_error=False,
        )

    def execute_aggregates(self) -> None:
        """Materialize all assets without partitions in one run, as their sensor requests it."""
        self.begin_aggregates()()

    def execute_asset(self, asset: str) -> dg.ExecuteInProcessResult:
        """Materialize an asset without partitions."""
        return self.execute_assets(asset)

    def execute_assets(self, *assets: str) -> dg.ExecuteInProcessResult:
        """Materialize assets without partitions in one run, with their checks."""
        job = repository().get_implicit_global_asset_job_def()
        selected = job.get_subset(asset_selection={dg.AssetKey(asset) for asset in assets})
        return selected.execute_in_process(instance=self.instance)

    def execute_date(self, partition: str | None, *assets: str) -> dg.ExecuteInProcessResult:
        """Materialize assets with one partition, or without; a failed run does not raise."""
        job = repository().get_implicit_global_asset_job_def()
        selected = job.get_subset(asset_selection={dg.AssetKey(asset) for asset in assets})
        return selected.execute_in_process(
            instance=self.instance, partition_key=partition, raise_on_error=False
        )

    def begin_aggregates(self) -> Callable[[], object]:
        """Start a run of all assets without partitions; call the result to execute it."""
        return self.begin(*AGGREGATES)

    def begin_date(self, number: int, asset: str) -> Callable[[], object]:
        """Start a run of one date of an asset; call the result to execute it."""
        return self.begin(asset, tags=range_tags(day(number), day(number)))

    def begin(self, *assets: str, tags: Mapping[str, str] | None = None) -> Callable[[], object]:
        """Start a run of some assets; call the result to execute it."""
        keys = frozenset(map(dg.AssetKey, assets))
        job = repository().get_implicit_global_asset_job_def().get_subset(asset_selection=set(keys))
        run = self.instance.create_run_for_job(job, asset_selection=keys, tags=tags)
        starting = dg.DagsterEvent(dg.DagsterEventType.PIPELINE_STARTING.value, job.name)
        self.instance.report_dagster_event(starting, run.run_id)
        return lambda: execute_run(InMemoryJob(job), run, self.instance)

    def run_checks(self, asset: str, *names: str) -> dict[str, bool]:
        """Execute some checks of an asset, and return by name whether they passed."""
        chosen = {dg.AssetCheckKey(dg.AssetKey(asset), name) for name in names}
        job = repository().get_implicit_global_asset_job_def()
        selected = job.get_subset(asset_selection=set(), asset_check_selection=chosen)
        result = selected.execute_in_process(instance=self.instance)
        return {
            evaluation.check_name: evaluation.passed
            for evaluation in result.get_asset_check_evaluations()
        }

    def requested_assets(self, sensor: str = "aggregates_sensor") -> set[str]:
        """Return the assets that the automation conditions of a sensor request now."""
        return set(self.requested_counts(sensor))

    def requested_counts(
        self, sensor: str = "aggregates_sensor", at: datetime | None = None
    ) -> dict[str, int]:
        """Return the number of requested partitions of each asset, at a time or now."""
        return {name: len(keys) for name, keys in self.requested_partitions(sensor, at).items()}

    def requested_partitions(
        self, sensor: str, at: datetime | None = None
    ) -> dict[str, list[str | None]]:
        """Return the requested partitions of each asset; ``None`` for one without partitions."""
        selection = repository().get_sensor_def(sensor).asset_selection
        assert selection is not None
        ticked = dg.evaluate_automation_conditions(
            defs(),
            self.instance,
            selection,
            evaluation_time=at,
            cursor=self.automation_cursors.get(sensor),
        )
        self.automation_cursors[sensor] = ticked.cursor
        return {
            result.key.to_user_string(): sorted(
                (
                    part.partition_key
                    for part in result.true_subset.expensively_compute_asset_partitions()
                ),
                key=str,
            )
            for result in ticked.results
            if not result.true_subset.is_empty
        }

    def run_ingest(self, content: bytes) -> list[str]:
        """Append to a landing file, execute the ingest, and return the lines of its log."""
        self.workplace.land("logs.jsonl", content, "ab")
        result = self.execute("ingest_landing")
        assert result.success
        return [log.user_message for log in self.instance.all_logs(result.run_id)]

    def land(self, *numbers: int) -> None:
        """Land a session of each day, and ingest them."""
        land_at(self.workplace, datetime.now(UTC), *numbers)

    def materialized(self, asset: str) -> list[date]:
        """Return the dates of an asset that the instance counts as materialized."""
        found = self.instance.get_materialized_partitions(dg.AssetKey(asset))
        return sorted(map(date.fromisoformat, found))

    def metadata(self, asset: str, number: int) -> dict[str, object]:
        """Return the metadata of the newest materialization of a day, as plain values."""
        which = dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[str(day(number))])
        (record,) = self.instance.fetch_materializations(which, limit=1).records
        assert record.asset_materialization is not None
        return {name: value.value for name, value in record.asset_materialization.metadata.items()}

    def start(
        self, job: str, tags: Mapping[str, str] | None = None, reached: str = "RUN_START"
    ) -> dg.DagsterRun:
        """Create a run in the instance without executing it; ``reached`` is its last event."""
        origin = _origin(job) if reached == "RUN_ENQUEUED" else None  # a queued run needs one
        run = self.instance.create_run_for_job(
            repository().get_job(job), tags=tags, remote_job_origin=origin
        )
        if reached:
            event = dg.DagsterEvent(dg.DagsterEventType[reached].value, job)
            self.instance.report_dagster_event(event, run.run_id)
        return run

    def kill(self, tags: Mapping[str, str], reached: str = "RUN_START") -> None:
        """Create a build whose process is killed, as the daemon reports it."""
        run = self.start("build_daily_tables", tags, reached)
        self.instance.report_run_failed(run, "the process is gone")

    def stale(self, of: date) -> set[str]:
        """Return the daily tables that the interface marks as older than their inputs."""
        graph = repository().asset_graph
        found = CachingStaleStatusResolver(
            self.instance, graph, LoadingContextForTest(self.instance)
        )
        status = {table: found.get_status(dg.AssetKey(table), str(of)) for table in DAILY_TABLES}
        return {key for key, found in status.items() if found == StaleStatus.STALE}

    def check(self, asset: str, name: str) -> dg.AssetCheckEvaluation:
        """Return the newest result of a check."""
        key = dg.AssetCheckKey(dg.AssetKey(asset), name)
        storage = self.instance.event_log_storage
        record = storage.get_latest_asset_check_execution_by_key([key])[key]
        assert record.event is not None
        assert record.event.dagster_event is not None
        return record.event.dagster_event.asset_check_evaluation_data


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    (failed,) = (event for event in result.all_events if event.is_step_failure)
    data = failed.step_failure_data
    failure = data.user_failure_data
    return (failure.description if failure else None) or str(data.error)


def svg_of(picture: str) -> str:
    encoded = picture.partition("base64,")[2].partition(")")[0]
    return base64.b64decode(encoded).decode()


def check_texts(evaluation: dg.AssetCheckEvaluation) -> dict[str, object]:
    """Return the metadata of a check result as plain values."""
    return {name: value.value for name, value in evaluation.metadata.items()}
