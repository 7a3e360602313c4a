"""Ingests that are killed while events of late-named traces move to another date."""

import random
import time
from pathlib import Path

import pytest

from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex
from evaluation_pipelines_tests.build.test_build_kills import (
    assert_same_as_undisturbed_build,
    finish,
    tables_of,
)
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers
from evaluation_pipelines_tests.telemetry.placing.span_lines import DAY_S, line, turn
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world.lake_files import make_older, root_of

DATES = 3
_LANDED = "agent_events_landed"


def moved(workplace: Workplace) -> set[Path]:
    """Return the files of events that moved to another date."""
    return set((workplace.settings.data_dir / "lake").glob("*/*/moved-*.parquet"))


def unnamed(workplace: Workplace) -> set[Path]:
    """Return those that the manifest does not name."""
    manifest, root = Manifest(workplace.ledger), root_of(workplace.lake)
    days = [date.session_date for date in manifest.dates(_LANDED)]
    return moved(workplace) - {root / path for day in days for path in manifest.known_paths(day)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_move_killed_at_any_moment_is_completed_by_the_next_ingest(
    tmp_path: Path, seed: int
) -> None:
    """Each round names the session of three traces of other dates, and kills in the middle."""
    rounds, chance = 12, random.Random(seed)  # noqa: S311 - no secret
    traces = [turn(f"t{seed}-{n}", n % DATES * DAY_S, f"s{n % 2}") for n in range(3 * rounds)]
    during, orphans = 0, set[Path]()
    with (
        open_workplace(tmp_path) as workplace,
        sequential_workers(rounds, "ingest", tmp_path) as workers,
    ):
        for number, worker in enumerate(workers):
            some = traces[3 * number : 3 * number + 3]
            inner = [span for _, *rest in some for span in rest]
            workplace.land("spans.jsonl", line(*inner), "ab")
            workplace.ingest()
            workplace.land("spans.jsonl", line(*(root for root, *_ in some)), "ab")
            known = moved(workplace)
            worker.go()
            wait_for_a_move(workplace, known)
            time.sleep(chance.uniform(0, 0.01))
            worker.kill()
            during += bool(unnamed(workplace) - orphans) and bool(
                SessionIndex(workplace.ledger).unfiled()
            )
            orphans |= unnamed(workplace)
    assert during > 0  # after a file was written, before the switch to it
    make_older(orphans, age_s=7_200)
    with open_workplace(tmp_path) as workplace:
        finish(workplace)
        assert SessionIndex(workplace.ledger).unfiled() == []
        found = tables_of(workplace)
    assert set(found["agent_sessions"]["session_id"]) == {"s0", "s1"}
    assert_same_as_undisturbed_build(found, tmp_path)


def wait_for_a_move(workplace: Workplace, known: set[Path]) -> None:
    deadline = time.monotonic() + 60
    while moved(workplace) == known:
        assert time.monotonic() < deadline
        time.sleep(0.0005)
