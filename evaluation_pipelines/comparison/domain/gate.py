"""A gate: is a head arm, such as a pull request, worse than its base by more than a margin?

Runs of the same task are compared in pairs: ``d = mean of head - mean of base`` per task, and
Student's t on these. Otherwise people are compared, as models are. A repeated gate spends
a part of its level at each look: ``0.05 / (k (k + 1))`` at look k, whose sum over all looks is 5%
(the "alpha spending" of Lan and DeMets, "Discrete sequential boundaries for clinical trials",
1983, with Bonferroni's inequality).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.compare import MIN_RUNS
from evaluation_pipelines.comparison.domain.differences import comparable, difference
from evaluation_pipelines.comparison.domain.outcomes import (
    Rule,
    rule_of,
    share_difference,
    sides_of,
)
from evaluation_pipelines.comparison.domain.pairwise import Limits, obstacle
from evaluation_pipelines.comparison.domain.runs import PEOPLE, Nouns, arms_of, numbered
from evaluation_pipelines.comparison.domain.verdicts import (
    ALPHA,
    NOT_EQUAL,
    POWER,
    holm,
    needed,
    precision,
)
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.formatting import listed, number, signed, whole
from evaluation_pipelines.numerics.estimates import t_quantile, two_sided_p

MARGIN = 10.0
MIN_TASKS = 6
BASE, HEAD = "base", "head"

_MOST_TASKS = 10_000
_SMALLEST_SPREAD = 1e-9


@dataclass(frozen=True, slots=True)
class Metric:
    """A measure of runs, in the column of its name.

    Attributes:
        name: Its name.
        alike: Columns that must be equal in compared runs.
        is_score: 0 to 100, and high is good. Low is good in others.
        is_ratio: Geometric means are compared, and a margin of 10 is a ratio of 1.10.
        rule: Rule of an outcome, whose values are 0 to 100.
    """

    name: str
    alike: tuple[str, ...] = ()
    is_score: bool = True
    is_ratio: bool = False
    rule: Rule | None = None

    def margin(self, margin: float) -> float:
        """Return the margin on the scale of the differences."""
        return math.log1p(margin / 100) if self.is_ratio else margin

    def value(self) -> pl.Expr:
        """Return the value of a run: higher is better, ratios are logarithms."""
        column = pl.col(self.name)
        if self.is_ratio:
            column = pl.when(column > 0).then(column.log())
        return column if self.is_score else -column

    def shown(self, difference: float | None) -> str:
        """Return a difference as head against base: ``-3.2``, or ``x1.08`` of a ratio."""
        if difference is None:
            return "unknown"
        turned = difference if self.is_score else -difference
        return f"x{math.exp(turned):.2f}" if self.is_ratio else signed(turned)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("effective", ("profile_id", "profile_version", "effective_source")),
        Metric("composite"),
        Metric("judge", ("judge_total_model",)),
        Metric("cost", is_score=False, is_ratio=True),
        Metric("failed_calls", is_score=False),
    )
}


OUTCOME = "outcome:"
"""Prefix of metrics by outcome."""


def metric_of(name: str) -> Metric:
    """Return the metric of a name.

    Raises:
        UserError: There is none.
    """
    if name.startswith(OUTCOME):
        return Metric(name, rule=rule_of(name.removeprefix(OUTCOME)))
    if name not in METRICS:
        raise UserError(f"no metric is named {name}: use {', '.join(METRICS)} or {OUTCOME}NAME")
    return METRICS[name]


def level_of(look: int) -> float:
    """Return the one-sided level of a look: 0.025 at the first, ``0.05 / (k (k + 1))`` at look k.

    The sum over all looks is 0.05.
    """
    return ALPHA / (look * (look + 1))


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one metric. A positive difference is an improvement.

    Attributes:
        metric: The metric.
        margin: On the scale of the difference.
        value: Head minus base, or base minus head if low is good. Ratios are logarithms.
        low: Lower end of its interval.
        high: Upper end.
        p_worse: One-sided p-value of no worse head.
        based_on: Which runs it rests on.
        reason: Why nothing can be decided.
        more: Tasks, runs or people with which equal arms pass in 4 of 5 gates.
        unmeasured: How many runs have no value, and why. None if all have one.
    """

    metric: Metric
    margin: float
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p_worse: float | None = None
    based_on: str = ""
    reason: str | None = None
    more: str | None = None
    unmeasured: str | None = None

    @property
    def passes(self) -> bool:
        """True if the head is shown to be worse by less than the margin."""
        return self.reason is None and self.low is not None and self.low > -self.margin


