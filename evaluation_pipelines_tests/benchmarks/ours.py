"""The program itself, on a data folder of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines.telemetry.unread_files import find_unread_files, has_complete_line


def ingest(folder: str) -> dict[str, object]:
    """Ingest what lies in ``landing``: ledger, quarantine, fsync, everything on."""
    with _stores(folder) as stores:
        report = Ingest(stores).run()
    return {
        "parquet": f"{folder}/lake/agent_events_landed/**/*.parquet",
        "files": report.files,
        "bytes": report.counts.bytes,
        "events": report.counts.events,
    }


def tick(folder: str, times: int) -> dict[str, float]:
    """The work of ``otel_landing_sensor`` when nothing is new: median of some times, in ms."""
    taken: list[float] = []
    with _stores(folder) as stores:
        for _ in range(times):
            began = perf_counter()
            arrivals, _ = find_unread_files(stores)
            found = [each for each in arrivals if has_complete_line(stores, each)]
            taken.append((perf_counter() - began) * 1000)
            assert not found
        files = len(SourceFiles(stores.ledger).all())
    return {"median_ms": median(taken), "files": files, "incomplete": len(arrivals)}


@contextmanager
def _stores(folder: str) -> Iterator[Stores]:
    # Settings of the person who measures must not change what is measured.
    with open_stores(Settings(_env_file=None, data_dir=Path(folder))) as stores:
        yield stores
