"""Opening ClickHouse: in use, down, refused, encrypted, missing; and the messages about it."""

import logging
import socket
import subprocess
import sys
import traceback
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pytest

from evaluation_pipelines.storage.clickhouse import (
    ClickHouseError,
    ClickHouseUnavailableError,
    embedded_dsn,
    embedded_folder,
    open_clickhouse,
    shown_dsn,
)
from evaluation_pipelines_tests.reputation.reputation_worker import begin, worker
from evaluation_pipelines_tests.servers.clickhouse import clickhouse_server
from evaluation_pipelines_tests.servers.clickhouse_databases import PASSWORD

NAMES = pl.Schema({"name": pl.String()})


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def certificate(folder: Path) -> Path:
    """A certificate of 127.0.0.1 that it signed itself, with its key in one file."""
    both = folder / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1".split()
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    key, public = folder / "key.pem", folder / "certificate.pem"
    files = ["-keyout", str(key), "-out", str(public)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + public.read_bytes())
    return both


def test_an_engine_in_use_by_another_process_is_waited_for_and_its_holder_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    dsn, pauses = f"chdb://{tmp_path / 'engine'}", []
    with ExitStack() as stack:
        holder = stack.enter_context(worker("repeat", dsn))
        begin(holder)
        with (
            pytest.raises(ClickHouseUnavailableError, match=f"process {holder.pid} holds it"),
            open_clickhouse(dsn, patience_s=0),
        ):
            pass

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                holder.kill()
                holder.wait()

        with caplog.at_level(logging.WARNING), open_clickhouse(dsn, 30, sleep) as clickhouse:
            tables = set(clickhouse.select("select_tables", NAMES)["name"])
    assert "reputation_events" in tables
    # Each pause is twice as long as the one before.
    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert caplog.messages == [f"waiting for ClickHouse at {dsn}: in use or down"]
    # The engine itself has complained of nothing.
    assert capfd.readouterr().err == ""


def test_a_server_that_is_down_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as stack:

        def sleep(_seconds: float) -> None:
            # It comes back during the first pause.
            stack.enter_context(clickhouse_server(tmp_path / "engine", PASSWORD, port))

        user = "evaluation:a%20pass%2Fword"
        dsn = f"clickhouse://{user}@127.0.0.1:{port}/default"
        with open_clickhouse(dsn, 30, sleep) as clickhouse:
            assert clickhouse.select("select_tables", NAMES).is_empty()


def test_a_server_that_stays_down_or_refuses_is_told_without_the_password(
    tmp_path: Path,
) -> None:
    down = f"clickhouse://evaluation:topsecret@127.0.0.1:{free_port()}/default"
    with (
        pytest.raises(ClickHouseUnavailableError, match="could not be opened for 0 s") as caught,
        open_clickhouse(down, patience_s=0),
    ):
        pass
    assert "topsecret" not in "".join(traceback.format_exception(caught.value))
    with clickhouse_server(tmp_path / "engine", PASSWORD) as dsn:
        wrong = dsn.replace("a%20pass%2Fword", "topsecret")
        with (
            pytest.raises(ClickHouseError, match="Authentication failed") as refused,
            # Not waited for: it would be refused again.
            open_clickhouse(wrong, patience_s=600),
        ):
            pass
    assert "topsecret" not in "".join(traceback.format_exception(refused.value))
    assert not isinstance(refused.value, ClickHouseUnavailableError)


def test_a_server_that_dies_between_two_statements_is_unavailable(tmp_path: Path) -> None:
    with ExitStack() as stack:
        dsn = stack.enter_context(clickhouse_server(tmp_path / "engine"))
        with open_clickhouse(dsn, patience_s=0) as clickhouse:
            stack.pop_all().close()
            with pytest.raises(ClickHouseUnavailableError, match="select_tables: "):
                clickhouse.select("select_tables", NAMES)


def test_a_connection_can_be_encrypted_and_the_certificate_is_verified(tmp_path: Path) -> None:
    both = certificate(tmp_path)
    with clickhouse_server(tmp_path / "engine", PASSWORD, certificate=both) as dsn:
        assert urlsplit(dsn).scheme == "clickhouses"
        trusted = f"{dsn}?ca_cert={tmp_path / 'certificate.pem'}"
        with open_clickhouse(trusted, patience_s=0) as clickhouse:
            assert clickhouse.select("select_tables", NAMES).is_empty()
        with (
            pytest.raises(ClickHouseUnavailableError, match="certificate verify failed"),
            open_clickhouse(dsn, patience_s=0),
        ):
            pass


def test_without_the_package_of_the_embedded_engine_it_is_said_what_to_install(
    tmp_path: Path,
) -> None:
    without = f"""
import sys
sys.modules["chdb"] = None
from evaluation_pipelines.storage.clickhouse import ClickHouseError, open_clickhouse
try:
    with open_clickhouse("chdb://{tmp_path / "engine"}"):
        pass
except ClickHouseError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", without], capture_output=True, text=True, check=True
    )
    assert ran.stdout == (
        "ClickHouse within this program needs the package chdb: install "
        "evaluation-pipelines[embedded], or name a server in EVAL_CLICKHOUSE_DSN.\n"
    )


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("clickhouse://u:p@host:8123/db", "clickhouse://u@host:8123/db"),
        ("clickhouse://u:p%40q@host/db?access_token=t", "clickhouse://u@host/db"),
        ("clickhouse://host/db", "clickhouse://host/db"),
        ("clickhouse://u:S3CRET/x@host:8123/db", "clickhouse://u@host:8123/db"),
        ("clickhouse://u:S3CRET?x@host/db", "clickhouse://..."),
        ("clickhouse://host:1/db?user=u&password=S3CRET", "clickhouse://host:1/db"),
        ("chdb:///var/engine", "chdb:///var/engine"),
    ],
)
def test_messages_show_where_it_is_and_no_secret(dsn: str, shown: str) -> None:
    assert shown_dsn(dsn) == shown


@pytest.mark.parametrize("password", ["S3CRET/x", "S3CRET?x", "S3CRET#x", "S3CRET[x"])
def test_a_password_that_is_not_escaped_is_in_no_message(password: str) -> None:
    with (
        pytest.raises((ClickHouseError, ClickHouseUnavailableError)) as raised,
        open_clickhouse(f"clickhouse://u:{password}@127.0.0.1:1/db", 0),
    ):
        pass
    assert "S3CRET" not in "".join(traceback.format_exception(raised.value))


def test_an_engine_lies_in_the_folder_that_is_named_whatever_its_letters(tmp_path: Path) -> None:
    folder = tmp_path / "a b#c%20d é"
    assert embedded_folder(embedded_dsn(folder)) == folder
    with open_clickhouse(embedded_dsn(folder), patience_s=0) as clickhouse:
        clickhouse.run("create table t (x Int64) engine = MergeTree order by x")
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert (folder / "metadata").exists()


def test_the_folder_of_an_engine_is_what_its_dsn_says() -> None:
    assert embedded_folder("chdb:///var/engine?database=x") == Path("/var/engine")
    assert embedded_folder("clickhouse://host/db") is None
