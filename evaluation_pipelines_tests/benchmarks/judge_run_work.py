"""What the benchmark of judge runs measures: all that is due, from the lake to the ledger."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from evaluation_pipelines.build import Build
from evaluation_pipelines.judging.run import RunRequest, judge
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry

_DAYS = 14


def fill(folder: str, sessions: int) -> dict[str, float]:
    """Ingest and build a fortnight up to a week ago; return the seconds of both."""
    end = (datetime.now(UTC) - timedelta(days=7)).date()
    extent = Extent(_DAYS, sessions / _DAYS)
    write_telemetry(Path(folder) / "landing" / "team", seed=1, end=end, extent=extent)
    with open_stores(Settings(data_dir=Path(folder))) as stores:
        began = perf_counter()
        Ingest(stores).run()
        landed = perf_counter()
        job = Build(stores)
        job.run(job.pending_dates())
        return {"ingest_s": landed - began, "build_s": perf_counter() - landed}


def judge_all(folder: str, base_url: str, concurrency: int, max_sessions: int) -> dict[str, float]:
    """Judge what is due; how many sessions were scored, and with how many calls."""
    settings = Settings(
        data_dir=Path(folder),
        OPENAI_BASE_URL=base_url,
        judge_model="judge-1",
        judge_concurrency=concurrency,
        judge_samples=1,
    )
    with open_stores(settings) as stores:
        days = stores.lake.partitions(AGENT_SESSIONS)
        report = judge(stores, RunRequest("benchmark", max_sessions=max_sessions), days)
    return {"scored": len(report.totals), "failed": report.failed.total(), "calls": report.calls}
