"""The code location on a temporary folder and an instance of its own, driven step by step."""

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
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.workplace import Workplace

FIRST_DAY = date(2025, 2, 6)
"""Past for the clock of any machine; 480 days before the noon of the builders."""

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
    "model_comparison",
    "model_comparison_pairs",
    "model_regressions",
    "model_comparison_report",
    "analytics_database",
)


UNFINISHED = ["", "RUN_ENQUEUED", "RUN_STARTING", "RUN_START", "RUN_CANCELING"]
"""The last event of a run that is created, queued, starting, started or about to be cancelled."""


@cache
def repository() -> dg.RepositoryDefinition:
    """Everything the code location holds, loaded once."""
    return defs().get_repository_def()


def day(number: int) -> date:
    """So many days after the first one."""
    return FIRST_DAY + timedelta(days=number)


def session_line(number: int, session: str = "s", second: float = 0, **values: object) -> bytes:
    """One line with the four events of a session that began on that day at noon.

    A prompt, two tool calls that succeed and an answered request; ``values`` go to the tool calls.
    """
    began = (number - 480) * 86_400 + second
    named = {"session__id": f"{session}-{number}"}
    result = {"tool_name": "Read", "success": "true", "duration_ms": "10", **named, **values}
    tokens = {"input_tokens": 100, "output_tokens": 50, "cache_read_tokens": 300}
    return line(
        claude("user_prompt", began, **named),
        claude("tool_result", began + 10, **result),
        claude("tool_result", began + 20, **result),
        claude("api_request", began + 30, model="model-a", cost_usd=0.02, **tokens, **named),
    )


def land_at(workplace: Workplace, time: datetime, *numbers: int) -> None:
    """Land a session of each day and ingest it at that time."""
    workplace.land("logs.jsonl", b"".join(map(session_line, numbers)), "ab")
    Ingest(workplace.stores, lambda: time).run()


def _origin(job: str) -> RemoteJobOrigin:
    target = LoadableTargetOrigin(python_file="definitions.py")
    location = InProcessCodeLocationOrigin(loadable_target_origin=target)
    return RemoteRepositoryOrigin(location, "__repository__").get_job_origin(job)


def range_tags(first: date, last: date) -> dict[str, str]:
    """The tags of a run over a range of dates."""
    return {
        ASSET_PARTITION_RANGE_START_TAG: first.isoformat(),
        ASSET_PARTITION_RANGE_END_TAG: last.isoformat(),
    }