PASSED, WORSE, UNDECIDED = "passed", "worse", "not decided"
CODES = {PASSED: 0, WORSE: 1, UNDECIDED: 3}
"""Result -> exit code."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The result of a gate: ``results`` are of its metrics, in their order."""

    found: tuple[Found, ...]
    results: tuple[str, ...]
    look: int

    @property
    def result(self) -> str:
        """Worse if any metric is, passed if all are."""
        if WORSE in self.results:
            return WORSE
        return PASSED if set(self.results) == {PASSED} else UNDECIDED


def gate(
    runs: pl.DataFrame,
    metrics: Sequence[tuple[Metric, float]],
    look: int = 1,
    tasks: Collection[str] = (),
) -> Gate:
    """Compare a head with its base.

    All metrics must pass, each at the level of the look. One is worse if it is so after Holm's
    correction for all of them.

    Args:
        runs: RUNS with ``model`` base or head, ``task`` (null: unknown) and a column per metric.
        metrics: The metrics with their margins: points, or percent of a ratio.
        look: Number of this look at the same base and head, from 1.
        tasks: Only these tasks, each of which must have runs on both sides.
    """
    level = level_of(look)
    found = tuple(
        replace(_measured(runs, metric, margin, level, tasks), unmeasured=_unmeasured(runs, metric))
        for metric, margin in metrics
    )
    tests = holm([result.p_worse if result.reason is None else None for result in found])
    results = tuple(
        PASSED
        if measured.passes
        else WORSE
        if test is not None and test.p < level and measured.reason is None
        else UNDECIDED
        for measured, test in zip(found, tests, strict=True)
    )
    return Gate(found, results, look)


def _measured(
    runs: pl.DataFrame, metric: Metric, margin: float, level: float, tasks: Collection[str]
) -> Found:
    alike = pl.concat_str(
        pl.lit(""),
        *(pl.col(column).cast(pl.String).fill_null("") for column in metric.alike),
        separator="\0",
    )
    measured = runs.with_columns(value=metric.value(), alike=alike).filter(
        pl.col("value").is_not_null()
    )
    empty = Found(metric, metric.margin(margin))
    with_task = measured.filter(pl.col("task").is_not_null())
    if tasks:
        with_task = with_task.filter(pl.col("task").is_in(list(tasks)))
    pairs = _pairs(with_task)
    if missing := sorted(set(tasks) - set(pairs["task"])):
        return replace(empty, reason=f"no comparable runs on both sides of {listed(missing)}")
    if not tasks and with_task["model"].n_unique() < len((BASE, HEAD)):
        return _compare_people(measured, empty, level)
    found = _compare_tasks(pairs, empty, level)
    if pairs.height < MIN_TASKS:
        few = f"{pairs.height} of {MIN_TASKS} tasks have comparable runs on both sides"
        return replace(found, reason=few)
    if not _is_interleaved(with_task):
        apart = "all runs of one side are older than the other's: run them in turn"
        return replace(found, reason=apart)
    return found


def _unmeasured(runs: pl.DataFrame, metric: Metric) -> str | None:
    without = runs.filter(metric.value().is_null())
    if without.is_empty():
        return None
    counts = without["reason"].drop_nulls().value_counts(sort=True).iter_rows()
    reasons = [f"{reason} ({runs})" for reason, runs in counts]
    because = f": {', '.join(reasons)}" if reasons and metric.name == "effective" else ""
    return f"{whole(without.height)} of {whole(runs.height)} runs have no value{because}"


def _pairs(measured: pl.DataFrame) -> pl.DataFrame:
    """Return a row per task: mean, number and squares of the runs of either side.

    Runs must be scored alike: the kind with the most on both sides counts.
    """
    value = pl.col("value")
    cells = measured.group_by("task", "alike", "model").agg(
        mean=value.mean(),
        runs=pl.len().cast(pl.Int64),
        squares=((value - value.mean()) ** 2).sum(),
    )
    base, head = (cells.filter(model=side).drop("model") for side in (BASE, HEAD))
    fewest = pl.min_horizontal("runs", "runs_head")
    return (
        base.join(head, on=["task", "alike"], suffix="_head")
        .sort("task", -fewest, "alike")
        .unique("task", keep="first", maintain_order=True)
    )


