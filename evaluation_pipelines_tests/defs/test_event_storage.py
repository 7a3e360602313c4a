"""Events in SQLite files whose connections stay open: as Dagster itself would store them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from evaluation_pipelines.defs import event_storage
from evaluation_pipelines.defs.event_storage import EventLog, log_events
from evaluation_pipelines_tests.dagster_home import dagster_home

DAYS = [str(date(2026, 6, 1) + timedelta(days=number)) for number in range(5)]
TABLE = dg.AssetKey("table")


@dg.op
def tell(context: dg.OpExecutionContext) -> None:
    """Five partitions, each observed before it is made."""
    events: list[dg.AssetMaterialization | dg.AssetObservation] = []
    for day in DAYS:
        events.append(dg.AssetObservation(TABLE, partition=day, tags={"seen": day}))
        events.append(
            dg.AssetMaterialization(TABLE, partition=day, tags={DATA_VERSION_TAG: f"v-{day}"})
        )
    log_events(context, events)


@dg.op
def tell_and_break(context: dg.OpExecutionContext) -> None:
    """One partition, and then an error."""

    def events() -> Iterator[dg.AssetMaterialization]:
        yield dg.AssetMaterialization(TABLE, partition=DAYS[0])
        raise RuntimeError("broken")

    log_events(context, events())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of Dagster, configured as the checkout is."""
    return dagster_home(tmp_path)


def opened(folder: Path) -> dg.DagsterInstance:
    """The instance of a home."""
    return dg.DagsterInstance.from_config(str(folder))


def plain(folder: Path) -> dg.DagsterInstance:
    """An instance of Dagster's own storage over the same files."""
    (folder / "plain").mkdir()
    storage = {"sqlite": {"base_dir": str(folder / "state")}}
    return dg.DagsterInstance.local_temp(
        str(folder / "plain"), {"storage": storage, "telemetry": {"enabled": False}}
    )


def run(instance: dg.DagsterInstance, op: dg.OpDefinition = tell) -> dg.ExecuteInProcessResult:
    """Run one step."""
    return dg.GraphDefinition(name="telling", node_defs=[op]).execute_in_process(
        instance=instance, raise_on_error=False
    )


def told(instance: dg.DagsterInstance, run_id: str) -> list[tuple[str, str | None]]:
    """What a run told of partitions, in its order."""
    entries = [each.get_dagster_event() for each in instance.all_logs(run_id) if each.dagster_event]
    return [(each.event_type_value, each.partition) for each in entries if each.partition]


def made(instance: dg.DagsterInstance) -> list[str | None]:
    """Partitions that were materialized, the newest event first."""
    records = instance.fetch_materializations(TABLE, limit=1000).records
    return [each.partition_key for each in records]


def test_the_configuration_of_the_checkout_names_it(home: Path) -> None:
    with opened(home) as instance:
        assert isinstance(instance.event_log_storage, EventLog)


def test_dagster_reads_what_was_stored_together(home: Path) -> None:
    with opened(home) as instance:
        run_id = run(instance).run_id
    with plain(home) as dagster:
        assert type(dagster.event_log_storage).__name__ == "SqliteEventLogStorage"
        expected = [
            (kind, day) for day in DAYS for kind in ("ASSET_OBSERVATION", "ASSET_MATERIALIZATION")
        ]
        assert told(dagster, run_id) == expected
        assert made(dagster) == DAYS[::-1]
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


def test_what_was_logged_before_an_error_is_stored(home: Path) -> None:
    with opened(home) as instance:
        result = run(instance, tell_and_break)
        assert not result.success
        assert made(instance) == DAYS[:1]
        assert run(instance).success
    with plain(home) as dagster:
        assert told(dagster, result.run_id) == [("ASSET_MATERIALIZATION", DAYS[0])]
        assert made(dagster) == [*DAYS[::-1], DAYS[0]]


def test_writers_side_by_side_lose_nothing(home: Path) -> None:
    def go() -> None:
        with opened(home) as mine:  # an instance of its own, as a process has
            storage = mine.event_log_storage
            assert isinstance(storage, EventLog)
            for _ in range(10):
                with storage.together():
                    for day in DAYS:
                        event = dg.AssetMaterialization(TABLE, partition=day)
                        mine.report_runless_asset_event(event)

    with opened(home) as instance:
        with ThreadPoolExecutor() as threads:
            for each in [threads.submit(go) for _ in range(3)]:
                each.result()
        assert sorted(str(day) for day in made(instance)) == sorted(DAYS * 30)


def test_only_some_files_are_open(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_storage, "_MOST_FILES", 2)
    with opened(home) as instance:
        runs = [run(instance).run_id for _ in range(4)]
        storage = instance.event_log_storage
        assert isinstance(storage, EventLog)
        assert [len(told(instance, each)) for each in runs] == [10] * 4
        assert len(storage._engines) == 2


def test_a_log_that_somebody_else_wiped_is_begun_anew(home: Path) -> None:
    with opened(home) as instance, plain(home) as other:
        before = run(instance).run_id
        other.event_log_storage.wipe()
        assert told(instance, before) == []
        assert made(instance) == []

        after = run(instance).run_id
        assert (len(told(instance, after)), made(instance)) == (10, DAYS[::-1])
        instance.event_log_storage.wipe()
        assert (told(instance, after), made(instance)) == ([], [])


def test_other_storages_take_the_events_one_by_one() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert len(told(instance, run(instance).run_id)) == 10
