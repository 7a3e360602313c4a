"""Nodes of a Ray cluster killed without grace in the middle of ingest and build."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.engine.killed_rounds import TELEMETRY, hashes, on_one_machine
from evaluation_pipelines_tests.engine.ray_nodes import killing, running_cluster
from evaluation_pipelines_tests.workplace import open_workplace

pytestmark = [
    pytest.mark.slow,  # a cluster takes 10 s to start
    pytest.mark.filterwarnings("ignore"),  # those of Ray and of its dependencies
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of one node, which the engine ``ray`` finds."""
    with running_cluster() as started, pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_ADDRESS", started.address)
        yield started


@pytest.mark.parametrize("rounds", [1, 20])
def test_nodes_killed_in_the_middle_lose_nothing_and_double_nothing(
    tmp_path: Path, cluster: Any, rounds: int
) -> None:
    expected = on_one_machine(tmp_path / "one machine")
    chance = random.Random(rounds)  # noqa: S311 - no secret
    small: dict[str, Any] = {"batch_bytes": 500, "parallel_from_bytes": 1, "shards": 2}
    kills = 0
    for number in range(rounds):
        with open_workplace(tmp_path / str(number), engine="ray", **small) as workplace:
            workplace.land("logs.jsonl", TELEMETRY)
            with killing(cluster, lambda: chance.uniform(0.1, 2)) as killed:
                workplace.ingest()
                assert {type(result) for result in workplace.build()} == {DateBuilt}
            kills += len(killed)
            assert hashes(workplace) == expected
            counted = IngestBatches(workplace.ledger).totals().events
            assert counted == workplace.landed().height
    assert kills > 0