def _is_interleaved(measured: pl.DataFrame) -> bool:
    """Return True if the times of both sides overlap."""
    base, head = (measured.filter(model=side)["started_at"] for side in (BASE, HEAD))
    return bool(base.min() <= head.max() and head.min() <= base.max())  # type: ignore[operator]


def _compare_tasks(pairs: pl.DataFrame, empty: Found, level: float) -> Found:
    """Return ``mean d -+ t s / sqrt(T)`` over the tasks."""
    differences = (pairs["mean_head"] - pairs["mean"]).to_numpy()
    number_of_tasks = len(differences)
    if not number_of_tasks:
        return empty
    runs = int(pairs["runs"].sum()), int(pairs["runs_head"].sum())
    tasks = "1 task" if number_of_tasks == 1 else f"{whole(number_of_tasks)} tasks"
    based_on = f"{tasks}, {whole(runs[0])} and {whole(runs[1])} runs"
    found = replace(empty, value=float(differences.mean()), based_on=based_on)
    if number_of_tasks < 2:
        return found
    spread = float(differences.std(ddof=1))
    if spread < _SMALLEST_SPREAD:
        if empty.metric.is_score:
            return replace(found, reason="no spread to judge the difference by")
        p_worse = 0.0 if found.value < 0 else 1.0  # type: ignore[operator]
        return replace(found, low=found.value, high=found.value, p_worse=p_worse)
    error, freedom = spread / math.sqrt(number_of_tasks), number_of_tasks - 1
    found = _with_interval(found, error, freedom, level)
    return replace(found, more=_more_tasks(pairs, spread**2, empty.margin))


def _with_interval(found: Found, error: float, freedom: float, level: float) -> Found:
    value = found.value or 0.0
    half, two_sided = t_quantile(freedom, 2 * level) * error, two_sided_p(value, error, freedom)
    p_worse = two_sided / 2 if value < 0 else 1 - two_sided / 2
    return replace(found, low=value - half, high=value + half, p_worse=p_worse)


def tasks_needed(variance: float, margin: float) -> int | None:
    """Return T, the tasks with which arms that do not differ pass in 4 of 5 gates.

    The smallest T of ``T >= (t(.975, T - 1) + t(.80, T - 1))² variance / margin²``, with the
    variance ``tau² + 2 sigma² / r`` of a task's difference: tau of true differences, sigma of runs,
    r runs of each task and side (Julious, "Sample sizes for clinical trials with normal data",
    2004). None if more than 10,000 would be needed.
    """
    return next((t for t in _counts() if t >= _factor(t) * variance / margin**2), None)


def _factor(tasks: int) -> float:
    return (t_quantile(tasks - 1) + t_quantile(tasks - 1, 2 * (1 - POWER))) ** 2


def _counts() -> Sequence[int]:
    """Return numbers of tasks: each up to 200, then steps of 1%."""
    steps = np.unique(np.geomspace(200, _MOST_TASKS, 400).astype(int)).tolist()
    return [*range(MIN_TASKS, 200), *steps]


def _more_tasks(pairs: pl.DataFrame, variance: float, margin: float) -> str:
    """Return how many tasks, or runs of these tasks, would be enough."""
    number_of_tasks = pairs.height
    freedom = int((pairs["runs"] + pairs["runs_head"] - 2).sum())
    squares = float((pairs["squares"] + pairs["squares_head"]).sum())
    inverse_runs = 1 / pairs["runs"] + 1 / pairs["runs_head"]
    mean_inverse = float(inverse_runs.mean())  # type: ignore[arg-type]
    wanted = tasks_needed(variance, margin)
    ways = [] if wanted is None else [f"{whole(wanted)} tasks with as many runs each"]
    if freedom > 0:
        between_runs = squares / freedom
        between_tasks = max(variance - between_runs * mean_inverse, 0.0)
        left = number_of_tasks * margin**2 / _factor(max(number_of_tasks, 2)) - between_tasks
        if left > 0 and (runs := math.ceil(2 * between_runs / left)) <= _MOST_TASKS:
            ways.append(f"{whole(max(runs, 1))} runs of each of these tasks on each side")
    return " or ".join(ways) or f"more than {whole(_MOST_TASKS)} tasks: choose a larger margin"


