"""The store of the lake's files: written once, private, and no links followed."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.storage.store import LinkError, LocalStore
from evaluation_pipelines_tests.workplace import NOW

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
    assert [each.path for each in store.list("a/")] == ["a/b/one"]
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
    assert [each.name for each in store.root.rglob("*")] == ["one"]


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
    assert [each.name for each in elsewhere.iterdir()] == ["theirs"]


def test_a_link_in_the_place_of_a_file_is_not_read(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/one", b"text")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (store.root / "a/two").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        store.get("a/two")
    assert [each.path for each in store.list("a/")] == ["a/one"]


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
    assert [each.path for each in store.list("_tmp/")] == ["_tmp/young"]
