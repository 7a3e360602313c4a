"""Pairs of models, each seen from one of its two models."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL


@dataclass(frozen=True, slots=True)
class Against:
    """A model next to another one.

    Attributes:
        pair: Row of ``pair_rows`` or ``model_comparison_pairs``.
        side: ``a`` or ``b``: which one the model is.
    """

    pair: Row
    side: str

    @property
    def p(self) -> float | None:
        """One-sided p-value of "not worse than the other by the margin"."""
        p = self.pair[f"not_worse_{self.side}_p"]
        return None if p is None else float(p)

    @property
    def reason(self) -> str | None:
        """Why it cannot be called not worse, whatever its scores."""
        if self.pair["more_disqualified"] == self.side:
            return "it is disqualified more often than another model"
        return self.pair["reason"] if self.p is None else None

    @property
    def is_worse(self) -> bool:
        """True if the other one is shown to be better."""
        return bool(self.pair["verdict"] == {"a": B_BETTER, "b": A_BETTER}[self.side])

    @property
    def cost_ratio(self) -> tuple[float | None, float | None, float | None]:
        """Its cost over that of the other, with the ends of the corrected interval."""
        names = ("cost_ratio", "cost_ratio_low_holm", "cost_ratio_high_holm")
        value, low, high = (self.pair[name] for name in names)
        if self.side == "a":
            return value, low, high
        turned = [None if each is None else 1 / each for each in (value, high, low)]
        return turned[0], turned[1], turned[2]

    @property
    def log_cost(self) -> float | None:
        """Logarithm of its cost over that of the other."""
        ratio, *_ = self.cost_ratio
        return None if ratio is None else math.log(ratio)

    @property
    def difference(self) -> tuple[float | None, float | None, float | None]:
        """Its score minus that of the other for the same tasks, with the corrected interval."""
        names = ("adjusted_difference", "adjusted_low_holm", "adjusted_high_holm")
        value, low, high = (self.pair[name] for name in names)
        if self.side == "a":
            return value, low, high
        turned = [None if each is None else -each for each in (value, high, low)]
        return turned[0], turned[1], turned[2]


@dataclass(frozen=True, slots=True)
class Sides:
    """All pairs of a comparison, by group and model, and by the other model."""

    pairs: Mapping[tuple[Any, ...], Mapping[tuple[Any, ...], Against]]

    @classmethod
    def of(cls, pairs: Iterable[Row]) -> "Sides":
        """Return the pairs by their models."""
        found: dict[tuple[Any, ...], dict[tuple[Any, ...], Against]] = {}
        for pair in pairs:
            group = tuple(pair[name] for name in GROUP)
            a, b = (tuple(pair[f"{name}_{side}"] for name in MODEL) for side in "ab")
            found.setdefault((*group, *a), {})[b] = Against(pair, "a")
            found.setdefault((*group, *b), {})[a] = Against(pair, "b")
        return cls(found)

    def next_to(self, row: Row, others: Iterable[Row]) -> tuple[Against, ...]:
        """Return a model next to each of others of its group; itself is left out."""
        return tuple(self.between(row, each) for each in others if each is not row)

    def between(self, row: Row, other: Row) -> Against:
        """Return a model next to another one of its group."""
        key = tuple(row[name] for name in (*GROUP, *MODEL))
        return self.pairs[key][tuple(other[name] for name in MODEL)]
