"""The store of the lake's files: written once, private, and no links followed."""

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from moto.core.utils import utcnow
from moto.s3.models import s3_backends

from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.compaction import sweep_orphans
from evaluation_pipelines.storage.ledger.ledger import Ledger, ledger_time
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.store import LinkError, LocalStore
from evaluation_pipelines_tests.servers.s3 import BUCKET, variables
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world.lake_files import root_of

A_GROUP = 12345


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake")


def test_a_file_is_read_back_whole_or_in_part_and_deleted(store: LocalStore) -> None:
    store.put("a/b/one", b"0123456789")
    assert store.get("a/b/one") == b"0123456789"
    assert store.get("a/b/one", 3) == b"3456789"
    assert store.get("a/b/one", 3, 5) == b"34"
    store.put("ab/other", b"")
    assert [file.path for file in store.list("a/")] == ["a/b/one"]
    assert [file.path for file in store.list("")] == ["a/b/one", "ab/other"]
    store.delete("a/b/one")
    store.delete("a/b/one")
    assert list(store.list("a/")) == []
    with pytest.raises(FileNotFoundError):
        store.get("a/b/one")


def test_a_file_is_never_replaced(store: LocalStore) -> None:
    store.put("a/one", b"first")
    with pytest.raises(FileExistsError):
        store.put("a/one", b"second")
    assert store.get("a/one") == b"first"
    assert list(store.list("_tmp/")) == []


def test_a_file_is_replaced_as_a_whole_if_that_is_wanted(store: LocalStore) -> None:
    store.put("one", b"first", replaces=True)
    with (store.root / "one").open("rb") as opened:
        store.put("one", b"second", replaces=True)
        assert opened.read() == b"first"
    assert store.get("one") == b"second"
    assert [path.name for path in store.root.rglob("*")] == ["one"]


