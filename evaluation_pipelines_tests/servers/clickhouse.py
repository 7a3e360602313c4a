"""A ClickHouse server for tests: the HTTP interface in front of the embedded engine.

It speaks what clickhouse-connect's HTTP client asks for: queries with bound parameters, inserts
with their rows in the body, basic authentication, and errors with their code. In a process of its
own, because an engine serves one folder a process::

    python -m evaluation_pipelines_tests.servers.clickhouse --folder /tmp/engine --password secret
"""

import argparse
import base64
import gzip
import json
import re
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import chdb

USER = "evaluation"
LONGEST_FIELD = 131_072
"""What a server takes as one field of a form, unless it is configured otherwise."""
_INSERT = re.compile(r"(?is)(?P<head>\s*insert\s+into\s+.+?)\s+format\s+(?P<format>\w+)\s*")
_CODE = re.compile(r"Code: (\d+)")
# Settings that come with an insert; the others concern how an answer is sent.
_SETTINGS = {"max_partitions_per_insert_block"}


class Engine:
    """The embedded engine, one statement at a time."""

    def __init__(self, folder: str) -> None:
        self._connection = chdb.connect(folder)
        self._lock = threading.Lock()

    def run(self, statement: str, values: Mapping[str, str], rows: bytes) -> bytes:
        """The answer of a statement; an insert takes ``rows`` in the format it names."""
        parameters = {
            name.removeprefix("param_"): value
            for name, value in values.items()
            if name.startswith("param_")
        }
        insert = _INSERT.fullmatch(statement)
        with self._lock, tempfile.NamedTemporaryFile(suffix=".rows") as file:
            self._connection.query(f"use `{values.get('database') or 'default'}`")
            if insert:
                file.write(rows)
                file.flush()
                chosen = ", ".join(f"{name} = {values[name]}" for name in _SETTINGS & values.keys())
                settings = f"settings {chosen}" if chosen else ""
                statement = (
                    f"{insert['head']} from infile '{file.name}' {settings} "
                    f"format {insert['format']}"
                )
            answer = self._connection.query(statement, "TabSeparated", params=parameters)
            return bytes(answer.bytes() or b"")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine
    password: str

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(self._chunks())
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        values = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            values, body = values | _form(kind, body), b""
        if not self._is_known():
            self._answer(403, b"Code: 516. DB::Exception: Authentication failed", 516)
        elif max(map(len, values.values()), default=0) > LONGEST_FIELD:
            self._answer(500, b"Code: 1000. HTML Form Exception: Field value too long", 1000)
        else:
            self._run(*self._statement(values, body), values)

    do_GET = do_POST  # noqa: N815 - the name that the base class asks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""

    def _run(self, statement: str, rows: bytes, values: Mapping[str, str]) -> None:
        try:
            self._answer(200, self.engine.run(statement, values, rows))
        except RuntimeError as error:
            code = _CODE.search(str(error))
            self._answer(500, str(error).encode(), int(code[1]) if code else 1)

    def _statement(self, values: Mapping[str, str], body: bytes) -> tuple[str, bytes]:
        """The statement is in the URL, or it is the body, or the first line of the body."""
        if statement := values.get("query"):
            return statement, body
        first, newline, rest = body.partition(b"\n")
        if newline and _INSERT.fullmatch(first.decode(errors="replace")):
            return first.decode(), rest
        return body.decode(), b""

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().strip() or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _is_known(self) -> bool:
        expected = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        by_name = (self.headers.get("X-ClickHouse-User"), self.headers.get("X-ClickHouse-Key"))
        return (
            not self.password
            or self.headers.get("Authorization") == f"Basic {expected}"
            or by_name == (USER, self.password)
        )

    def _answer(self, status: int, body: bytes, code: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Timezone", "UTC")
        self.send_header("X-ClickHouse-Summary", json.dumps({"written_rows": "0"}))
        if code is not None:
            self.send_header("X-ClickHouse-Exception-Code", str(code))
        self.end_headers()
        self.wfile.write(body)


def _form(kind: str, body: bytes) -> dict[str, str]:
    """The fields of a form."""
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body, policy=HTTP)
    fields = {}
    for part in message.iter_parts():
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        fields[str(part.get_param("name", header="content-disposition"))] = content.decode()
    return fields


@contextmanager
def clickhouse_server(
    folder: Path, password: str = "", port: int = 0, certificate: Path | None = None
) -> Iterator[str]:
    """A running server; gives its DSN, and kills it at the end.

    Args:
        folder: Of its engine.
        password: Of the one user; none is asked for when it is empty.
        port: Any free one when it is 0.
        certificate: PEM file with a certificate and its key, for TLS.
    """
    command = [sys.executable, "-m", "evaluation_pipelines_tests.servers.clickhouse"]
    options = ["--folder", str(folder), "--password", password, "--port", str(port)]
    encryption = ["--certificate", str(certificate)] if certificate else []
    with subprocess.Popen(
        [*command, *options, *encryption], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            scheme = "clickhouses" if certificate else "clickhouse"
            place = f"127.0.0.1:{int(process.stdout.readline())}/default"
            yield f"{scheme}://{USER}:{quote(password, safe='')}@{place}"
        finally:
            process.kill()


def main() -> None:
    """Serve until killed; the first line of output is the port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--password", default="")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate")
    arguments = parser.parse_args()
    _Handler.engine = Engine(arguments.folder)
    _Handler.password = arguments.password
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), _Handler)
    if arguments.certificate:
        encryption = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        encryption.load_cert_chain(arguments.certificate)
        server.socket = encryption.wrap_socket(server.socket, server_side=True)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
