"""What the benchmark of judge runs measures: all that is due, from the lake to the ledger."""

from pathlib import Path

from evaluation_pipelines.judging.run import RunRequest, judge
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores


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