@dataclass
class CodeLocation:
    """Sensors are ticked and runs executed in this process, where a test says so."""

    workplace: Workplace
    instance: dg.DagsterInstance
    cursors: dict[str, str | None] = field(default_factory=dict)
    remembered: dict[str, AssetDaemonCursor] = field(default_factory=dict)

    def tick(self, sensor: str) -> SensorExecutionData:
        """Evaluate a sensor as the daemon does, with the cursor it left."""
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

    def asks(self, sensor: str) -> int:
        """How many runs a tick asks for."""
        return len(self.tick(sensor).run_requests or [])

    def requested(self, sensor: str) -> list[tuple[date, date]]:
        """First and last date of each run that a tick asks for."""
        return [
            (
                date.fromisoformat(each.tags[ASSET_PARTITION_RANGE_START_TAG]),
                date.fromisoformat(each.tags[ASSET_PARTITION_RANGE_END_TAG]),
            )
            for each in self.tick(sensor).run_requests or []
        ]

    def follow(self, sensor: str) -> dg.ExecuteInProcessResult:
        """Tick a sensor, which must ask for one run, and execute that."""
        (request,) = self.tick(sensor).run_requests or []
        (target,) = repository().get_sensor_def(sensor).jobs
        return self.execute(target.name, request.tags)

    def night(self, at: datetime | None = None) -> dg.RunRequest | str:
        """What the schedule of the night asks for at a time, or why it asks for nothing."""
        with dg.build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=at or datetime.now(UTC),
            repository_def=repository(),
            resources=repository().get_top_level_resources(),
        ) as context:
            schedule = repository().get_schedule_def("nightly_evaluation")
            ticked = schedule.evaluate_tick(context)
        if not ticked.run_requests:
            return ticked.skip_message or ""
        (request,) = ticked.run_requests
        return request

    def sleep_over(self, *assets: str) -> dg.ExecuteInProcessResult:
        """A night: the schedule, which must ask for a run, and that run; of some assets or all."""
        request = self.night()
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
        """Run a job in this process; a run that fails raises nothing."""
        found = repository().get_job(job)
        return found.execute_in_process(
            instance=self.instance, tags=tags, run_config=config, raise_on_error=False
        )

    def build(self, first: int, last: int | None = None) -> dg.ExecuteInProcessResult:
        """Run the job of the daily tables over days by their number."""
        tags = range_tags(day(first), day(first if last is None else last))
        return self.execute("build_daily_tables", tags)

    def materialize(self, number: int, *assets: str) -> dg.ExecuteInProcessResult:
        """What a click on "Materialize" of some assets and one partition runs."""
        return self.materialize_range(number, number, *assets)

    def materialize_range(self, first: int, last: int, *assets: str) -> dg.ExecuteInProcessResult:
        """What a backfill of some assets runs; a run that fails raises nothing."""
        return self._materialize(first, last, assets, None)

    def materialize_without_checks(self, first: int, last: int) -> dg.ExecuteInProcessResult:
        """All daily tables of a range, with no check selected."""
        return self._materialize(first, last, DAILY_TABLES, set())

    def _materialize(
        self, first: int, last: int, assets: Sequence[str], checks: set[dg.AssetCheckKey] | None
    ) -> dg.ExecuteInProcessResult:
        job = repository().get_implicit_global_asset_job_def()
        selected = job.get_subset(
            asset_selection={dg.AssetKey(each) for each in assets}, asset_check_selection=checks
        )
        return selected.execute_in_process(
            instance=self.instance,
            tags=range_tags(day(first), day(last)),
            raise_on_error=False,
        )

    def execute_aggregates(self) -> None:
        """Materialize all assets without partitions in one run, as their sensor asks for it."""
        self.begin_aggregates()()

    def execute_asset(self, asset: str) -> dg.ExecuteInProcessResult:
        """Materialize an asset without partitions."""
        return self.execute_assets(asset)

    def execute_assets(self, *assets: str) -> dg.ExecuteInProcessResult:
        """Materialize assets without partitions in one run, with the checks that come of it."""
        job = repository().get_implicit_global_asset_job_def()
        selected = job.get_subset(asset_selection={dg.AssetKey(each) for each in assets})
        return selected.execute_in_process(instance=self.instance)

    def execute_date(self, partition: str | None, *assets: str) -> dg.ExecuteInProcessResult:
        """The same of one partition, or of none; a run that fails raises nothing."""
        job = repository().get_implicit_global_asset_job_def()
        selected = job.get_subset(asset_selection={dg.AssetKey(each) for each in assets})
        return selected.execute_in_process(
            instance=self.instance, partition_key=partition, raise_on_error=False
        )

    def begin_aggregates(self) -> Callable[[], object]:
        """Such a run begins; call what is given to let it do its work."""
        keys = frozenset(map(dg.AssetKey, AGGREGATES))
        job = repository().get_implicit_global_asset_job_def().get_subset(asset_selection=set(keys))
        run = self.instance.create_run_for_job(job, asset_selection=keys)
        starting = dg.DagsterEvent(dg.DagsterEventType.PIPELINE_STARTING.value, job.name)
        self.instance.report_dagster_event(starting, run.run_id)
        return lambda: execute_run(InMemoryJob(job), run, self.instance)

    def run_checks(self, asset: str, *names: str) -> dict[str, bool]:
        """Run some checks alone; gives which of them passed."""
        chosen = {dg.AssetCheckKey(dg.AssetKey(asset), name) for name in names}
        job = repository().get_implicit_global_asset_job_def()
        selected = job.get_subset(asset_selection=set(), asset_check_selection=chosen)
        result = selected.execute_in_process(instance=self.instance)
        return {each.check_name: each.passed for each in result.get_asset_check_evaluations()}

    def aggregates_asked_for(self, sensor: str = "aggregates_sensor") -> set[str]:
        """Assets that a sensor's automation conditions want now, with what they remember."""
        return set(self.wanted(sensor))

    def wanted(
        self, sensor: str = "aggregates_sensor", at: datetime | None = None
    ) -> dict[str, int]:
        """The same with how many partitions of each; as of a time, or now."""
        return {name: len(keys) for name, keys in self.wanted_partitions(sensor, at).items()}

    def wanted_partitions(
        self, sensor: str, at: datetime | None = None
    ) -> dict[str, list[str | None]]:
        """The same with the partitions of each; an asset without them has one, which is None."""
        selection = repository().get_sensor_def(sensor).asset_selection
        assert selection is not None
        ticked = dg.evaluate_automation_conditions(
            defs(),
            self.instance,
            selection,
            evaluation_time=at,
            cursor=self.remembered.get(sensor),
        )
        self.remembered[sensor] = ticked.cursor
        return {
            each.key.to_user_string(): sorted(
                (
                    part.partition_key
                    for part in each.true_subset.expensively_compute_asset_partitions()
                ),
                key=str,
            )
            for each in ticked.results
            if not each.true_subset.is_empty
        }

    def run_ingest(self, content: bytes) -> list[str]:
        """Append to a landing file and run the job that reads it; gives the lines of its log."""
        self.workplace.land("logs.jsonl", content, "ab")
        result = self.execute("ingest_landing")
        assert result.success
        return [each.user_message for each in self.instance.all_logs(result.run_id)]

    def land(self, *numbers: int) -> None:
        """Land a session of each day, and ingest."""
        land_at(self.workplace, datetime.now(UTC), *numbers)

    def materialized(self, asset: str) -> list[date]:
        """Dates of an asset that the instance counts as materialized."""
        found = self.instance.get_materialized_partitions(dg.AssetKey(asset))
        return sorted(map(date.fromisoformat, found))

    def metadata(self, asset: str, number: int) -> dict[str, object]:
        """What the newest materialization of a day says."""
        which = dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[str(day(number))])
        (record,) = self.instance.fetch_materializations(which, limit=1).records
        assert record.asset_materialization is not None
        return {name: each.value for name, each in record.asset_materialization.metadata.items()}

    def start(
        self, job: str, tags: Mapping[str, str] | None = None, reached: str = "RUN_START"
    ) -> dg.DagsterRun:
        """A run of which only the instance knows; ``reached`` names the last event of it."""
        origin = _origin(job) if reached == "RUN_ENQUEUED" else None  # a queued run needs one
        run = self.instance.create_run_for_job(
            repository().get_job(job), tags=tags, remote_job_origin=origin
        )
        if reached:
            event = dg.DagsterEvent(dg.DagsterEventType[reached].value, job)
            self.instance.report_dagster_event(event, run.run_id)
        return run

    def kill(self, tags: Mapping[str, str], reached: str = "RUN_START") -> None:
        """A build whose process is killed, as the daemon finds and reports it."""
        run = self.start("build_daily_tables", tags, reached)
        self.instance.report_run_failed(run, "the process is gone")

    def stale(self, of: date) -> set[str]:
        """Daily tables that the interface marks as older than what they are made from."""
        graph = repository().asset_graph
        found = CachingStaleStatusResolver(
            self.instance, graph, LoadingContextForTest(self.instance)
        )
        status = {each: found.get_status(dg.AssetKey(each), str(of)) for each in DAILY_TABLES}
        return {each for each, found in status.items() if found == StaleStatus.STALE}

    def check(self, asset: str, name: str) -> dg.AssetCheckEvaluation:
        """The newest result of a check."""
        key = dg.AssetCheckKey(dg.AssetKey(asset), name)
        storage = self.instance.event_log_storage
        record = storage.get_latest_asset_check_execution_by_key([key])[key]
        assert record.event is not None
        assert record.event.dagster_event is not None
        return record.event.dagster_event.asset_check_evaluation_data


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """What the one failed step of a run says."""
    (failed,) = (event for event in result.all_events if event.is_step_failure)
    data = failed.step_failure_data
    failure = data.user_failure_data
    return (failure.description if failure else None) or str(data.error)


def check_texts(evaluation: dg.AssetCheckEvaluation) -> dict[str, object]:
    """Metadata of a check result as plain values."""
    return {name: each.value for name, each in evaluation.metadata.items()}
