"""Ingest and build by an engine, with the processor time of all processes that it runs in."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter

import psutil

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines.telemetry.ingest import Ingest

Step = dict[str, float]


def fill(folder: str, engine: str, cores: int, shards: int) -> dict[str, object]:
    """Ingest what lies in ``landing`` and build all dates, on some cores of this machine.

    A Ray cluster of one node is started before the clock is, and idles with it.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    settings = Settings(data_dir=Path(folder), engine=engine, shards=shards)
    steps: dict[str, Step] = {}
    with ExitStack() as stack:
        if engine == "ray":
            stack.enter_context(_node(cores))
        stores = stack.enter_context(open_stores(settings))
        with _measured(steps, "ingest"):
            report = Ingest(stores).run()
        with _measured(steps, "build"):
            job = Build(stores)
            built = job.run(job.pending_dates())
        assert all(isinstance(result, DateBuilt) for result in built), built
        rows = stores.lake.select(AGENT_SESSIONS).sort(AGENT_SESSIONS.key)
        scores = stores.lake.select(SESSION_PERFORMANCE).sort(SESSION_PERFORMANCE.key)
        lake = sum(part.size_bytes for part in Manifest(stores.ledger).all_tables())
        content = json.dumps([rows.height, *map(str, scores.rows())]).encode()
    return {
        "steps": steps,
        "bytes": report.counts.bytes,
        "sessions": rows.height,
        "lake_bytes": lake,
        "ledger_bytes": sum(path.stat().st_size for path in Path(folder).glob("ledger.db*")),
        "rows": hashlib.sha256(content).hexdigest(),
    }


@contextmanager
def _node(cores: int) -> Iterator[None]:
    import ray

    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _measured(steps: dict[str, Step], name: str) -> Iterator[None]:
    began, used = perf_counter(), _cpu_seconds()
    yield
    steps[name] = {"seconds": perf_counter() - began, "cpu_seconds": _cpu_seconds() - used}
    sys.stderr.write(f"    {name}: {steps[name]}\n")


def _cpu_seconds() -> float:
    """Return the processor time of this process and its descendants, ended ones as well."""
    this = psutil.Process()
    found = 0.0
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has ended: its parent has its time
            found += sum(process.cpu_times()[:4])
    return found
