"""The lake in a bucket: the same rows and commands as in a folder, and what may go wrong there."""

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import duckdb
import obstore
import polars as pl
import pytest
from obstore.store import from_url

from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import SESSION_PERFORMANCE, TABLES, Table
from evaluation_pipelines.storage import object_store
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.object_store import Patience
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.servers.s3 import BUCKET, SECRET, faulty, variables
from evaluation_pipelines_tests.telemetry.captures import FORMS
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import session


@pytest.fixture
def url(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of an empty lake."""
    for name, value in variables(s3).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid4().hex}/lake"


def keys(url: str) -> list[str]:
    """Return the keys below a URL."""
    found = obstore.list(from_url(url, client_options={"allow_http": True})).collect()
    return sorted(meta["path"] for meta in found)


def rows(lake: Lake, table: Table) -> pl.DataFrame:
    """Return the rows of a table by its key, without the time of the ingest."""
    found = lake.select(table).sort(table.key)
    return found.drop("quarantined_at", "ingested_at", strict=False)


def fill(workplace: Workplace) -> None:
    workplace.ingest()
    workplace.build()
    publish_analytics(workplace.stores, NOW)


def test_a_bucket_has_the_same_rows_as_a_folder(url: str, tmp_path: Path) -> None:
    with (
        open_workplace(tmp_path / "folder") as local,
        open_workplace(tmp_path / "bucket", lake_dir=url, landing_dir=local.landing.root) as remote,
    ):
        local.land("logs.jsonl", FORMS["as sent"].read_bytes() + b"no telemetry\n")
        fill(local)
        fill(remote)
        for table in TABLES:
            here, there = (rows(workplace.lake, table) for workplace in (local, remote))
            assert here.equals(there), table.name
        assert remote.performance().height > 0
        assert not (tmp_path / "bucket" / "lake").exists()
        named = {part.path for table in TABLES for part in remote.lake.parts(table)}
        assert named == set(keys(url))
        with duckdb.connect(str(tmp_path / "bucket" / "analytics.duckdb"), read_only=True) as read:
            assert read.table("session_performance").shape[0] == remote.performance().height


@pytest.fixture
def in_bucket(program: Program, url: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program with its lake in a bucket, and two sessions of a day built."""
    monkeypatch.setenv("EVAL_LAKE_DIR", url)
    program.land("logs.jsonl", session("s1") + session("s2", 60))
    for command in ("ingest", "build"):
        assert program(command).code == 0
    return program


def test_commands_work_on_a_bucket(in_bucket: Program, url: str) -> None:
    for command in (["publish"], ["compare"], ["books", "2026-06-01"]):
        ran = in_bucket(*command)
        assert ran.code == 0, (command, ran)
    assert f"Dates in {url}\n" in in_bucket("status", "--verify").out
    assert in_bucket("sessions", "--format", "json").out.count('"session_key"') == 2
    assert "s1#baseline-1" in in_bucket("show", "s1").out
    (path,) = in_bucket("publish", "--files", "agent_sessions", "--date", "2026-06-01").out.split()
    assert path.startswith(f"{url}/agent_sessions/session_date=2026-06-01/")

    assert in_bucket("forget", "--session", "s1", "--rewrite-landing").code == 0
    assert in_bucket("sessions", "--format", "json").out.count('"session_key"') == 1
    store = from_url(url, client_options={"allow_http": True})
    for key in keys(url):  # small Parquet keeps texts as they are
        assert b"s1" not in bytes(obstore.get(store, key).bytes()).replace(b"s1.", b""), key


def test_an_object_that_was_changed_is_damage_and_built_again(in_bucket: Program, url: str) -> None:
    store = from_url(url, client_options={"allow_http": True})
    (key,) = (
        key for key in keys(url) if key.startswith("session_performance/session_date=2026-06-01")
    )
    obstore.put(store, key, b"another content")
    verified = in_bucket("status", "--verify").out
    assert f"{url}/{key} is damaged: its content does not have the checksum" in verified
    assert "  Build its date again. Run: evaluation-pipelines build --damaged" in verified
    obstore.delete(store, key)
    assert f"{url}/{key} is missing\n  Build its date again" in in_bucket("status").out
    assert in_bucket("build", "--damaged").code == 0
    assert "damaged" not in in_bucket("status", "--verify").out


@pytest.mark.parametrize("fault", ["403", "500"])
def test_a_store_that_fails_is_one_line_and_nothing_is_half_done(
    in_bucket: Program, s3: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(object_store, "USUAL_PATIENCE", Patience(pauses_s=(0.01,)))
    before = in_bucket("publish", "--files", SESSION_PERFORMANCE.name).out
    in_bucket.land("more.jsonl", session("s9", 120))
    with faulty(s3) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        proxy.methods, proxy.always = ("PUT",), fault
        for command in ("ingest", "build"):
            ran = in_bucket(command)
            assert SECRET not in ran.out + ran.err
            assert command == "build" or (ran.code, ran.err.count("s3://")) == (1, 1), ran
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    assert in_bucket("publish", "--files", SESSION_PERFORMANCE.name).out == before
    for command in ("ingest", "build"):
        assert in_bucket(command).code == 0
    assert in_bucket("sessions", "--format", "json").out.count('"session_key"') == 3


def test_a_folder_needs_no_client_of_buckets(program: Program) -> None:
    program.land("logs.jsonl", session("s1"))
    code = (
        "import sys; from evaluation_pipelines.cli.program import main\n"
        "sys.argv = ['evaluation-pipelines', 'ingest']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit(', '.join({'obstore', 'fsspec', 'moto'} & sys.modules.keys()) or 0)"
    )
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=program.folder, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("url_of_lake", "said"),
    [
        ("s3://not-there/lake", "s3://not-there/lake: there is no such bucket"),
        ("ftp://there/lake", "ftp://there/lake is no object store"),
        (f"s3://me:{SECRET}@there/lake", "EVAL_LAKE_DIR: must be a path or a URL such as s3://"),
    ],
)
def test_a_wrong_url_is_said(
    program: Program, s3: str, monkeypatch: pytest.MonkeyPatch, url_of_lake: str, said: str
) -> None:
    for name, value in variables(s3).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EVAL_LAKE_DIR", url_of_lake)
    ran = program("ingest")
    assert ran.code != 0
    assert said in ran.err
    assert SECRET not in ran.err
