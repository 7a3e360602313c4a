"""Batches of events: stored as Dagster's own storage stores them."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from threading import Thread

import dagster as dg
import pytest
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from evaluation_pipelines.defs.event_storage import EventLog, log_events
from evaluation_pipelines_tests.dagster_home import dagster_home

DAYS = [str(date(2026, 6, 1) + timedelta(days=number)) for number in range(5)]
TABLE = dg.AssetKey("table")


@dg.op
def log_partitions(context: dg.OpExecutionContext) -> None:
    """Log five partitions, each observed before it is materialized."""
    events: list[dg.AssetMaterialization | dg.AssetObservation] = []
    for day in DAYS:
        events.append(dg.AssetObservation(TABLE, partition=day, tags={"seen": day}))
        events.append(
            dg.AssetMaterialization(TABLE, partition=day, tags={DATA_VERSION_TAG: f"v-{day}"})
        )
    log_events(context, events)


@dg.op
def log_and_fail(context: dg.OpExecutionContext) -> None:
    """Log one partition, and raise an error."""

    def events() -> Iterator[dg.AssetMaterialization]:
        yield dg.AssetMaterialization(TABLE, partition=DAYS[0])
        raise RuntimeError("broken")

    log_events(context, events())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A DAGSTER_HOME with the configuration of the checkout."""
    return dagster_home(tmp_path)


def opened(folder: Path) -> dg.DagsterInstance:
    """Return the instance of a DAGSTER_HOME."""
    return dg.DagsterInstance.from_config(str(folder))


def plain(folder: Path) -> dg.DagsterInstance:
    """Return an instance with Dagster's own storage over the same files."""
    (folder / "plain").mkdir()
    storage = {"sqlite": {"base_dir": str(folder / "state")}}
    return dg.DagsterInstance.local_temp(
        str(folder / "plain"), {"storage": storage, "telemetry": {"enabled": False}}
    )


def run(
    instance: dg.DagsterInstance, op: dg.OpDefinition = log_partitions
) -> dg.ExecuteInProcessResult:
    """Execute a run of one step."""
    return dg.GraphDefinition(name="logging", node_defs=[op]).execute_in_process(
        instance=instance, raise_on_error=False
    )


def partition_events(instance: dg.DagsterInstance, run_id: str) -> list[tuple[str, str | None]]:
    """Return type and partition of the events of a run about partitions, in order."""
    entries = [each.get_dagster_event() for each in instance.all_logs(run_id) if each.dagster_event]
    return [(each.event_type_value, each.partition) for each in entries if each.partition]


def stored_events(instance: dg.DagsterInstance, run_id: str) -> list[dg.EventLogEntry]:
    """Return the stored events of a run about partitions, in order."""
    logs = instance.all_logs(run_id)
    return [each for each in logs if each.dagster_event and each.dagster_event.partition]


def materialized(instance: dg.DagsterInstance) -> list[str | None]:
    """Return the materialized partitions, newest event first."""
    records = instance.fetch_materializations(TABLE, limit=1000).records
    return [each.partition_key for each in records]


def test_the_configuration_of_the_checkout_uses_this_storage(home: Path) -> None:
    with opened(home) as instance:
        assert isinstance(instance.event_log_storage, EventLog)


def test_dagster_reads_a_stored_batch(home: Path) -> None:
    with opened(home) as instance:
        run_id = run(instance).run_id
    with plain(home) as dagster:
        assert type(dagster.event_log_storage).__name__ == "SqliteEventLogStorage"
        expected = [
            (kind, day) for day in DAYS for kind in ("ASSET_OBSERVATION", "ASSET_MATERIALIZATION")
        ]
        assert partition_events(dagster, run_id) == expected
        assert materialized(dagster) == DAYS[::-1]
        newest = dagster.get_latest_materialization_event(TABLE)
        assert newest is not None
        assert newest.asset_materialization is not None
        assert newest.asset_materialization.partition == DAYS[-1]
        tags = dagster.event_log_storage.get_latest_tags_by_partition(
            TABLE, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
        )
        assert tags == {day: {DATA_VERSION_TAG: f"v-{day}"} for day in DAYS}
        (asset,) = dagster.get_asset_records([TABLE])
        assert asset.asset_entry.last_run_id == run_id
        assert asset.asset_entry.last_materialization == newest
        run_of = dagster.get_run_by_id(run_id)
        assert run_of is not None
        assert run_of.status is dg.DagsterRunStatus.SUCCESS


