"""Which differences of a report are decided, so that at most 5% of reports claim a false one."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

ALPHA = 0.05

HEADLINES = 0.5
"""Share of the 5% for "X beats every other"; the rest is for single pairs."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of models that is tested.

    Attributes:
        group: The label and source that it belongs to.
        first: One model.
        second: The other.
        difference: First minus second.
        p: Two-sided p-value.
    """

    group: Hashable
    first: Hashable
    second: Hashable
    difference: float
    p: float

    @property
    def better(self) -> Hashable:
        """The model with the higher score."""
        return self.first if self.difference > 0 else self.second


@dataclass(frozen=True, slots=True)
class _Headline:
    """The claim that a model beats every other of its group, with the pairs that it rests on."""

    p: float
    pairs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Corrected:
    """Result of a test among others.

    Attributes:
        p: Corrected p-value: below 0.05 something is shown.
        level: What Holm's method compares the uncorrected p-value with. The interval of this level
            excludes "no difference" exactly where something is shown.
    """

    p: float
    level: float


def corrected(pairs: Sequence[Pair]) -> list[Corrected]:
    """Return the corrected test of each pair: below 0.05 the better model is decided.

    Two families share the error: for each group "one model beats every other" (intersection-union:
    Berger, "Multiparameter hypothesis testing and acceptance sampling", 1982: the largest p-value
    of the model's pairs), and all pairs. They are tested together by Holm's method with weights
    ("A simple sequentially rejective multiple test procedure", 1979), each family with half of
    them. With two models both ask the same, so that the pair has the weights of both.

    Args:
        pairs: All pairs that are tested in a report.
    """
    if not pairs:
        return []
    groups = _by_group(pairs)
    headlines = [_headline(pairs, places) for places in groups if len(places) > 1]
    each = HEADLINES / len(groups)
    weights = np.full(len(pairs), (1 - HEADLINES) / len(pairs))
    for places in groups:
        if len(places) == 1:
            weights[places[0]] += each
    found = weighted_holm(
        [pair.p for pair in pairs] + [headline.p for headline in headlines],
        [*weights, *np.full(len(headlines), each)],
    )
    for headline, whole in zip(headlines, found[len(pairs) :], strict=True):
        for place in headline.pairs:
            found[place] = _easier(found[place], whole)
    return found[: len(pairs)]


def _easier(alone: Corrected, whole: Corrected) -> Corrected:
    """Return the test of a pair that is shown by itself or as a part of its headline."""
    is_shown = whole.p < ALPHA  # a headline that is not shown helps no pair
    level = max(alone.level, whole.level) if is_shown else alone.level
    return Corrected(min(alone.p, whole.p), level)


def weighted_holm(p_values: Sequence[float], weights: Sequence[float]) -> list[Corrected]:
    """Return tests corrected by Holm's method; hypotheses of more weight are corrected less."""
    if not p_values:
        return []
    p, weight = np.array(p_values), np.array(weights)
    order = np.argsort(p / weight, kind="stable")
    left = np.cumsum(weight[order][::-1])[::-1]
    steps = np.maximum.accumulate(p[order] / weight[order] * left)
    # Where Holm's method stops, the rest is compared as it would be at this step.
    last = int(np.searchsorted(steps, ALPHA))
    at_step = left[np.minimum(np.arange(len(left)), last)]
    levels = ALPHA * weight[order] / at_step
    places = np.argsort(order)
    return [Corrected(min(float(steps[at]), 1.0), float(levels[at])) for at in places]


def holm(p_values: Sequence[float | None]) -> list[Corrected | None]:
    """Return tests corrected by Holm's method with equal weights; unknown ones stay unknown."""
    known = [p for p in p_values if p is not None]
    found = iter(weighted_holm(known, [1.0] * len(known)))
    return [None if p is None else next(found) for p in p_values]


def _by_group(pairs: Sequence[Pair]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for place, pair in enumerate(pairs):
        groups.setdefault(pair.group, []).append(place)
    return list(groups.values())


def _headline(pairs: Sequence[Pair], places: Sequence[int]) -> _Headline:
    """Return the claim for the model that is ahead of every other; p is 1 if there is none."""
    models = {model for place in places for model in (pairs[place].first, pairs[place].second)}
    wins = [pairs[place].better for place in places]
    for model in models:
        if wins.count(model) == len(models) - 1:
            own = tuple(place for place in places if pairs[place].better == model)
            return _Headline(max(pairs[place].p for place in own), own)
    return _Headline(1.0)
