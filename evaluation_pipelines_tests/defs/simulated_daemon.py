"""What Dagster's daemon does over hours, in this process and at a time that a test decides.

Every schedule whose time has come is evaluated, every sensor that runs by default is ticked, and
what they ask for is executed at once, until nobody asks for anything any more.
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
_MOST_ROUNDS = 20


@dataclass(frozen=True)
class Ran:
    """One run: who asked for it, when, and what became of it."""

    at: datetime
    asked_by: str
    job: str
    result: dg.ExecuteInProcessResult


@dataclass
class Daemon:
    """Drives a code location through time."""

    location: CodeLocation
    time: time_machine.Traveller
    looked_at: datetime
    runs: list[Ran] = field(default_factory=list)

    def live_until(self, moment: datetime) -> None:
        """Let the time be ``moment``, and do what there is to do by then."""
        self.time.move_to(moment)
        for schedule in repository().schedule_defs:
            if schedule.default_status == dg.DefaultScheduleStatus.RUNNING:
                self._evaluate(schedule, moment)
        self.looked_at = moment
        for _ in range(_MOST_ROUNDS):
            asked = [each.name for each in _running_sensors() if self._tick(each)]
            if not asked:
                return
            self.time.shift(_BETWEEN_TICKS)
        message = f"at {moment} there is no end of runs: {[each.job for each in self.runs[-9:]]}"
        raise AssertionError(message)

    def failed(self) -> list[Ran]:
        """The runs that did not succeed."""
        return [each for each in self.runs if not each.result.success]

    def _evaluate(self, schedule: dg.ScheduleDefinition, moment: datetime) -> None:
        """The newest time of a schedule since the last look: missed ones are not made up for."""
        if (due := _newest_time(schedule, self.looked_at, moment)) is None:
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
        """Whether a sensor asked for a run."""
        if isinstance(sensor, dg.AutomationConditionSensorDefinition):
            return self._tick_conditions(sensor.name)
        requests = self.location.tick(sensor.name).run_requests or []
        for request in requests:
            job = request.job_name or sensor.jobs[0].name
            self._run(sensor.name, job, request.tags, request.run_config)
        return bool(requests)

    def _tick_conditions(self, sensor: str) -> bool:
        """Runs as the daemon groups them: assets without partitions together, else by date."""
        wanted = self.location.wanted_partitions(sensor)
        groups: dict[str | None, list[str]] = {}
        for asset, partitions in wanted.items():
            for partition in partitions:
                groups.setdefault(partition, []).append(asset)
        for partition, assets in groups.items():
            result = self.location.execute_date(partition, *assets)
            self._note(sensor, ", ".join(assets), result)
        return bool(groups)

    def _run(
        self, asked_by: str, job: str, tags: Mapping[str, str], config: Mapping[str, object]
    ) -> None:
        self._note(asked_by, job, self.location.execute(job, tags, config))

    def _note(self, asked_by: str, job: str, result: dg.ExecuteInProcessResult) -> None:
        self.runs.append(Ran(datetime.now(UTC), asked_by, job, result))


def _running_sensors() -> Sequence[dg.SensorDefinition]:
    return [
        each
        for each in repository().sensor_defs
        if each.default_status == dg.DefaultSensorStatus.RUNNING
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