def test_events_before_an_error_are_stored(home: Path) -> None:
    with opened(home) as instance:
        result = run(instance, log_and_fail)
        assert not result.success
        assert materialized(instance) == DAYS[:1]
        assert run(instance).success
    with plain(home) as dagster:
        assert partition_events(dagster, result.run_id) == [("ASSET_MATERIALIZATION", DAYS[0])]
        assert materialized(dagster) == [*DAYS[::-1], DAYS[0]]


def test_concurrent_writers_lose_nothing(home: Path) -> None:
    def go() -> None:
        with opened(home) as mine:  # a separate instance, as a process has
            storage = mine.event_log_storage
            assert isinstance(storage, EventLog)
            for _ in range(10):
                with storage.batch():
                    for day in DAYS:
                        event = dg.AssetMaterialization(TABLE, partition=day)
                        mine.report_runless_asset_event(event)

    with opened(home) as instance:
        with ThreadPoolExecutor() as threads:
            for each in [threads.submit(go) for _ in range(3)]:
                each.result()
        assert sorted(str(day) for day in materialized(instance)) == sorted(DAYS * 30)


def test_another_process_receives_events_during_the_run(home: Path) -> None:
    received: list[str | None] = []

    def receive(event: dg.EventLogEntry, _cursor: str) -> None:
        received.append(event.step_key)

    with opened(home) as instance, plain(home) as other:
        run_id = run(instance).run_id  # its file exists, as when the page of the run is opened
        other.watch_event_logs(run_id, None, receive)
        storage = instance.event_log_storage
        assert isinstance(storage, EventLog)
        with storage.batch():
            for event in stored_events(instance, run_id):
                storage.store_event(event)
        until = time.monotonic() + 30
        while received.count("log_partitions") < 2 * len(DAYS) and time.monotonic() < until:
            time.sleep(0.05)
        other.end_watch_event_logs(run_id, receive)
    assert len(received) >= 2 * len(DAYS)


def test_other_threads_can_log_during_a_batch(home: Path) -> None:
    @dg.op
    def busy(context: dg.OpExecutionContext) -> None:
        def chat() -> None:
            for number in range(50):
                context.log.info("%d", number)

        thread = Thread(target=chat, daemon=True)
        thread.start()
        for _ in range(5):
            log_events(context, [dg.AssetMaterialization(TABLE, partition=day) for day in DAYS])
        thread.join(60)
        assert not thread.is_alive()

    with opened(home) as instance:
        result = run(instance, busy)
        assert result.success
        assert len(partition_events(instance, result.run_id)) == 25
        lines = [each.user_message for each in instance.all_logs(result.run_id)]
        assert set(lines) >= {str(number) for number in range(50)}


def test_a_nested_batch_is_stored_with_the_outer_one(home: Path) -> None:
    with opened(home) as instance:
        storage = instance.event_log_storage
        assert isinstance(storage, EventLog)
        with storage.batch():
            with storage.batch():
                instance.report_runless_asset_event(dg.AssetMaterialization(TABLE, partition="a"))
            instance.report_runless_asset_event(dg.AssetMaterialization(TABLE, partition="b"))
            assert materialized(instance) == []
        assert materialized(instance) == ["b", "a"]


@pytest.mark.filterwarnings("ignore:.*backfill_policy.* is currently in beta")
def test_planned_events_are_stored_as_by_dagster(home: Path) -> None:
    days = dg.StaticPartitionsDefinition(DAYS)

    @dg.asset(partitions_def=days, backfill_policy=dg.BackfillPolicy.single_run())
    def planned() -> None: ...

    @dg.asset_check(asset=planned)
    def sound() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    counted = []
    job = dg.Definitions(
        assets=[planned], asset_checks=[sound]
    ).resolve_implicit_global_asset_job_def()
    between = {
        "dagster/asset_partition_range_start": DAYS[0],
        "dagster/asset_partition_range_end": DAYS[-1],
    }
    with opened(home) as ours, dg.DagsterInstance.ephemeral() as dagster:
        for instance in (ours, dagster):
            result = job.execute_in_process(instance=instance, tags=between)
            assert result.success
            kinds = [
                each.get_dagster_event().event_type_value
                for each in instance.all_logs(result.run_id)
                if each.dagster_event
            ]
            counted.append(Counter(kinds))
            records = instance.get_asset_records([planned.key])
            assert records[0].asset_entry.last_run_id == result.run_id
            assert instance.get_materialized_partitions(planned.key) == set(DAYS)
    assert counted[0] == counted[1]
    assert counted[0]["ASSET_MATERIALIZATION_PLANNED"] == len(DAYS)


def test_other_storages_take_the_events_one_by_one() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert len(partition_events(instance, run(instance).run_id)) == 10