def _compare_people(measured: pl.DataFrame, empty: Found, level: float) -> Found:
    """Compare people, as models are compared."""
    if empty.metric.rule is not None:
        return _compare_outcomes(measured, empty, level)
    parts = (pl.col("alike"), pl.col("task_class").fill_null("unknown"))
    alike = measured.with_columns(score="value", task_class=pl.concat_str(*parts, separator="\0"))
    sides = [numbered(alike).filter(model=side) for side in (HEAD, BASE)]
    if missing := [arm for arm in (BASE, HEAD) if measured.filter(model=arm).is_empty()]:
        return replace(empty, reason=f"no measured runs of {listed(missing)}")
    arms = arms_of(sides)
    head, base = arms.sides
    found = difference(head, base, min_runs=MIN_RUNS)
    limits = Limits(MIN_RUNS, nouns=Nouns("arm", "run"))
    _, reason = obstacle(head, base, found, limits, has_people=arms.clustered_by == PEOPLE)
    used = comparable(head, base, MIN_RUNS)[:2]
    people = len(np.union1d(*(side.known_people for side in used)))
    based_on = f"{whole(people)} people, {whole(len(used[1]))} and {whole(len(used[0]))} runs"
    known = replace(empty, value=found.value, based_on=based_on, reason=reason)
    if found.error is None or found.value is None:
        return replace(known, reason=reason or "no spread to judge the difference by")
    known = _with_interval(known, found.error, found.freedom, level)
    spread = precision(*used, found)
    if spread is None:
        return known
    # Two tests share 5%, so one has 2.5%.
    wanted = needed(spread, empty.margin, 2)
    return replace(known, more=f"{whole(wanted.people)} people like these")


def _compare_outcomes(measured: pl.DataFrame, empty: Found, level: float) -> Found:
    """Compare shares of good outcomes, in which people weigh the same."""
    shares = measured.with_columns(value=pl.col("value") / 100)
    sides = sides_of(shares)
    if len(sides) < len((BASE, HEAD)):
        return replace(empty, reason="no sessions past the horizon on one side")
    head, base = sides[HEAD], sides[BASE]
    people = len(np.union1d(head.known_people, base.known_people))
    based_on = f"{whole(people)} people, {whole(len(base))} and {whole(len(head))} sessions"
    known = replace(empty, based_on=based_on)
    found = share_difference(head, base)
    if isinstance(found, str):
        return replace(known, reason=found)
    value, (low, high), p = found.of_people.value, found.ends(2 * level), found.p()
    p_worse = p / 2 if value < 0 else 1 - p / 2
    return replace(known, value=100 * value, low=100 * low, high=100 * high, p_worse=p_worse)


def sentences(found: Gate) -> list[str]:
    """Return what a result means: of each metric, then of the whole gate."""
    said = []
    for measured, result in zip(found.found, found.results, strict=True):
        name = measured.metric.name
        if measured.reason is not None:
            said.append(f"{name}: {measured.reason}.")
        elif result == PASSED and measured.high is not None and measured.high < 0:
            said.append(f"{name}: worse, but by less than the margin.")
        elif result == UNDECIDED and measured.more is not None:
            said.append(f"{name}: to pass in 4 of 5 gates if nothing changed: {measured.more}.")
        if measured.unmeasured is not None:
            said.append(f"{name}: {measured.unmeasured}.")
    if UNDECIDED in found.results:
        said.append(NOT_EQUAL)
    by_tasks = [measured.based_on for measured in found.found if " task" in measured.based_on]
    scope = f"Tasks like these {by_tasks[0].split()[0]}, not all work. " if by_tasks else ""
    return [*said, f"{scope}Look {found.look} of this gate."]


HEADINGS = ("Metric", "Result", "Head against base", "Interval", "Margin", "Based on")


def rows(found: Gate) -> list[tuple[str, ...]]:
    """Return a row per metric, with the columns of HEADINGS."""
    return [
        (
            measured.metric.name,
            result,
            measured.metric.shown(measured.value),
            " to ".join(sorted_ends(measured)),
            f"x{math.exp(measured.margin):.2f}"
            if measured.metric.is_ratio
            else number(measured.margin),
            measured.based_on,
        )
        for measured, result in zip(found.found, found.results, strict=True)
    ]


def sorted_ends(found: Found) -> tuple[str, ...]:
    """Return the ends of an interval as head against base, the lower one first."""
    if found.low is None or found.high is None:
        return ("unknown",)
    ends = (found.low, found.high) if found.metric.is_score else (found.high, found.low)
    return tuple(map(found.metric.shown, ends))
