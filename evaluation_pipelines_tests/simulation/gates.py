"""How often a gate passes or fails a change whose true effect is known."""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.gate import (
    BASE,
    HEAD,
    METRICS,
    PASSED,
    WORSE,
    gate,
)
from evaluation_pipelines_tests.simulation.measure import Share

TASK_SD, RUN_SD = 5.0, 16.0
"""Standard deviations of true differences of tasks, and of runs of one task."""

_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Change:
    """A change, and how often it is tried.

    Attributes:
        effect: True mean difference, head minus base.
        tasks: Number of tasks.
        runs: Runs of each task and side at each look.
        margin: Points.
        looks: A gate that does not pass is run again with further runs, this often in all.
        task_sd: Standard deviation of the true differences of tasks.
    """

    effect: float
    tasks: int = 12
    runs: int = 3
    margin: float = 10.0
    looks: int = 1
    task_sd: float = TASK_SD


def measure(change: Change, gates: int, seed: int = 2026) -> tuple[Share, Share]:
    """Return how often a change passes at some look, and how often it is called worse at one."""
    random, passed, worse = np.random.default_rng(seed), Share(), Share()
    for _ in range(gates):
        results = _results(change, random)
        passed.add(is_hit=PASSED in results)
        worse.add(is_hit=WORSE in results)
    return passed, worse


def _results(change: Change, random: np.random.Generator) -> list[str]:
    """Return the results of the looks at one change, up to the first that passes."""
    effects = random.normal(change.effect, change.task_sd, change.tasks)
    levels, parts, found = random.normal(60, 10, change.tasks), [], list[str]()
    for look in range(1, change.looks + 1):
        parts.append(_runs(change, levels, effects, random))
        metric = (METRICS["composite"], change.margin)
        found.append(gate(pl.concat(parts), [metric], look).result)
        if found[-1] == PASSED:
            break
    return found


def _runs(
    change: Change,
    levels: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    effects: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    random: np.random.Generator,
) -> pl.DataFrame:
    """Return a look's runs: scores beyond 0 to 100 are kept, as no gate knows their ends."""
    task = np.repeat(np.arange(change.tasks), change.runs)
    sides = [
        pl.DataFrame(
            {
                "model": [side] * len(task),
                "task": list(map(str, task)),
                "composite": means[task] + random.normal(0, RUN_SD, len(task)),
                "started_at": [_START] * len(task),
            }
        )
        for side, means in ((BASE, levels), (HEAD, levels + effects))
    ]
    return pl.concat(sides)
