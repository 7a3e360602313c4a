"""What is left to do of an alert of quality risks: the one count of pages and ``doctor``."""

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

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
        number = self.rows.height
        return f"{number} session{'' if number == 1 else 's'} with a quality risk"

    def why_fewer(self) -> str | None:
        """Return why the alert named more sessions; ``None`` if it did not."""
        others = self.raised - self.rows.height - self.by_person - self.waiting
        parts = [
            f"{number} {what}"
            for number, what in (
                (self.by_person, "scored by a person"),
                (self.waiting, "waiting for a blind review"),
                (others, "no risk any longer"),
            )
            if number
        ]
        return f"Not counted, of {self.raised} in the alert: {', '.join(parts)}" if parts else None


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