def test_a_file_is_never_replaced_where_the_file_system_has_no_hard_links(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(_staged: Path, _target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    store.put("a/one", b"first")
    with pytest.raises(FileExistsError):
        store.put("a/one", b"second")
    assert store.get("a/one") == b"first"


def test_folders_and_files_are_private_whatever_the_umask_is(store: LocalStore) -> None:
    before = os.umask(0)
    try:
        store.put("a/b/one", b"text")
    finally:
        os.umask(before)
    assert {mode(store.root / name) for name in ("", "a", "a/b", "_tmp")} == {"0o700"}
    assert mode(store.root / "a/b/one") == "0o600"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to any group")
def test_a_group_reads_what_is_shared_and_nothing_else(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake", A_GROUP)
    store.put("figures/one", b"1", shared=True)
    store.put("texts/one", b"text")
    assert mode(store.root / "figures/one") == "0o640"
    assert (store.root / "figures/one").stat().st_gid == A_GROUP
    assert [mode(store.root / name) for name in ("", "figures", "texts", "_tmp")] == [
        "0o750",
        "0o750",
        "0o700",
        "0o700",
    ]
    assert mode(store.root / "texts/one") == "0o600"


@pytest.mark.parametrize("planted", ["_tmp", "a", "a/b"])
def test_a_link_in_the_place_of_a_folder_is_not_followed(
    store: LocalStore, tmp_path: Path, planted: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "theirs").write_bytes(b"theirs")
    os.utime(elsewhere / "theirs", (0, 0))  # older than what crashes left and a sweep deletes
    link = store.root / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(LinkError, match=f"{link} is a symbolic link, which is not followed"):
        store.put("a/b/one", b"text")
    with pytest.raises(LinkError, match=f"{link} is a symbolic link"):
        store.delete(f"{planted}/theirs")
    assert list(store.list(f"{planted}/")) == []
    store.delete_staged(NOW)
    assert [path.name for path in elsewhere.iterdir()] == ["theirs"]


def test_a_link_in_the_place_of_a_file_is_not_read(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/one", b"text")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (store.root / "a/two").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        store.get("a/two")
    assert [file.path for file in store.list("a/")] == ["a/one"]


def test_the_root_may_be_a_link_that_its_owner_made(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    store = LocalStore(tmp_path / "lake")
    store.put("a/one", b"text")
    assert (tmp_path / "disk/a/one").read_bytes() == b"text"


def test_old_staged_files_are_deleted(store: LocalStore) -> None:
    store.put("a/one", b"text")
    for name, age in (("old", timedelta(hours=2)), ("young", timedelta())):
        path = store.root / "_tmp" / name
        path.write_bytes(b"half a file")
        os.utime(path, ((NOW - age).timestamp(),) * 2)
    store.delete_staged(NOW - timedelta(hours=1))
    assert [file.path for file in store.list("_tmp/")] == ["_tmp/young"]


DAY = date(2026, 6, 1)
OFF = [timedelta(hours=hours) for hours in (-3, 0, 3)]


@pytest.fixture
def in_bucket(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    """An empty lake in a bucket."""
    for name, value in variables(s3).items():
        monkeypatch.setenv(name, value)
    with open_workplace(tmp_path, lake_dir=f"s3://{BUCKET}/{uuid4().hex}") as workplace:
        yield workplace


def sweep(workplace: Workplace, off: timedelta) -> None:
    sweep_orphans(workplace.stores, [AGENT_SESSIONS], DAY, datetime.now(UTC) + off)


def write(workplace: Workplace, name: str) -> str:
    """Write a part that no manifest names yet; return its path."""
    return workplace.lake.write_part(AGENT_SESSIONS.no_rows, AGENT_SESSIONS, DAY, name).path


def paths(workplace: Workplace) -> list[str]:
    return [file.path for file in workplace.lake.store.list("")]


@pytest.mark.parametrize(
    ("off", "server_off"), [(OFF[0], OFF[1]), (OFF[1], OFF[0]), (OFF[1], OFF[2]), (OFF[2], OFF[1])]
)
def test_an_object_that_is_about_to_be_named_stays_and_one_left_by_a_crash_goes(
    in_bucket: Workplace,
    monkeypatch: pytest.MonkeyPatch,
    off: timedelta,
    server_off: timedelta,
) -> None:
    monkeypatch.setattr("moto.s3.models.utcnow", lambda: utcnow() + server_off)
    left, new = write(in_bucket, "left"), write(in_bucket, "new")
    age_object(in_bucket.lake.where(left), timedelta(hours=1, minutes=1))
    sweep(in_bucket, off)
    late = off - server_off < timedelta()  # deleted later, by a machine whose clock is right
    assert paths(in_bucket) == ([left, new] if late else [new])
    part = in_bucket.lake.write_part(AGENT_SESSIONS.no_rows, AGENT_SESSIONS, DAY, "named")
    Manifest(in_bucket.ledger).switch([part], datetime.now(UTC))
    sweep(in_bucket, off)
    assert in_bucket.lake.read(AGENT_SESSIONS, [DAY]).is_empty()


def age_object(url: str, age: timedelta) -> None:
    """Let an object have been put longer ago."""
    key = url.removeprefix(f"s3://{BUCKET}/")
    partition, account = s3_backends.bucket_accounts[BUCKET]
    found: Any = s3_backends[account][partition].buckets[BUCKET].keys[key]
    found.last_modified -= age


@pytest.mark.parametrize("off", OFF)
def test_a_file_that_is_about_to_be_named_stays_and_one_left_by_a_crash_goes(
    workplace: Workplace, off: timedelta
) -> None:
    left, new = write(workplace, "left"), write(workplace, "new")
    half, root = "_tmp/half", root_of(workplace.lake)
    (root / half).write_bytes(b"half a file")
    for path in (left, half):
        ago = (datetime.now(UTC) - timedelta(hours=1, minutes=1)).timestamp()
        os.utime(root / path, (ago, ago))
    (root / "_tmp/written").write_bytes(b"half a file")
    sweep(workplace, off)
    late = [half, left] if off < timedelta() else []
    assert paths(workplace) == sorted(["_tmp/written", new, *late])


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("off", [timedelta(hours=-3), timedelta(hours=3)])
def test_a_part_was_replaced_at_the_time_of_the_server(ledger: Ledger, off: timedelta) -> None:
    """By its own clock a machine would keep the old part too long, or delete it under a reader."""
    for path in ("old", "new"):
        part = NewPart(AGENT_SESSIONS.name, DAY, path, 1, 1, "", slot="slot", last_bucket=255)
        Manifest(ledger).switch([part], datetime.now(UTC) + off)
    (old,) = Manifest(ledger).sweepable(ledger_time(ledger))
    assert old.superseded_at is not None
    assert ledger_time(ledger) - old.superseded_at < timedelta(minutes=1)


def test_a_time_is_that_of_the_disk_and_leaves_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    before = datetime.now(UTC).timestamp()
    assert before - 1 < store.now() < datetime.now(UTC).timestamp() + 1
    assert list(store.list("")) == []


def test_probes_that_kills_have_left_in_a_bucket_are_deleted(in_bucket: Workplace) -> None:
    store = in_bucket.lake.store
    for name in ("old", "young"):
        store.put(f"_tmp/clock/{name}", b"", shared=False)
    age_object(store.where("_tmp/clock/old"), timedelta(hours=2))
    store.now()
    assert paths(in_bucket) == ["_tmp/clock/young"]
