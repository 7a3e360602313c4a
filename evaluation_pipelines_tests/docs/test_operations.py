"""``docs/operations.md`` and its files: what people are to install is accepted as it stands."""

import configparser
import re
import sys
from pathlib import Path

import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config
from dagster._core.instance.ref import InstanceRef

from evaluation_pipelines_tests.docs.documents import FOLDER, ROOT, blocks, named

TEXT = named("operations.md")
FILES = FOLDER / "systemd"
CONFIGURATION = (FILES / "dagster.yaml").read_text("utf-8")
UNITS = sorted(FILES.glob("*.service"))
ENVIRONMENT = next(block.body for block in blocks(TEXT) if block.body.startswith("DAGSTER_HOME="))


def test_dagster_takes_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_PG_URL", "postgresql+psycopg2://evaluation@127.0.0.1/dagster")
    (tmp_path / "dagster.yaml").write_text(CONFIGURATION)

    # Dagster checks every key and value, and says which classes it would load from where.
    checked, _ = dagster_instance_config(str(tmp_path))
    instance = InstanceRef.from_dir(str(tmp_path))

    assert checked["concurrency"]["pools"]["default_limit"] == 1
    assert instance.storage_data is not None
    assert instance.storage_data.class_name == "DagsterPostgresStorage"
    assert "DAGSTER_PG_URL" in instance.storage_data.config_yaml


def test_the_configuration_leaves_out_nothing_that_the_one_of_the_checkout_has() -> None:
    ours = yaml.safe_load((ROOT / "dagster.yaml").read_text())

    assert yaml.safe_load(CONFIGURATION).keys() >= ours.keys()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_service_starts_a_program_that_is_installed_with_files_that_exist(unit: Path) -> None:
    parser = configparser.ConfigParser()
    parser.read_string(unit.read_text("utf-8"))
    program, *arguments = parser["Service"]["ExecStart"].split()
    checkout = "/opt/evaluation_pipelines/"

    assert program.startswith(f"{checkout}.venv/bin/")
    assert (Path(sys.prefix) / "bin" / Path(program).name).exists()
    files = [
        argument.removeprefix(checkout) for argument in arguments if argument.startswith(checkout)
    ]
    assert all((ROOT / file).is_file() for file in files)
    assert f"`{parser['Service']['EnvironmentFile']}`" in TEXT


def test_the_environment_sets_what_the_configuration_asks_for() -> None:
    given = dict(line.split("=", 1) for line in ENVIRONMENT.split("\n"))

    assert set(re.findall(r"env: (\w+)", CONFIGURATION)) <= given.keys()
    assert f"{given['DAGSTER_HOME']}/dagster.yaml" in TEXT
    # A plain postgresql:// would be psycopg 3, with which Dagster's storage does not work.
    assert given["DAGSTER_PG_URL"].startswith("postgresql+psycopg2://")


def test_the_postgres_library_is_of_the_release_of_the_other_dagster_libraries() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    (wanted,) = set(re.findall(r"^dagster-postgres==([\d.]+) ", lock, re.MULTILINE))

    assert f"dagster-duckdb=={wanted} " in lock
