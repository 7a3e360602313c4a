"""The sessions of the backfill, built, as the lists of the service show them."""

from datetime import timedelta
from pathlib import Path

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.benchmarks.backfill_work import land
from evaluation_pipelines_tests.benchmarks.measure import BenchmarkError
from evaluation_pipelines_tests.benchmarks.telemetry_file import END


def fill(folder: str, days: int, sessions: int) -> dict[str, int]:
    """Build sessions of some days; return how many."""
    land(folder, days, sessions)
    dates = [END - timedelta(days=number) for number in range(days, 0, -1)]
    with open_stores(Settings(data_dir=Path(folder))) as stores:
        results = Build(stores).run(dates)
        if failed := [result for result in results if not isinstance(result, DateBuilt)]:
            raise BenchmarkError(f"{failed[0].error}")
    return {"sessions": days * sessions}
