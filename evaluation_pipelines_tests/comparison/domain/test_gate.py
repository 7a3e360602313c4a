"""A gate by hand: intervals over tasks and people, looks, margins, several metrics."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.gate import (
    METRICS,
    Gate,
    gate,
    level_of,
    rows,
    sentences,
    tasks_needed,
)
from evaluation_pipelines.comparison.domain.verdicts import NOT_EQUAL
from evaluation_pipelines_tests.world.rows import Row
from evaluation_pipelines_tests.world.runs import UNTIL, run, scores
from evaluation_pipelines_tests.world.runs import runs as frame

DIFFERENCES = (2, 0, 4, -2, 1, 1)
"""Of six tasks: mean 1; squares 1 + 1 + 9 + 9 = 20, so s² = 20 / 5 = 4 and s / sqrt(6) = 0.8165."""

HALF = 2.5706 * 0.8165
"""t(.975, 5) times the error."""


def runs(values: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Runs of both sides in turn: ``side``, ``task``, a value of each metric, columns of RUNS."""
    own = {"side", "task", *METRICS, "judge_total_model"}
    known = [{key: value for key, value in value.items() if key not in own} for value in values]
    rows_of = [
        run(at, model=value["side"], **more)
        for at, (value, more) in enumerate(zip(values, known, strict=True))
    ]
    texts = {"task", "judge_total_model"}
    return frame(rows_of).with_columns(
        pl.Series(
            name,
            [value.get(name) for value in values],
            dtype=pl.String if name in texts else pl.Float64,
        )
        for name in sorted(own - {"side"})
    )


def tasks(differences: Sequence[float], metric: str = "effective", base: float = 60.0) -> list[Row]:
    """A run of each side for each task, the head better by each difference."""
    return [
        {"side": side, "task": f"t{at}", metric: base + add}
        for at, difference in enumerate(differences)
        for side, add in (("base", 0.0), ("head", float(difference)))
    ]


def decided(
    values: Sequence[Mapping[str, Any]], *metrics: str, margin: float = 10, **more: Any
) -> Gate:
    wanted = [(METRICS[name], margin) for name in metrics or ("effective",)]
    return gate(runs(values), wanted, **more)


def shifted(by: float) -> list[float]:
    return [difference + by for difference in DIFFERENCES]


@pytest.mark.parametrize(
    ("shift", "margin", "result"),
    [
        (0, 10, "passed"),  # -1.10 to 3.10
        (0, 1, "not decided"),
        (-6, 10, "passed"),  # -7.10 to -2.90
        (-10, 10, "worse"),  # -11.10 to -6.90
        (-3, 2, "not decided"),  # -4.10 to 0.10
    ],
)
def test_the_interval_of_tasks_decides(shift: float, margin: float, result: str) -> None:
    found = decided(tasks(shifted(shift)), margin=margin)
    (one,) = found.found
    assert (one.value, one.low, one.high) == pytest.approx(
        (1 + shift, 1 + shift - HALF, 1 + shift + HALF), abs=1e-3
    )
    assert found.result == result
    assert one.based_on == "6 tasks, 6 and 6 runs"


def test_a_head_that_is_worse_within_the_margin_is_said_to_be() -> None:
    assert "effective: worse, but by less than the margin." in sentences(
        decided(tasks(shifted(-6)))
    )
    assert (
        sentences(decided(tasks(DIFFERENCES)))[-1]
        == "Tasks like these 6, not all work. Look 1 of this gate."
    )


def test_runs_without_a_value_are_counted_with_the_reason() -> None:
    opened = {"effective": None, "reason": "it has not ended yet"}
    found = decided([{**task, **opened} for task in tasks(DIFFERENCES)], "effective", "cost")
    assert sentences(found)[:4] == [
        "effective: no measured runs of base and head.",
        "effective: 12 of 12 runs have no value: it has not ended yet (12).",
        "cost: no measured runs of base and head.",
        "cost: 12 of 12 runs have no value.",
    ]


def test_a_later_look_is_stricter() -> None:
    # 0.05 / 2, 0.05 / 6, 0.05 / 12: their sum over all k is 0.05 (1/k - 1/(k + 1) telescopes).
    assert [level_of(k) for k in (1, 2, 3)] == pytest.approx([0.025, 0.05 / 6, 0.05 / 12])
    (one,) = decided(tasks(DIFFERENCES), look=2).found
    assert one.low == pytest.approx(1 - 3.534 * 0.8165, abs=1e-2)  # t(1 - 0.05/6, 5)


def test_means_of_runs_are_compared_task_by_task() -> None:
    values = tasks(DIFFERENCES)
    # Two more runs of the first task: 80 and 90 of the base, whose mean is then 76.67.
    values += [{"side": "base", "task": "t0", "effective": score} for score in (80.0, 90.0)]
    (one,) = decided(values).found
    # 62 - 76.67 = -14.67 in place of 2: the mean is (6 - 2 - 14.67) / 6.
    assert one.value == pytest.approx((4 - 14.6667) / 6, abs=1e-3)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (tasks(DIFFERENCES[:5]), "5 of 6 tasks have comparable runs on both sides"),
        (tasks([3.0] * 6), "no spread to judge the difference by"),
        (
            [
                {**task, "started_at": UNTIL - timedelta(hours=2 if task["side"] == "base" else 1)}
                for task in tasks(DIFFERENCES)
            ],
            "all runs of one side are older than the other's: run them in turn",
        ),
        (
            [task for task in tasks(DIFFERENCES) if task["side"] == "base"],
            "no measured runs of head",
        ),
        (
            [
                {**task, "profile_version": 1 + (task["side"] == "head")}
                for task in tasks(DIFFERENCES)
            ],
            "0 of 6 tasks have comparable runs on both sides",
        ),
    ],
)
def test_what_cannot_be_compared_is_not_decided(values: list[Row], reason: str) -> None:
    found = decided(values)
    assert (found.result, found.found[0].reason) == ("not decided", reason)
    assert NOT_EQUAL in sentences(found)


