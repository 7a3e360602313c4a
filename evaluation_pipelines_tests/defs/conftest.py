"""Fixtures of the tests that drive the code location."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log import InMemoryEventLogStorage
from dagster._core.storage.event_log.schema import SqlEventLogStorageMetadata
from dagster._core.storage.runs import InMemoryRunStorage
from dagster._core.storage.runs.schema import InstanceInfo, RunStorageSqlMetadata, SnapshotsTable

from evaluation_pipelines_tests.defs.code_location import CodeLocation
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.receiver import Receiver, open_receiver
from evaluation_pipelines_tests.workplace import Workplace

_NO_TELEMETRY = {"telemetry": {"enabled": False}}


@pytest.fixture(scope="session")
def reused_instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory: making one takes as long as a small run."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def empty_instance(reused_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """The same with no rows, except for what depends on the definitions alone."""
    runs, events = reused_instance.run_storage, reused_instance.event_log_storage
    assert isinstance(runs, InMemoryRunStorage)
    assert isinstance(events, InMemoryEventLogStorage)
    with runs.connect() as connection:
        for table in reversed(RunStorageSqlMetadata.sorted_tables):
            if table not in (SnapshotsTable, InstanceInfo):
                connection.execute(table.delete())
    with events._engine.begin() as connection:
        for table in reversed(SqlEventLogStorageMetadata.sorted_tables):
            connection.execute(table.delete())
    return reused_instance


@pytest.fixture
def location(
    workplace: Workplace, empty_instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> CodeLocation:
    """The code location with empty stores, which its resource opens as in production."""
    for variable in [name for name in os.environ if name.startswith("EVAL_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(workplace.settings.data_dir)  # a folder without .env
    monkeypatch.setenv("EVAL_DATA_DIR", str(workplace.settings.data_dir))
    return CodeLocation(workplace, empty_instance)


@pytest.fixture(scope="session")
def fresh_instance_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an instance without runs: a copy takes far less time than its tables."""
    folder = tmp_path_factory.mktemp("fresh-dagster")
    with dg.DagsterInstance.local_temp(str(folder), _NO_TELEMETRY):
        return folder


@pytest.fixture
def settled_location(
    location: CodeLocation, fresh_instance_folder: Path, tmp_path: Path
) -> Iterator[CodeLocation]:
    """The code location with an instance in a folder, as a schedule needs it."""
    folder = shutil.copytree(fresh_instance_folder, tmp_path / "dagster")
    with dg.DagsterInstance.local_temp(str(folder), _NO_TELEMETRY) as instance:
        yield replace(location, instance=instance)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeEndpoint]:
    """A judge endpoint, and the settings to use it."""
    with open_judge_endpoint() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("EVAL_JUDGE_MODEL", "judge-1")
        # Without a limit, no run judges that no person starts; the model has no list price.
        monkeypatch.setenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD", "100")
        monkeypatch.setenv("EVAL_JUDGE_INPUT_USD_PER_MTOK", "1")
        monkeypatch.setenv("EVAL_JUDGE_OUTPUT_USD_PER_MTOK", "10")
        yield endpoint


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A webhook that receives the alerts."""
    with open_receiver() as opened:
        monkeypatch.setenv("EVAL_ALERT_WEBHOOK_URL", opened.url)
        yield opened
