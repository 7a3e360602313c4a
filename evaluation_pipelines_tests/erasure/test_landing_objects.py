"""Objects of a bucket: forget names, replaces or deletes them, expire deletes old ones."""

import gzip
from pathlib import Path

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.expire import Expire
from evaluation_pipelines.erasure.forget import Forget, Forgot
from evaluation_pipelines.storage.landing import LandingError
from evaluation_pipelines.telemetry.unread_files import ingest_lags
from evaluation_pipelines_tests.erasure.two_people import TRACES, USER, of_ada, of_ben
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.servers.landing_bucket import Bucket, landing_bucket, make_versioned
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace


def forget(workplace: Workplace, *, rewrite: bool = True) -> Forgot:
    return Forget(workplace.stores, "admin", rewrite, lambda: NOW).run(Subject("user", USER))


def has_traces(content: bytes) -> bool:
    return any(trace.encode() in content for trace in TRACES)


def test_an_object_is_replaced_without_the_person_and_not_read_again(
    bucket: Bucket, tmp_path: Path
) -> None:
    packed = gzip.compress(of_ben("packed", 60) + of_ada("packed-ada", 90))
    contents = {
        "both.jsonl": of_ada() + of_ben() + b"no telemetry\n",
        "packed.jsonl.gz": packed,
        "ada.jsonl": of_ada("alone", 120),
        "ben.jsonl": of_ben("other", 180),
    }
    for key, content in contents.items():
        bucket.put(key, content)
    with open_workplace(tmp_path, landing_dir=bucket.url) as workplace:
        workplace.ingest()
        bucket.put("unread.jsonl", of_ada("unread", 240) + of_ben("new", 300))
        traces = {trace.path: trace.kept_because for trace in forget(workplace).landing}
        assert traces == {
            f"{bucket.url}/{key}": None
            for key in ("ada.jsonl", "both.jsonl", "packed.jsonl.gz", "unread.jsonl")
        }
        assert bucket.keys() == ["ben.jsonl", "both.jsonl", "packed.jsonl.gz", "unread.jsonl"]
        assert bucket.get("ben.jsonl") == contents["ben.jsonl"]
        assert bucket.get("both.jsonl") == of_ben() + b"no telemetry\n"
        assert gzip.decompress(bucket.get("packed.jsonl.gz")) == of_ben("packed", 60)
        assert not has_traces(bucket.get("unread.jsonl"))

        unread = len(of_ben("new", 300))
        assert sum(lag.unread_bytes or 0 for lag in ingest_lags(workplace.stores)[0]) == unread
        assert workplace.ingest().files == 1
        assert workplace.landed()["event_id"].is_unique().all()


def test_without_being_asked_objects_are_named_and_stay(in_bucket: Program, bucket: Bucket) -> None:
    bucket.put("a/both.jsonl", of_ada() + of_ben())
    in_bucket("ingest")
    ran = in_bucket("forget", "--user", USER)
    assert ran.code == 4
    assert f"landing {bucket.url}/a/both.jsonl: still has traces at 0: forget --rewrite" in ran.out
    assert has_traces(bucket.get("a/both.jsonl"))
    ran = in_bucket("forget", "--user", USER, "--rewrite-landing")
    assert (ran.code, f"landing {bucket.url}/a/both.jsonl: rewritten" in ran.out) == (0, True)
    assert bucket.get("a/both.jsonl") == of_ben()


def test_older_versions_that_the_bucket_keeps_are_said(
    s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_versioned(s3, "versioned")
    with (
        landing_bucket(s3, monkeypatch, "versioned") as bucket,
        open_workplace(tmp_path, landing_dir=bucket.url) as workplace,
    ):
        bucket.put("both.jsonl", of_ada() + of_ben())
        bucket.put("ada.jsonl", of_ada("alone", 120))
        workplace.ingest()
        reasons = {trace.kept_because for trace in forget(workplace).landing}
        assert reasons == {
            "it was rewritten, but the bucket may keep its older versions: delete these there"
        }
        assert bucket.keys() == ["both.jsonl"]
        assert bucket.get("both.jsonl") == of_ben()


@pytest.mark.parametrize(("fault", "is_written"), [("403", False), ("lost", True)])
def test_faults_while_an_object_is_replaced(
    bucket: Bucket, tmp_path: Path, fault: str, is_written: bool
) -> None:
    bucket.put("both.jsonl", of_ada() + of_ben())
    with open_workplace(tmp_path, landing_dir=bucket.url) as workplace:
        workplace.ingest()
        bucket.proxy.methods = ("PUT",)
        bucket.proxy.faults.append(fault)
        (trace,) = forget(workplace).landing
        assert (trace.kept_because is None) == is_written
        if not is_written:
            assert "it cannot be written: access is refused" in str(trace.kept_because)
        assert has_traces(bucket.get("both.jsonl")) != is_written
        assert workplace.ingest().files == 0


def test_a_store_that_is_away_ends_forget_with_an_error(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("both.jsonl", of_ada() + of_ben())
    with open_workplace(tmp_path, landing_dir=bucket.url) as workplace:
        workplace.ingest()
        bucket.proxy.methods, bucket.proxy.always = ("PUT",), "500"
        with pytest.raises(LandingError, match=r"both\.jsonl: the object store does not answer"):
            forget(workplace)
        bucket.proxy.always = None
        assert [trace.kept_because for trace in forget(workplace).landing] == [None]
        assert bucket.get("both.jsonl") == of_ben()


def test_old_objects_that_were_read_are_deleted(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("read.jsonl", of_ben())
    bucket.put("cut.jsonl", of_ben("cut", 60)[:-30])
    with open_workplace(tmp_path, landing_dir=bucket.url, keep_landing_days=1) as workplace:
        workplace.ingest()
        bucket.put("unread.jsonl", of_ben("other", 120))
        later = NOW.replace(year=NOW.year + 1)
        assert Expire(workplace.stores, dry_run=True, clock=lambda: later).run().files == [
            "read.jsonl"
        ]
        assert Expire(workplace.stores, clock=lambda: later).run().files == ["read.jsonl"]
        assert bucket.keys() == ["cut.jsonl", "unread.jsonl"]
