"""A real collector between agents and ClickHouse: rotel, by its OTLP receiver and its exporter."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

import pytest

from evaluation_pipelines.storage.clickhouse import ClickHouse, open_clickhouse
from evaluation_pipelines.storage.lock import INGEST, held
from evaluation_pipelines.telemetry.otel_logs import BEGINNING, OtelLogTable, read_otel_logs
from evaluation_pipelines_tests.telemetry.captures import RECORDED, Capture
from evaluation_pipelines_tests.telemetry.otel_logs_table import create
from evaluation_pipelines_tests.telemetry.test_messages import in_protobuf
from evaluation_pipelines_tests.telemetry.test_otel_logs import NOT_COMPARED, texts
from evaluation_pipelines_tests.workplace import NOW, open_workplace

pytestmark = [
    pytest.mark.slow,  # a program of others
    pytest.mark.skipif(find_spec("rotel") is None, reason="rotel has no wheel for this system"),
]
ROWS = 1448
"""Log records of all captures."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def collector(dsn: str, folder: Path) -> Iterator[str]:
    """A collector that exports to a database; gives the URL of its receiver of logs."""
    spec, place, port = find_spec("rotel"), urlsplit(dsn), free_port()
    assert spec is not None
    assert spec.origin is not None
    options = {
        "otlp-http-endpoint": f"127.0.0.1:{port}",
        "otlp-grpc-endpoint": f"127.0.0.1:{free_port()}",
        "exporter": "clickhouse",
        "clickhouse-exporter-endpoint": f"http://127.0.0.1:{place.port}",
        "clickhouse-exporter-database": place.path.strip("/"),
        "clickhouse-exporter-user": str(place.username),
        "clickhouse-exporter-password": unquote(str(place.password)),
        "clickhouse-exporter-compression": "none",  # the test's server knows no other
        "clickhouse-exporter-async-insert": "false",
        "pid-file": str(folder / "pid"),
    }
    agent = Path(spec.origin).parent / "rotel-agent"
    command = [str(agent), "start", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log) as process:
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}/v1/logs"
        finally:
            process.kill()


def wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"no collector on port {port}")


def send(url: str, line: bytes) -> None:
    """Send one request as a message: as JSON the collector takes no value that is null."""
    kind = {"Content-Type": "application/x-protobuf"}
    sent = Request(url, in_protobuf(json.loads(line)), kind)  # noqa: S310 - of ours
    with urlopen(sent, timeout=30) as answer:  # noqa: S310
        assert answer.status == 200


def wait_for_rows(clickhouse: ClickHouse, rows: int) -> None:
    table, found = OtelLogTable.find(clickhouse, "otel_logs"), 0
    for _ in range(300):
        found = table.minutes(BEGINNING).total()
        if found == rows:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{found} of {rows} rows arrived")


def filled(document: str | None) -> dict[str, str]:
    """Return attributes as texts, without those that are null: the collector leaves these out."""
    return {key: value for key, value in texts(document).items() if value}


def test_what_a_collector_writes_is_what_agents_sent(
    tmp_path: Path, clickhouse_over_http_database: str
) -> None:
    contents = [Capture(cli).file("as sent").read_bytes() for cli in RECORDED]
    with (
        open_clickhouse(clickhouse_over_http_database, patience_s=0) as clickhouse,
        collector(clickhouse_over_http_database, tmp_path) as url,
    ):
        create(clickhouse)
        for content in contents:
            for line in content.splitlines():
                send(url, line)
        wait_for_rows(clickhouse, ROWS)
    with (
        open_workplace(tmp_path / "rows", otel_logs_dsn=clickhouse_over_http_database) as rows,
        open_workplace(tmp_path / "files") as files,
    ):
        with held(rows.ledger, INGEST) as hold:
            report = read_otel_logs(rows.stores, hold, lambda: NOW)
        assert report is not None
        # Records of Codex have no time here: twelve are like others in all that is stored.
        assert (report.rows, report.known_rows) == (ROWS - 12, 12)
        for cli, content in zip(RECORDED, contents, strict=True):
            files.land(f"{cli}.jsonl", content)
        rows.ingest()
        files.ingest()
        events, wanted = (
            workplace.landed().unique("event_id").sort("event_id") for workplace in (rows, files)
        )
    # Seven stream events of Codex equal another one of their request, which rows do not tell.
    assert wanted.height == events.height + 7
    wanted = wanted.join(events, on="event_id", how="semi", maintain_order="left")
    assert events.drop(NOT_COMPARED).equals(wanted.drop(NOT_COMPARED))
    assert [*map(filled, events["attributes"])] == [*map(filled, wanted["attributes"])]
