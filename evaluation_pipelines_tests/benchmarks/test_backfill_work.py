"""What the backfill is measured on is built, and all ways to do it come to the same scores."""

from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.benchmarks import backfill_work
from evaluation_pipelines_tests.benchmarks.telemetry_file import END


@pytest.mark.slow
def test_the_program_and_both_loops_agree_on_a_small_backfill(tmp_path: Path) -> None:
    folder, days = str(tmp_path), [END - timedelta(days=2), END - timedelta(days=1)]
    first, last = (str(day) for day in days)
    # 2 dates of 3 sessions of 100 events.
    assert backfill_work.land(folder, 2, 3) == {"events": 600}
    with open_stores(Settings(data_dir=tmp_path)) as stores:
        results = Build(stores).run(days)
    assert all(isinstance(result, DateBuilt) for result in results)
    made = backfill_work.made(folder, first, last)
    assert made["cards"] == 2 * 3 * 2  # 2 profiles
    assert backfill_work.loop(folder, first, last) == made
    assert backfill_work.one_by_one(folder, first, 3)["effective"] > 0  # compares with the stored