def test_named_tasks_are_all_needed_and_others_do_not_count() -> None:
    values = tasks([*DIFFERENCES, -90])
    names = {f"t{at}" for at in range(6)}
    assert decided(values, tasks=names).result == "passed"
    missing = decided(values, tasks={*names, "t9"})
    assert missing.found[0].reason == "no comparable runs on both sides of t9"


def test_low_costs_are_good_and_compared_as_ratios() -> None:
    # The head costs 1.05 times as much in each task, give or take 2%: logs 0.0488 -+ 0.02.
    ratios = [1.05 * 1.02, 1.05 / 1.02] * 3
    values = [
        {"side": side, "task": f"t{at}", "cost": cost, "failed_calls": 10.0 + at}
        for at, ratio in enumerate(ratios)
        for side, cost in (("base", 0.2 * (at + 1)), ("head", 0.2 * (at + 1) * ratio))
    ]
    found = decided(values, "cost", "failed_calls")
    cost, calls = found.found
    # s = 0.0198 sqrt(6/5) = 0.02169; 2.5706 s / sqrt(6) = 0.02277: 1.05 times e^-+0.02277.
    assert (cost.low, cost.high) == pytest.approx((-0.07156, -0.02602), abs=1e-4)
    assert found.results == ("passed", "passed")  # below 1.10; and no call failed more often
    shown = rows(found)
    assert shown[0][2:5] == ("x1.05", "x1.03 to x1.07", "x1.10")
    assert (calls.value, shown[1][2]) == (0, "+0.0")


def test_one_metric_that_is_worse_after_correction_is_enough() -> None:
    both = [
        {**one, "composite": other["composite"]}
        for one, other in zip(tasks(DIFFERENCES), tasks(shifted(-30), "composite"), strict=True)
    ]
    assert decided(both, "effective", "composite").results == ("passed", "worse")
    assert decided(both, "effective", "composite").result == "worse"
    # -3.2: p = P(t(5) < -2.2 / 0.8165 = -2.694) = 0.0215 is below 0.025 alone, and twice it is not.
    near = [
        {**one, "composite": other["composite"]}
        for one, other in zip(tasks(shifted(-3.2)), tasks(shifted(-3.2), "composite"), strict=True)
    ]
    assert decided(near, "effective", margin=2).results == ("worse",)
    assert decided(near, "effective", "composite", margin=2).results == ("not decided",) * 2


def test_the_tasks_needed() -> None:
    # tau² + 2 sigma² / r = 25 + 2 * 256 / 3 = 195.67; with T = 64: (1.9983 + 0.8475)² * 195.67 / 25
    # = 63.4 <= 64, and with 63: 63.4 > 63.
    assert tasks_needed(25 + 2 * 256 / 3, 5) == 64
    assert tasks_needed(4, 10) == 6
    assert tasks_needed(1e9, 10) is None


def test_runs_needed_are_printed() -> None:
    # Two runs of each side that differ by 8 (variance 32), and no other difference of tasks:
    # differences of means -4, 0, 4 twice: s² = 64 / 5 = 12.8 < 32 (1/2 + 1/2), all of it of runs.
    values = [
        {
            "side": side,
            "task": f"t{at}",
            "effective": 50.0 + add + (4 * (at % 3 - 1) if side == "head" else 0),
        }
        for at in range(6)
        for side in ("base", "head")
        for add in (-4.0, 4.0)
    ]
    found = decided(values, margin=3)
    assert found.result == "not decided"
    # (2.1788 + 0.8726)² * 12.8 / 9 = 13.24 > 13, and (2.1604 + 0.8702)² * 12.8 / 9 = 13.06 <= 14.
    # Runs: 2 * 32 / (6 * 9 / (2.5706 + 0.9195)²) = 14.4.
    assert (
        found.found[0].more
        == "14 tasks with as many runs each or 15 runs of each of these tasks on each side"
    )


def test_without_tasks_people_are_compared() -> None:
    values = [
        {"side": side, "effective": score, "person": f"p{at % 8}"}
        for side, mean, seed in (("base", 80, 1), ("head", 80, 2))
        for at, score in enumerate(scores(mean, 40, 5, seed))
    ]
    found = decided(values)
    assert (found.result, found.found[0].based_on) == ("passed", "8 people, 40 and 40 runs")
    assert sentences(found)[-1] == "Look 1 of this gate."
    few = [{**value, "person": f"p{at % 4}"} for at, value in enumerate(values)]
    assert decided(few).found[0].reason == "too few people to decide (4 of 5)"
