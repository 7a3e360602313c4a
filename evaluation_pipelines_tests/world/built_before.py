"""Stores as they were after the same telemetry had been ingested and built before.

A build takes far longer than a copy of what it has made, and hundreds of tests begin with the same
session.
"""

import atexit
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import sqlalchemy as sa

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world.lake_files import root_of

_Key: TypeAlias = tuple[bytes | str, ...]

_LANDED = "logs.jsonl"
_OF_A_TEST = {"data_dir", "openai_base_url", "openai_api_key"}
"""Settings that differ between tests and have no influence on a build."""
_OF_EVERY_LEDGER = {"ledger_ids", "ledger_version"}


def build_from(workplace: Workplace, content: bytes) -> None:
    """Append ``content`` to the landing file, ingest it and build all dates."""
    settings = workplace.settings.model_dump_json(exclude=_OF_A_TEST)
    key: _Key = (
        content,
        settings.replace(str(workplace.settings.data_dir), ""),
        *_profiles(workplace),
    )
    is_new = _is_new(workplace)
    stores = _Stores(workplace.landing.root, root_of(workplace.lake), _database(workplace))
    if is_new and key in _kept():
        _kept()[key].restore(stores)
        return
    workplace.land(_LANDED, content, "ab")
    workplace.ingest()
    workplace.build()
    if is_new and root_of(workplace.lake).exists():
        _kept()[key] = _Filled.of(stores, content)


def build_by(program: Program, content: bytes) -> None:
    """Land ``content`` in an empty folder, ingest and build it with the program."""
    data = program.folder / "data"
    stores = _Stores(data / "landing", data / "lake", data / "ledger.db")
    key: _Key = (content, "program")
    if key in _kept():
        stores.landing.mkdir(parents=True)
        _kept()[key].restore(stores)
        return
    program.land(_LANDED, content)
    assert program("ingest").code == 0
    program("build")
    _kept()[key] = _Filled.of(stores, content)


def _profiles(workplace: Workplace) -> tuple[str, ...]:
    """The profile files of a workplace, and their texts."""
    files = sorted(workplace.settings.profiles_dir.glob("*"))
    return tuple(text for file in files for text in (file.name, file.read_text()))


def _is_new(workplace: Workplace) -> bool:
    """Whether a build depends on nothing but settings, profiles and what lands now."""
    settings, engine = workplace.settings, workplace.ledger.engine
    folders = (workplace.landing.root, root_of(workplace.lake))
    if any(folder.exists() and any(folder.iterdir()) for folder in folders):
        return False
    if settings.identities_path.exists() or engine.dialect.name != "sqlite":
        return False
    with engine.connect() as connection:
        tables = set(sa.inspect(connection).get_table_names()) - _OF_EVERY_LEDGER
        return not any(
            connection.execute(sa.select(sa.exists().select_from(sa.table(table)))).scalar()
            for table in tables
        )


@dataclass(frozen=True, slots=True)
class _Stores:
    """Where landing folder, lake and ledger are."""

    landing: Path
    lake: Path
    database: Path


@dataclass(frozen=True, slots=True)
class _Filled:
    """Lake, ledger and landing file of stores."""

    landed_bytes: int
    folder: Path

    @classmethod
    def of(cls, stores: _Stores, content: bytes) -> "_Filled":
        kept = cls(len(content), Path(tempfile.mkdtemp(dir=_parent())))
        shutil.copytree(stores.lake, kept.folder / "lake")
        _copy_database(stores.database, kept.folder / "ledger.db")
        os.link(stores.landing / _LANDED, kept.folder / _LANDED)
        return kept

    def restore(self, stores: _Stores) -> None:
        shutil.copytree(self.folder / "lake", stores.lake, dirs_exist_ok=True)
        _copy_database(self.folder / "ledger.db", stores.database)
        # The ledger knows the file by its inode; another test may have appended to it.
        os.truncate(self.folder / _LANDED, self.landed_bytes)
        os.link(self.folder / _LANDED, stores.landing / _LANDED)


@cache
def _kept() -> dict[_Key, _Filled]:
    return {}


@cache
def _parent() -> str:
    """A folder that lives as long as this process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _database(workplace: Workplace) -> Path:
    return Path(str(workplace.ledger.engine.url.database))


def _copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
