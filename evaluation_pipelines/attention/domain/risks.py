"""What is left to do of an alert of quality risks: the one count of pages and ``doctor``."""

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.attention.domain.messages import below_threshold
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey


@dataclass(frozen=True, slots=True)
class Risks:
    """The sessions of an alert.

    Attributes:
        rows: Those to look at: still a risk, and not scored by a person.
        raised: Number of all.
        by_person: Number of those that a person has scored: nothing is left to do.
        waiting: Number of those whose score is withheld until their blind review.
    """

    rows: pl.DataFrame
    raised: int
    by_person: int
    waiting: int

    def title(self) -> str:
        """Return how many sessions there are to look at."""
        return below_threshold(self.rows.height)

    def why_fewer(self) -> str | None:
        """Say why the alert named more sessions; ``None`` if it did not."""
        others = self.raised - self.rows.height - self.by_person - self.waiting
        parts = [
            f"{number} {what}"
            for number, what in (
                (self.by_person, "now scored by a person"),
                (self.waiting, "awaiting review"),
                (others, "above it again"),
            )
            if number
        ]
        return f"{self.raised} in the alert, minus {', '.join(parts)}" if parts else None


def risks_of(rows: pl.DataFrame, sessions: Collection[SessionKey], is_risk: pl.Expr) -> Risks:
    """Return what is left to do of an alert.

    Args:
        rows: Rows of sessions, as ``withhold`` returns them, with ``effective_source``.
        sessions: The sessions of the alert.
        is_risk: Whether the score of a row is a risk.
    """
    keys = pl.DataFrame(list(sessions), dict.fromkeys(SESSION_KEY, pl.String()), orient="row")
    found = rows.join(keys, on=SESSION_KEY, how="semi", maintain_order="left")
    by_person = pl.col("effective_source").eq_missing("override")
    shown = found.filter(~pl.col(WAITS))
    return Risks(
        rows=shown.filter(~by_person, is_risk),
        raised=len(sessions),
        by_person=shown.filter(by_person).height,
        waiting=found.height - shown.height,
    )
