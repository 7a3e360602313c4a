"""A lake is used by one ledger: to another one, all its files look as if crashes had left them."""

from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.compaction import sweep_superseded
from evaluation_pipelines.storage.lake import LakeError, OtherLedgerError
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.stores import open_stores, read_stores
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.workplace import NOW
from evaluation_pipelines_tests.world import session


def settings_of(folder: Path, ledger: str = "ledger.db") -> Settings:
    return Settings(data_dir=folder, ledger_url=f"sqlite:///{folder / ledger}")


def fill(folder: Path) -> set[Path]:
    settings = settings_of(folder)
    (folder / "landing").mkdir(parents=True)
    (folder / "landing" / "a.jsonl").write_bytes(session("a"))
    with open_stores(settings) as stores:
        Ingest(stores, lambda: NOW).run()
        job = Build(stores, clock=lambda: NOW)
        job.run(job.pending_dates())
    return set(Path(settings.lake_dir).rglob("*.parquet"))


def test_a_second_ledger_is_refused_and_deletes_nothing(tmp_path: Path) -> None:
    before = fill(tmp_path)
    other = settings_of(tmp_path, "other.db")
    with (
        pytest.raises(OtherLedgerError, match=r"lake belongs to another .*other\.db\. Restore"),
        open_stores(other) as stores,
    ):
        sweep_superseded(stores, NOW + timedelta(days=400))
    with (
        pytest.raises(OtherLedgerError, match=r"move the lake away and run ingest"),
        read_stores(other),
    ):
        pass
    assert set(Path(other.lake_dir).rglob("*.parquet")) == before


def test_after_a_lost_ledger_the_landing_folder_is_read_again_beside_the_old_lake(
    tmp_path: Path,
) -> None:
    before = fill(tmp_path)
    settings = settings_of(tmp_path)
    (tmp_path / "ledger.db").unlink()
    with pytest.raises(OtherLedgerError), open_stores(settings):
        pass
    Path(settings.lake_dir).rename(tmp_path / "lake.old")
    with open_stores(settings) as stores:
        Ingest(stores, lambda: NOW).run()
        assert stores.lake.select(AGENT_EVENTS_LANDED).height == 2
    assert len(set((tmp_path / "lake.old").rglob("*.parquet"))) == len(before)


def test_a_lake_without_a_note_is_noted_by_the_first_that_writes(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    open_ledger(settings.ledger_url).close()
    with read_stores(settings):
        pass
    assert not Path(settings.lake_dir).exists()
    with open_stores(settings):
        pass
    assert (Path(settings.lake_dir) / "_ledger").stat().st_mode & 0o777 == 0o600
    with pytest.raises(OtherLedgerError), open_stores(settings_of(tmp_path, "other.db")):
        pass


def test_a_note_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    (Path(settings.lake_dir) / "_ledger").mkdir(parents=True)
    with (
        pytest.raises(LakeError, match=r"_ledger, which names .* Check space"),
        open_stores(settings),
    ):
        pass
