"""A judge change: its anchors, what both judges have said of them, the parts of the shift."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from evaluation_pipelines.judge_changes.domain.drawing import Anchor, Drawing
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines.judge_changes.domain.split import Split
from evaluation_pipelines.judge_changes.domain.trend import Point

ChangeState = Literal["measured", "incomplete", "not drawn", "impossible"]

MAX_ATTEMPTS = 3
"""Failed attempts after which an anchor is replaced."""


@dataclass(frozen=True, slots=True)
class AnchorScorings:
    """What one judge has said of one anchor.

    Attributes:
        totals: Totals of the samples; empty until a scoring is completed.
        failures: Number of failed scorings.
        is_final: Whether another attempt would not help.
        error: Reason of the last failure.
        cost_usd: Cost of all replies; ``None`` if a price is unknown.
    """

    totals: Sequence[int] = ()
    failures: int = 0
    is_final: bool = False
    error: str | None = None
    cost_usd: float | None = 0.0

    @property
    def score(self) -> float | None:
        """Mean of the samples; ``None`` until completed."""
        return fmean(self.totals) if self.totals else None

    @property
    def has_failed(self) -> bool:
        """Whether the judge will not score the anchor."""
        return not self.totals and (self.is_final or self.failures >= MAX_ATTEMPTS)


NOT_SCORED = AnchorScorings()


@dataclass(frozen=True, slots=True)
class ScoredAnchor:
    """An anchor and what both judges have said of it."""

    anchor: Anchor
    former: AnchorScorings
    new: AnchorScorings

    @property
    def is_scored(self) -> bool:
        """Whether both judges have scored it."""
        return bool(self.former.totals and self.new.totals)


@dataclass(frozen=True, slots=True)
class JudgeChange:
    """A change and what is known of it.

    Attributes:
        change: The change.
        state: ``measured`` if both judges have scored all anchors, ``incomplete`` if some are left,
            ``not drawn`` if there are none yet, ``impossible`` if a judge cannot be asked.
        reason: Why there is no bridge; ``None`` if there is one.
        split: The parts of the shift; ``None`` unless measured.
        drawing: The drawing of the anchors; ``None`` without one.
        anchors: All anchors, those that were replaced too.
        before: Means over time before the change, by the former judge.
        after: Means over time after it, by the new judge.
        cost_usd: Cost of the anchors; ``None`` if a price is unknown.
    """

    change: Change
    state: ChangeState
    reason: str | None
    split: Split | None
    drawing: Drawing | None
    anchors: Sequence[ScoredAnchor]
    before: Sequence[Point]
    after: Sequence[Point]
    cost_usd: float | None

    @property
    def counted(self) -> list[ScoredAnchor]:
        """Anchors that were not replaced."""
        return [each for each in self.anchors if each.anchor.replaced_because is None]

    @property
    def is_bridged(self) -> bool:
        """Whether the scores before may be shifted to the scale of the new judge."""
        return self.split is not None and self.split.trend == "bridged"
