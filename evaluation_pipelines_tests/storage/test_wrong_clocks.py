"""Sweeps by a machine, or of a store, whose clock is off: what is being written stays."""

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
from evaluation_pipelines.storage.store import LocalStore
from evaluation_pipelines_tests.lake_files import root_of
from evaluation_pipelines_tests.object_server import BUCKET, variables
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

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
    return [each.path for each in workplace.lake.store.list("")]


@pytest.mark.parametrize("server_off", OFF)
@pytest.mark.parametrize("off", OFF)
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
