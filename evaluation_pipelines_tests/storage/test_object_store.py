"""The store in a bucket: objects are written once, and faults of networks and servers pass."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from uuid import uuid4

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.storage.object_store import ObjectStore, Patience
from evaluation_pipelines.storage.store import (
    StoredFiles,
    StoreError,
    UnknownStoreError,
    open_store,
)
from evaluation_pipelines_tests.servers.s3 import (
    BUCKET,
    SECRET,
    FaultyServer,
    faulty,
    variables,
)
from evaluation_pipelines_tests.workplace import NOW

QUICK = Patience(silence_s=0.5, request_s=5, pauses_s=(0.01, 0.02, 0.05, 0.1))
FAULTS = ("429", "500", "503", "lost", "cut", "slow")


@pytest.fixture
def proxy(s3: str) -> Iterator[FaultyServer]:
    with faulty(s3) as opened:
        yield opened


@pytest.fixture
def store(proxy: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An empty store behind the proxy."""
    for name, value in variables(proxy.endpoint).items():
        monkeypatch.setenv(name, value)
    return ObjectStore(f"s3://{BUCKET}/{uuid4().hex}/lake", QUICK)


def test_an_object_is_read_back_whole_or_in_part_and_deleted(store: ObjectStore) -> None:
    store.put("a/b=1/one", memoryview(b"0123456789"))
    store.put("ab/other", b"")
    assert store.get("a/b=1/one") == b"0123456789"
    assert store.get("a/b=1/one", 3) == b"3456789"
    assert store.get("a/b=1/one", 3, 5) == b"34"
    assert store.get("a/b=1/one", 12, 15) == store.get("a/b=1/one", 4, 4) == b""
    assert [file.path for file in store.list("a/")] == ["a/b=1/one"]
    assert [file.path for file in store.list("")] == ["a/b=1/one", "ab/other"]
    assert store.exists("a/b=1/one")
    store.delete("a/b=1/one")
    store.delete("a/b=1/one")
    assert list(store.list("a/")) == []
    assert not store.exists("a/b=1/one")
    with pytest.raises(FileNotFoundError):
        store.get("a/b=1/one")
    assert store.delete_staged(NOW)


def test_of_writers_of_one_object_exactly_one_wins(store: ObjectStore) -> None:
    def wins(number: int) -> bool:
        try:
            store.put("one", b"%d" % number)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        won = list(threads.map(wins, range(8)))
    assert won.count(True) == 1
    assert store.get("one") == b"%d" % won.index(True)


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_that_pass_are_waited_for(
    store: ObjectStore, proxy: FaultyServer, fault: str
) -> None:
    proxy.faults.extend([fault, fault])
    store.put("a/one", b"first" * 1000)
    proxy.faults.extend([fault, fault])
    assert store.get("a/one") == b"first" * 1000
    proxy.faults.append(fault)
    assert [file.path for file in store.list("a/")] == ["a/one"]
    # What an earlier attempt has written is this one's own; what another one wrote is not.
    proxy.faults.append(fault)
    with pytest.raises(FileExistsError):
        store.put("a/one", b"second")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("500", "does not answer as it should (status code: 500"),
        ("503", "SlowDown"),
        ("lost", "does not answer"),
        ("403", "access is refused (status code: 403 Forbidden, AccessDenied)"),
    ],
)
def test_faults_that_stay_are_errors_that_show_no_keys(
    store: ObjectStore, proxy: FaultyServer, fault: str, said: str
) -> None:
    proxy.always = fault
    for use in (
        lambda: store.put("one", b"1"),
        lambda: store.get("one"),
        lambda: list(store.list("a/")),
        lambda: store.delete("one"),
    ):
        with pytest.raises(StoreError) as raised:
            use()
        assert str(raised.value).startswith(store.url)
        assert raised.value.__cause__ is None
        for hidden in (SECRET, "Signature", "Debug", "\n"):
            assert hidden not in str(raised.value)
    assert said in str(raised.value)
    proxy.always = None
    if fault != "lost":  # it is carried out
        assert list(store.list("")) == []


@pytest.mark.usefixtures("store")
def test_a_bucket_that_is_not_there_is_no_empty_store() -> None:
    other = ObjectStore("s3://not-there/lake", QUICK)
    for use in (lambda: other.get("one"), lambda: list(other.list("")), lambda: other.delete("a")):
        with pytest.raises(StoreError, match=r"^s3://not-there/lake: there is no such bucket"):
            use()


def test_a_server_that_is_away_is_said_after_some_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match="s3://tests/one: the object store does not answer"):
        ObjectStore("s3://tests", QUICK).get("one")


def test_duckdb_reads_objects_in_ranges(store: ObjectStore, proxy: FaultyServer) -> None:
    rows = pl.DataFrame({"n": range(400_000)}).with_columns(m=pl.col("n").hash())
    content = BytesIO()
    rows.write_parquet(content, row_group_size=50_000)
    store.put("t/one.parquet", content.getvalue())
    files = StoredFiles(store, ["t/one.parquet"])
    with duckdb.connect() as connection:
        files.store.attach(connection)
        files.store.attach(connection)
        proxy.faults.extend(["500", "cut", "slow"])
        found = connection.execute(
            "select count(*), sum(n)::bigint from read_parquet($1)", [files.names]
        ).fetchone()
    assert found == (400_000, 400_000 * 399_999 // 2)


def test_what_is_no_store_is_said() -> None:
    with pytest.raises(UnknownStoreError, match="ftp://there/lake is no object store"):
        open_store("ftp://there/lake")
