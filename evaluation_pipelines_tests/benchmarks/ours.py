"""The program itself, on a data folder of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFiles
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
    """The work of ``otel_landing_sensor`` when nothing has changed: median of times, in ms.

    And of one walk over the folder, with a system call per file.
    """
    taken: list[float] = []
    walked: list[float] = []
    with _stores(folder) as stores:
        files = SourceFiles(stores.ledger)
        arrivals, _ = find_unread_files(stores)
        assert not any(has_complete_line(stores, arrival) for arrival in arrivals)
        for _ in range(times):
            began = perf_counter()
            stores.landing.fingerprint(), files.progress()
            taken.append((perf_counter() - began) * 1000)
            began = perf_counter()
            _walk(Path(stores.landing.location))
            walked.append((perf_counter() - began) * 1000)
        number = len(files.all())
    return {"median_ms": median(taken), "walk_median_ms": median(walked), "files": number}


def _walk(folder: Path) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir():
            _walk(Path(entry.path))
        else:
            entry.stat()


@contextmanager
def _stores(folder: str) -> Iterator[Stores]:
    # Settings of the person who measures must not change what is measured.
    with open_stores(Settings(data_dir=Path(folder))) as stores:
        yield stores
