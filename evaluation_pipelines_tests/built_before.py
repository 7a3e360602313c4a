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

import sqlalchemy as sa

from evaluation_pipelines_tests.workplace import Workplace

_LANDED = "logs.jsonl"
_OF_A_TEST = {"data_dir", "openai_base_url", "openai_api_key"}
"""Settings that differ between tests and have no influence on a build."""
_OF_EVERY_LEDGER = {"ledger_ids", "ledger_version"}


def build_from(workplace: Workplace, content: bytes) -> None:
    """Append ``content`` to the landing file, ingest it and build all dates."""
    settings = workplace.settings.model_dump_json(exclude=_OF_A_TEST)
    key = (content, settings.replace(str(workplace.settings.data_dir), ""))
    is_new = _is_new(workplace)
    if is_new and key in _kept():
        _kept()[key].restore(workplace)
        return
    workplace.land(_LANDED, content, "ab")
    workplace.ingest()
    workplace.build()
    if is_new and workplace.lake.root.exists():
        _kept()[key] = _Filled.of(workplace, content)


def _is_new(workplace: Workplace) -> bool:
    """Whether a build depends on nothing but settings and what lands now."""
    settings, engine = workplace.settings, workplace.ledger.engine
    folders = (workplace.landing.root, workplace.lake.root, settings.profiles_dir)
    if any(each.exists() and any(each.iterdir()) for each in folders):
        return False
    if settings.identities_path.exists() or engine.dialect.name != "sqlite":
        return False
    with engine.connect() as connection:
        tables = set(sa.inspect(connection).get_table_names()) - _OF_EVERY_LEDGER
        return not any(
            connection.execute(sa.select(sa.exists().select_from(sa.table(each)))).scalar()
            for each in tables
        )


@dataclass(frozen=True, slots=True)
class _Filled:
    """Lake, ledger and landing file of a workplace."""

    landed_bytes: int
    folder: Path

    @classmethod
    def of(cls, workplace: Workplace, content: bytes) -> "_Filled":
        kept = cls(len(content), Path(tempfile.mkdtemp(dir=_parent())))
        shutil.copytree(workplace.lake.root, kept.folder / "lake")
        _copy_database(_database(workplace), kept.folder / "ledger.db")
        os.link(workplace.landing.root / _LANDED, kept.folder / _LANDED)
        return kept

    def restore(self, workplace: Workplace) -> None:
        shutil.copytree(self.folder / "lake", workplace.lake.root, dirs_exist_ok=True)
        _copy_database(self.folder / "ledger.db", _database(workplace))
        # The ledger knows the file by its inode; another test may have appended to it.
        os.truncate(self.folder / _LANDED, self.landed_bytes)
        os.link(self.folder / _LANDED, workplace.landing.root / _LANDED)


@cache
def _kept() -> dict[tuple[bytes, str], _Filled]:
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
