"""Telemetry in a bucket: the same rows as from a folder, and what may go wrong with objects."""

import gzip
import hashlib
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from evaluation_pipelines.schemas import TABLES, Table
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Head, LandingError
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.reading import (
    ByteRange,
    DecodeRequest,
    LandingPlace,
    decode_byte_range,
)
from evaluation_pipelines.telemetry.unread_files import (
    find_unread_files,
    has_complete_line,
    ingest_lags,
)
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.servers.landing_bucket import QUICK, Bucket
from evaluation_pipelines_tests.servers.s3 import SECRET
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import session

FIRST_RANGE_BYTES = 64 * 1024
REFUSED = "status code: 403 Forbidden, AccessDenied"
FIRST, SECOND = session("s1"), session("s2", 60)


@pytest.fixture
def remote(bucket: Bucket, tmp_path: Path) -> Iterator[Workplace]:
    """Empty stores whose telemetry is in the bucket."""
    with open_workplace(tmp_path / "remote", landing_dir=bucket.url) as workplace:
        yield workplace


def zstd(content: bytes) -> bytes:
    """Return compressed content."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue().to_pybytes())


def rows(lake: Lake, table: Table) -> str:
    """Return a hash of the rows of a table without ids of files and times of the ingest."""
    left_out = ("source_file_id", "file_id", "quarantined_at", "ingested_at")
    found = lake.select(table).drop(*left_out, strict=False)
    rows = sorted(map(repr, found.rows()))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def test_a_bucket_has_the_same_rows_as_a_folder(
    bucket: Bucket, remote: Workplace, tmp_path: Path
) -> None:
    files = {
        "a/logs.jsonl": FIRST + b"no telemetry\n",
        "a/packed.jsonl.gz": gzip.compress(session("zipped", 100)),
        "b/packed.json.zst": zstd(session("zstd", 200).removesuffix(b"\n")),
        "received/orchard/2026-06-01/12.jsonl": session("of-orchard", 300),
        "document.json": json.dumps(json.loads(session("pretty", 400)), indent=1).encode(),
        "signals/s.jsonl": b"{}\n",
        ".hidden/h.jsonl": FIRST,
        "notes.txt": b"not read",
        "empty.txt": b"",
        "signals/empty.txt": b"",
    }
    with open_workplace(tmp_path / "local") as local:
        for key, content in files.items():
            local.land(key, content)
            bucket.put(key, content)
        read = [workplace.ingest() for workplace in (local, remote)]
        assert read[0].counts == read[1].counts
        assert (read[1].files, read[1].counts.quarantined) == (5, 1)
        assert [file.path for file in read[0].skipped] == ["notes.txt"]
        assert [file.path for file in read[1].skipped] == [f"{bucket.url}/notes.txt"]
        assert local.landing.list_external("signals")[1] == []
        assert remote.landing.list_external("signals")[1] == []
        assert [type(result) for result in local.build()] == [
            type(result) for result in remote.build()
        ]
        for table in TABLES:
            assert rows(local.lake, table) == rows(remote.lake, table), table.name
    assert remote.quarantined()["path"].to_list() == ["a/logs.jsonl"]
    assert remote.ingest().files == 0


def test_a_large_object_is_decoded_in_parallel(bucket: Bucket, tmp_path: Path) -> None:
    content = b"".join(session(f"s{n}", n) for n in range(40))
    settings = {"batch_bytes": 8_000, "parallel_from_bytes": 1, "ingest_processes": 2}
    bucket.put("logs.jsonl", content)
    with open_workplace(tmp_path, landing_dir=bucket.url, **settings) as remote:
        ((unread,), _) = find_unread_files(remote.stores)
        place = LandingPlace(remote.landing.location, remote.settings, "elsewhere", Head(0, ""))
        end = len(session("s0"))
        asked = DecodeRequest(unread.file, "f", ByteRange(0, end), NOW)
        decoded = decode_byte_range(*pickle.loads(pickle.dumps((place, asked))))  # noqa: S301 - its own
        assert isinstance(decoded, EventBatch)
        assert set(decoded.events["session_id"]) == {"s0"}
        assert remote.ingest().counts.bytes == len(content)
        assert remote.landed()["session_id"].n_unique() == 40


def test_an_object_is_not_asked_for_again_when_it_was_read(
    bucket: Bucket, remote: Workplace
) -> None:
    for name in "abc":
        bucket.put(f"{name}.jsonl", session(name))
    bucket.proxy.requests = 0
    assert remote.ingest().files == 3
    assert bucket.proxy.requests == 1 + 3  # the list, and each of them once
    assert find_unread_files(remote.stores, in_order=False) == ([], [])
    assert remote.ingest().files == 0
    assert bucket.proxy.requests == 1 + 3 + 1 + 1

    before = remote.landing.fingerprint()
    bucket.put("d.jsonl", session("d"))
    assert remote.landing.fingerprint() != before
    bucket.proxy.requests = 0
    ((unread,), _) = find_unread_files(remote.stores, in_order=False)
    assert bucket.proxy.requests == 1
    assert has_complete_line(remote.stores, unread)


def test_several_objects_are_asked_for_at_a_time_and_not_all_of_a_store_that_is_away(
    bucket: Bucket, remote: Workplace
) -> None:
    for number in range(40):
        bucket.put(f"{number}.jsonl", FIRST)
    attempts = 1 + len(QUICK.pauses_s)
    bucket.proxy.faults.extend(["", *["500"] * 40 * attempts])  # the list is answered
    with pytest.raises(LandingError, match="does not answer as it should"):
        remote.ingest()
    assert bucket.proxy.requests < 1 + 40 * attempts
    bucket.proxy.faults.clear()
    bucket.proxy.requests = 0
    unread, skipped = find_unread_files(remote.stores)
    assert (len(unread), skipped) == (40, [])
    assert bucket.proxy.requests <= 1 + 40  # fewer if some were kept before


def test_a_replaced_object_is_read_from_its_beginning_and_events_count_once(
    bucket: Bucket, remote: Workplace
) -> None:
    bucket.put("logs.jsonl", FIRST)
    remote.ingest()
    bucket.put("logs.jsonl", FIRST)  # the same content: the same object
    assert remote.ingest().files == 0
    bucket.put("logs.jsonl", FIRST + SECOND)
    assert remote.ingest().counts.events == FIRST.count(b"timeUnixNano") + SECOND.count(
        b"timeUnixNano"
    )
    (lag,) = ingest_lags(remote.stores)[0]
    assert (lag.path, lag.size_bytes, lag.unread_bytes) == ("logs.jsonl", len(FIRST + SECOND), 0)
    remote.build()
    assert remote.sessions()["session_id"].to_list() == ["s1", "s2"]
    assert remote.events()["event_id"].is_unique().all()


@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_an_object_that_changes_between_two_ranges_is_named_and_nothing_mixes(
    bucket: Bucket, tmp_path: Path, change: str
) -> None:
    # Longer than the first range, so that its end is asked for after the change.
    content = b"".join(session(f"s{n}", n) for n in range(220))
    other = session("other")
    bucket.put("logs.jsonl", content)
    with open_workplace(tmp_path, landing_dir=bucket.url, batch_bytes=20_000) as remote:
        unread, _ = find_unread_files(remote.stores)
        assert unread[0].file.size_bytes > 2 * 64 * 1024
        bucket.put("logs.jsonl", other) if change == "replaced" else bucket.delete("logs.jsonl")
        remote_landing = remote.landing
        handle = remote_landing.open(unread[0].file)
        handle.read(10)
        with pytest.raises(FileNotFoundError, match=f"it was {change} since it was listed"):
            handle.read()
        report = remote.ingest()
        assert report.files == (change == "replaced")
        sessions = set(remote.landed()["session_id"])
        assert sessions == ({"other"} if change == "replaced" else set())
        lags, _ = ingest_lags(remote.stores)
        assert len(lags) == (change == "replaced")


def test_an_incomplete_end_is_said_and_is_not_waited_for(bucket: Bucket, remote: Workplace) -> None:
    cut = SECOND[:-40]
    bucket.put("logs.jsonl", FIRST + cut)
    bucket.put("short.json", b'{"resourceLogs": [')
    said = [
        (
            f"{bucket.url}/logs.jsonl",
            f"it ends within a line: its last {len(cut)} bytes are not read",
        ),
        (f"{bucket.url}/short.json", "it ends within a line: its last 18 bytes are not read"),
    ]
    for _ in range(2):
        skipped = [(file.path, file.reason) for file in remote.ingest().skipped]
        assert sorted(skipped) == said
    assert [lag.unread_bytes for lag in ingest_lags(remote.stores)[0]] == [0, 0]
    assert set(remote.landed()["session_id"]) == {"s1"}


def test_faults_that_pass_lose_and_double_nothing(bucket: Bucket, tmp_path: Path) -> None:
    content = gzip.compress(b"".join(session(f"s{n}", n) for n in range(120)), 0)
    assert len(content) > FIRST_RANGE_BYTES
    bucket.put("logs.jsonl.gz", content)
    with open_workplace(tmp_path, landing_dir=bucket.url, batch_bytes=40_000) as remote:
        faults = (["429", "500", ""], ["503", "lost", ""], ["cut", "slow"])  # of each request
        bucket.proxy.faults.extend(line for of_request in faults for line in of_request)
        report = remote.ingest()
        assert not bucket.proxy.faults
        assert (report.skipped, report.counts.quarantined) == ([], 0)
        assert remote.landed()["session_id"].n_unique() == 120
        assert remote.landed()["event_id"].is_unique().all()


def test_a_store_that_stays_away_ends_the_ingest_and_the_next_one_goes_on(
    bucket: Bucket, tmp_path: Path
) -> None:
    # The second half comes after the range that is read at first.
    content = gzip.compress(b"".join(session(f"s{n}", n) for n in range(120)), 0)
    assert len(content) > FIRST_RANGE_BYTES
    bucket.put("logs.jsonl.gz", content)
    with open_workplace(tmp_path, landing_dir=bucket.url, batch_bytes=40_000) as remote:
        find_unread_files(remote.stores)  # the first range is known now
        bucket.proxy.methods, bucket.proxy.always = ("GET",), "500"
        with pytest.raises(LandingError, match=r"s3://tests/.*does not answer as it should"):
            remote.ingest()
        bucket.proxy.always = None
        bucket.proxy.faults.extend([""])
        assert remote.ingest().counts.quarantined == 0
        assert remote.landed()["session_id"].n_unique() == 120
        assert remote.landed()["event_id"].is_unique().all()


def test_an_object_that_may_not_be_read_is_named_and_the_others_are_read(
    bucket: Bucket, remote: Workplace
) -> None:
    bucket.put("a.jsonl", FIRST)
    bucket.put("b.jsonl", SECOND)
    bucket.proxy.faults.extend(["", "403", "403", "403"])  # both, then the first one again
    (skipped,) = remote.ingest().skipped
    assert (skipped.path, skipped.reason) == (
        f"{bucket.url}/a.jsonl",
        f"cannot be read: access is refused ({REFUSED}): check what the access keys may do",
    )
    assert set(remote.landed()["session_id"]) == {"s2"}
    remote.ingest()
    assert set(remote.landed()["session_id"]) == {"s1", "s2"}


def test_commands_name_the_objects(in_bucket: Program, bucket: Bucket) -> None:
    bucket.put("a/logs.jsonl", FIRST + b"no telemetry\n")
    assert "no telemetry" not in in_bucket("ingest").out
    assert in_bucket("build").code == 0
    status = in_bucket("status").out
    assert f"Telemetry in {bucket.url}\n" in status
    assert f"  {bucket.url}/a/logs.jsonl, byte {len(FIRST)}: " in status
    (entry,) = in_bucket("quarantine", "list", "--entries", "--format", "json").items()
    shown = in_bucket("quarantine", "list", entry["entry"]).out
    assert f"{bucket.url}/a/logs.jsonl" in shown.replace("\n", "")
    assert f"aws s3 cp {bucket.url}/a/logs.jsonl - | tail -c +{len(FIRST) + 1}" in shown
    assert in_bucket("quarantine", "retry", "--file", f"{bucket.url}/a/logs.jsonl").code == 1
    assert "All telemetry is read" in in_bucket("doctor", "--offline").out
    bucket.put("b.jsonl", SECOND)
    unread = f"failed: {len(SECOND)} bytes of telemetry not read yet "
    assert unread in in_bucket("doctor", "--offline").out
    refused = in_bucket("demo")
    assert (refused.code, "the demo needs a folder of its own" in refused.err) == (1, True)
    refused = in_bucket("serve", "--otlp")
    assert (refused.code, "cannot receive any" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("403", "access is refused"), ("500", "does not answer as it should")],
)
def test_a_bucket_that_cannot_be_listed_is_one_line(
    in_bucket: Program, bucket: Bucket, fault: str, said: str
) -> None:
    in_bucket("ingest")
    bucket.proxy.always = fault
    for command in (["ingest"], ["status"], ["doctor", "--offline"]):
        ran = in_bucket(*command)
        assert (ran.code, said in ran.err + ran.out) == (1, True), command
        assert SECRET not in ran.err + ran.out
        assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://not-there/landing", "s3://not-there/landing: there is no such bucket"),
        ("ftp://there/landing", "ftp://there/landing is no object store"),
        ("s3:/there/landing", "EVAL_LANDING_DIR: must be a path or a URL such as s3://"),
        ("file:///srv/landing", "EVAL_LANDING_DIR: must be a path or a URL such as s3://"),
        (f"s3://me:{SECRET}@there/x", "EVAL_LANDING_DIR: must be a path or a URL such as s3://"),
    ],
)
def test_a_wrong_url_is_said(
    in_bucket: Program, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    monkeypatch.setenv("EVAL_LANDING_DIR", url)
    ran = in_bucket("ingest")
    assert ran.code != 0
    assert said in ran.err
    assert SECRET not in ran.err


def test_other_keys_are_passed_over_or_said(remote: Workplace, bucket: Bucket) -> None:
    for key in ("folder/", "folder.jsonl/", ".hidden.jsonl"):
        bucket.put_raw(key, b"")
    bucket.put("a b#c\u00e4%41.jsonl", FIRST)
    bucket.put("logs.ndjson", SECOND)
    bucket.put("signals/deep/s.jsonl", b"{}")
    report = remote.ingest()
    assert report.counts.quarantined == 0
    assert [file.path for file in report.skipped] == [f"{bucket.url}/logs.ndjson"]
    assert [file.path for file in remote.landing.list_files()[0]] == [
        "a b#c\u00e4%41.jsonl",
        "folder.jsonl",
    ]
    assert [file.path for file in remote.landing.list_external("signals")[1]] == [
        f"{bucket.url}/signals/deep/s.jsonl"
    ]
    bucket.put_raw("a//b.jsonl", FIRST)
    with pytest.raises(LandingError, match=f"{bucket.url}: a key below it cannot be used .*a//b"):
        remote.ingest()
