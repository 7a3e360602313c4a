"""The people and sessions that the verdicts of a label rest on."""

from dataclasses import dataclass
from itertools import chain

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.arms import arms_of
from evaluation_pipelines.comparison.domain.compare import Comparison, stratified
from evaluation_pipelines.comparison.domain.differences import choice
from evaluation_pipelines.comparison.domain.findings import Finding, model_of
from evaluation_pipelines.comparison.domain.models import Row, counted, parts
from evaluation_pipelines.comparison.domain.people import Chosen
from evaluation_pipelines.comparison.domain.runs import GROUP


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is compared of the sessions of ranked models; without a verdict, what they are.

    Attributes:
        people: Known people of the sessions that are compared.
        compared: Number of these sessions.
        sessions: Number of all sessions of ranked models.
    """

    people: int
    compared: int
    sessions: int


def evidence(finding: Finding, comparison: Comparison) -> Evidence:
    """Return what the verdicts of a finding rest on: the runs that any of its pairs compares."""
    runs = _ranked_runs(finding, comparison)
    sessions = sum(each.height for each in runs.values())
    chosen: dict[tuple[object, ...], Chosen] = {}
    for pair in finding.tested:
        _add(chosen, pair, runs, comparison.question.min_runs)
    used = [runs[key].filter(pl.Series(rows)) for key, rows in chosen.items()]
    counts = used or list(runs.values())
    people = set(chain.from_iterable(each["person"].drop_nulls() for each in counts))
    return Evidence(len(people), sum(each.height for each in counts), sessions)


def _add(
    chosen: dict[tuple[object, ...], Chosen],
    pair: Row,
    runs: dict[tuple[object, ...], pl.DataFrame],
    min_runs: int,
) -> None:
    """Add the runs that a pair compares."""
    keys = model_of(pair, "_a"), model_of(pair, "_b")
    first, second = arms_of([runs[key] for key in keys]).sides
    found = choice(first, second, min_runs)
    for key, rows in zip(keys, (found.first, found.second), strict=True):
        chosen[key] = np.logical_or(chosen.get(key, rows), rows)


def _ranked_runs(
    finding: Finding, comparison: Comparison
) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return the runs that count of each ranked model of a finding."""
    names = {model_of(row) for row in finding.ranked}
    scored = comparison.runs.filter(
        pl.col("score").is_not_null(),
        *(
            pl.col(name).eq_missing(pl.lit(value))
            for name, value in zip(GROUP, finding.group, strict=True)
        ),
    )
    every = parts(stratified(scored, comparison.question.within))
    return {key[len(GROUP) :]: counted(part) for key, part in every if key[len(GROUP) :] in names}
