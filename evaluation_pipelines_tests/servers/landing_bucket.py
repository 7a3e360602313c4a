"""A bucket that telemetry lands in, before a proxy that can fail."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import obstore
import pytest
from obstore.store import from_url

from evaluation_pipelines.storage import object_store
from evaluation_pipelines.storage.object_store import Patience
from evaluation_pipelines_tests.servers.s3 import BUCKET, FaultyServer, faulty, variables

QUICK = Patience(pauses_s=(0.01, 0.02, 0.05, 0.1))


@dataclass(frozen=True)
class Bucket:
    """Objects below a URL of their own; the program reaches them through ``proxy``."""

    url: str
    proxy: FaultyServer
    direct: str

    @property
    def _store(self) -> Any:
        return from_url(self.url, endpoint=self.direct, client_options={"allow_http": True})

    def put(self, key: str, content: bytes) -> None:
        """Put an object as collectors do, or another one in its place."""
        attributes = {"Content-Encoding": "gzip"} if key.endswith(".gz") else {}
        obstore.put(self._store, key, content, attributes=attributes)

    def put_raw(self, key: str, content: bytes) -> None:
        """Put an object with a key that the client of the program would not write."""
        bucket, _, prefix = self.url.removeprefix("s3://").partition("/")
        request(self.direct, f"/{bucket}/{prefix}/{key}", content)

    def delete(self, key: str) -> None:
        """Delete an object."""
        obstore.delete(self._store, key)

    def get(self, key: str) -> bytes:
        """Return an object."""
        return bytes(obstore.get(self._store, key).bytes())

    def keys(self) -> list[str]:
        """Return the keys below the URL."""
        return sorted(meta["path"] for meta in obstore.list(self._store).collect())


@contextmanager
def landing_bucket(
    s3: str, monkeypatch: pytest.MonkeyPatch, name: str = BUCKET
) -> Iterator[Bucket]:
    """Make a prefix, and let the program's clients be impatient."""
    monkeypatch.setattr(object_store, "USUAL_PATIENCE", QUICK)
    with faulty(s3) as proxy:
        for variable, value in variables(proxy.endpoint).items():
            monkeypatch.setenv(variable, value)
        yield Bucket(f"s3://{name}/{uuid4().hex}/landing", proxy, s3)


def make_versioned(s3: str, name: str) -> None:
    """Make a bucket that keeps older versions."""
    enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    request(s3, f"/{name}", b"")
    request(s3, f"/{name}?versioning", enabled)


def request(s3: str, path: str, content: bytes) -> None:
    """Put something by the path of its URL."""
    connection = http.client.HTTPConnection(s3.removeprefix("http://"), timeout=60)
    connection.request("PUT", path, content)
    assert connection.getresponse().status == 200
    connection.close()
