"""Simulation of Dagster's daemon over hours, in this process and at times set by a test.

It evaluates every schedule that is due, ticks every sensor that runs by default, and executes the
requested runs immediately, until no run is requested.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import dagster as dg
import time_machine
from dagster._utils.schedules import schedule_execution_time_iterator

from evaluation_pipelines_tests.defs.code_location import CodeLocation, repository

_BETWEEN_TICKS = timedelta(seconds=30)
_MAX_ROUNDS = 20


@dataclass(frozen=True)
class ExecutedRun:
    """One run: its time, requester, job and result."""

    at: datetime
    requested_by: str
    job: str
    result: dg.ExecuteInProcessResult


@dataclass
class Daemon:
    """Drives a code location through time."""

    location: CodeLocation
    time: time_machine.Traveller
    last_time: datetime
    runs: list[ExecutedRun] = field(default_factory=list)

    def live_until(self, moment: datetime) -> None:
        """Move the clock to ``moment``, and execute everything that is due by then."""
        self.time.move_to(moment)
        for schedule in repository().schedule_defs:
            if schedule.default_status == dg.DefaultScheduleStatus.RUNNING:
                self._evaluate(schedule, moment)
        self.last_time = moment
        for _ in range(_MAX_ROUNDS):
            requesting = [sensor.name for sensor in _running_sensors() if self._tick(sensor)]
            if not requesting:
                return
            self.time.shift(_BETWEEN_TICKS)
        message = f"at {moment} runs never end: {[run.job for run in self.runs[-9:]]}"
        raise AssertionError(message)

    def failed(self) -> list[ExecutedRun]:
        """Return the runs that did not succeed."""
        return [run for run in self.runs if not run.result.success]

    def _evaluate(self, schedule: dg.ScheduleDefinition, moment: datetime) -> None:
        """Evaluate a schedule at its newest time since the last call; missed times are skipped."""
        if (due := _newest_time(schedule, self.last_time, moment)) is None:
            return
        with dg.build_schedule_context(
            instance=self.location.instance,
            scheduled_execution_time=due,
            repository_def=repository(),
            resources=repository().get_top_level_resources(),
        ) as context:
            requests = schedule.evaluate_tick(context).run_requests or []
        for request in requests:
            self._run(schedule.name, schedule.job_name, request.tags, request.run_config)

    def _tick(self, sensor: dg.SensorDefinition) -> bool:
        """Tick a sensor and execute its runs; return whether it requested any."""
        if isinstance(sensor, dg.AutomationConditionSensorDefinition):
            return self._tick_conditions(sensor.name)
        requests = self.location.tick(sensor.name).run_requests or []
        for request in requests:
            job = request.job_name or sensor.jobs[0].name
            self._run(sensor.name, job, request.tags, request.run_config)
        return bool(requests)

    def _tick_conditions(self, sensor: str) -> bool:
        """Execute requested assets in runs as the daemon does: by date, and without partitions."""
        requested = self.location.requested_partitions(sensor)
        groups: dict[str | None, list[str]] = {}
        for asset, partitions in requested.items():
            for partition in partitions:
                groups.setdefault(partition, []).append(asset)
        for partition, assets in groups.items():
            result = self.location.execute_date(partition, *assets)
            self._note(sensor, ", ".join(assets), result)
        return bool(groups)

    def _run(
        self, requested_by: str, job: str, tags: Mapping[str, str], config: Mapping[str, object]
    ) -> None:
        self._note(requested_by, job, self.location.execute(job, tags, config))

    def _note(self, requested_by: str, job: str, result: dg.ExecuteInProcessResult) -> None:
        self.runs.append(ExecutedRun(datetime.now(UTC), requested_by, job, result))


def _running_sensors() -> Sequence[dg.SensorDefinition]:
    return [
        sensor_def
        for sensor_def in repository().sensor_defs
        if sensor_def.default_status == dg.DefaultSensorStatus.RUNNING
    ]


def _newest_time(
    schedule: dg.ScheduleDefinition, after: datetime, until: datetime
) -> datetime | None:
    newest = None
    for moment in _times(schedule, after):
        if moment > until:
            return newest
        newest = moment
    return newest


def _times(schedule: dg.ScheduleDefinition, after: datetime) -> Iterator[datetime]:
    zone = schedule.execution_timezone or "UTC"
    started = after.astimezone(ZoneInfo(zone)) + timedelta(microseconds=1)
    cron = schedule.cron_schedule
    return schedule_execution_time_iterator(started.timestamp(), cron, zone)
