"""``docs/deploy``: no image was built here, so its commands are run as they stand, elsewhere."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest
import sqlalchemy as sa
import yaml

from evaluation_pipelines.cli.settings import settings_table
from evaluation_pipelines_tests.docs.documents import FOLDER, ROOT
from evaluation_pipelines_tests.servers import postgresql
from evaluation_pipelines_tests.service.live_service import free_port

DOCKERFILE = (FOLDER / "deploy" / "Dockerfile").read_text("utf-8")
COMPOSE = yaml.safe_load((FOLDER / "deploy" / "compose.yaml").read_text("utf-8"))
PROGRAMS = {name: value for name, value in COMPOSE["services"].items() if "build" in value}
EVERYWHERE = PROGRAMS["service"]["command"][-1]
IMAGE_FOLDER = "/opt/evaluation_pipelines"


def instructions(name: str) -> list[str]:
    lines = DOCKERFILE.replace("\\\n", "").splitlines()
    return [line.removeprefix(name).strip() for line in lines if line.startswith(f"{name} ")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_container_may_write_its_data_alone(name: str) -> None:
    service = PROGRAMS[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["volumes"] == ["data:/srv/evaluation"]
    assert "USER 10001:10001" in DOCKERFILE
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_every_container_has_a_health_check(name: str) -> None:
    kind, program, *_ = COMPOSE["services"][name]["healthcheck"]["test"]
    assert kind == "CMD"
    assert program == "pg_isready" or (Path(sys.prefix) / "bin" / program).exists()


def test_commands_and_settings_are_there() -> None:
    known = {row.variable for row in settings_table()} | {"DAGSTER_PG_URL"}
    for service in PROGRAMS.values():
        assert (Path(sys.prefix) / "bin" / service["command"][0]).exists()
        assert service["environment"].keys() <= known
    for copied in instructions("COPY"):
        *sources, _ = copied.removeprefix("--from=build").split()
        assert copied.startswith("--from") or all((ROOT / source).exists() for source in sources)


def test_no_variable_of_the_host_but_the_password_is_needed() -> None:
    text = (FOLDER / "deploy" / "compose.yaml").read_text("utf-8")
    assert set(re.findall(r"\$\{(\w+):\?", text)) == {"POSTGRES_PASSWORD"}


def installed(folder: Path) -> Path:
    """Run what the Dockerfile runs to build, in a folder with what it copies; return it."""
    image = folder / "image"
    for copied in instructions("COPY"):
        *sources, target = copied.split()
        for source in () if copied.startswith("--from") or target.startswith("/") else sources:
            into = image / target / Path(source).name if target.endswith("/") else image / target
            into.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, into)
    for command in instructions("RUN"):
        if ".venv" in command:
            script = command.replace("python -m venv", f"{shlex.quote(sys.executable)} -m venv")
            subprocess.run(["/bin/sh", "-ec", script], cwd=image, check=True)
    return image


@contextmanager
def running(
    image: Path, name: str, environment: dict[str, str], ports: dict[str, str]
) -> Iterator[Callable[[], int]]:
    """Run the command of a container, with free ports; give a function that asks its health."""

    def here(words: list[str]) -> list[str]:
        text = json.dumps(words).replace(IMAGE_FOLDER, str(image)).replace(EVERYWHERE, "127.0.0.1")
        for given, port in ports.items():
            text = text.replace(given, port)
        first, *others = json.loads(text)
        return [str(image / ".venv" / "bin" / first), *others]

    service = PROGRAMS[name]
    command = here(service["command"])
    if name == "service":
        command += ["--port", ports["8400"]]
    folder = Path(environment["EVAL_DATA_DIR"]).parent
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        try:
            yield (
                lambda: (
                    subprocess.run(
                        here(service["healthcheck"]["test"][1:]),
                        cwd=folder,
                        env=environment,
                        check=False,
                    ).returncode
                )
            )
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_commands_of_the_containers_run_from_a_clean_environment(tmp_path: Path) -> None:
    programs = postgresql.installed()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    image, home = installed(tmp_path), tmp_path / "home"
    home.mkdir()
    settings = (FOLDER / "systemd" / "dagster.yaml").read_text().replace("/srv/", f"{tmp_path}/")
    (home / "dagster.yaml").write_text(settings)
    ports = {"8400": str(free_port()), "3000": str(free_port())}
    with postgresql.running_server(programs) as url:
        for name in ("ledger", "dagster"):
            engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.execute(sa.text(f"create database {name}"))
            engine.dispose()
        of = url.replace("+psycopg:", "+psycopg2:")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("EVAL_")},
            "EVAL_DATA_DIR": str(tmp_path / "data"),
            "EVAL_LEDGER_URL": of.replace("/postgres?", "/ledger?"),
            "DAGSTER_PG_URL": of.replace("/postgres?", "/dagster?"),
            "DAGSTER_HOME": str(home),
            "PATH": f"{image / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        for name in PROGRAMS:
            with running(image, name, environment, ports) as health:
                end = monotonic() + 180
                while health() and monotonic() < end:
                    sleep(1)
                assert health() == 0, name
