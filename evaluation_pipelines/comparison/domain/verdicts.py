"""Which differences of a report are decided, so that at most 5 % of reports claim a false one."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

ALPHA = 0.05

HEADLINES = 0.5
"""Share of the 5 % for "X beats every other"; the rest is for single pairs."""


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


def corrected(pairs: Sequence[Pair]) -> list[float]:
    """Return a corrected p-value for each pair: below 0.05 the better model is decided.

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
        np.array([pair.p for pair in pairs] + [headline.p for headline in headlines]),
        np.concatenate([weights, np.full(len(headlines), each)]),
    )
    for headline, p in zip(headlines, found[len(pairs) :], strict=True):
        for place in headline.pairs:
            found[place] = min(found[place], p)
    return [float(p) for p in found[: len(pairs)]]


def weighted_holm(
    p_values: np.ndarray[tuple[int], np.dtype[np.float64]],
    weights: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return p-values corrected by Holm's method; hypotheses of more weight are corrected less."""
    order = np.argsort(p_values / weights, kind="stable")
    left = np.cumsum(weights[order][::-1])[::-1]
    steps = np.maximum.accumulate(p_values[order] / weights[order] * left)
    found = np.empty(len(p_values))
    found[order] = np.minimum(steps, 1.0)
    return found


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected by Holm's method with equal weights; unknown ones stay unknown."""
    known = np.array([p for p in p_values if p is not None])
    found = iter(weighted_holm(known, np.ones(len(known))))
    return [None if p is None else float(next(found)) for p in p_values]


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
