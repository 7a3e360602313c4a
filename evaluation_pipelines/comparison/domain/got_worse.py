"""Alerts of the watch as answers: which model got worse, and how many models are watched."""

from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.findings import name_of
from evaluation_pipelines.comparison.domain.regression.rows import ALERT, INSUFFICIENT
from evaluation_pipelines.comparison.domain.regression.sentences import alert_sentences
from evaluation_pipelines.formatting import whole


@dataclass(frozen=True, slots=True)
class GotWorse:
    """An alert of the watch: which model, at which label, since when and how much, where to look.

    Attributes:
        model: Name of the model.
        label: Classification label.
        change: Sentences on how much it got worse, and since when.
        sessions: Keys of the worst sessions; none if all of them wait for a blind review.
    """

    model: str
    label: str
    change: str
    sessions: tuple[str, ...]

    @property
    def said(self) -> str:
        """The alert without the sessions."""
        return f"{self.model} (label {self.label}): {self.change}"

    @property
    def sentence(self) -> str:
        """The whole alert."""
        return f"{self.said} Sessions: {', '.join(self.sessions)}" if self.sessions else self.said


def got_worse(comparison: Comparison) -> list[GotWorse]:
    """Return the alerts of the watch."""
    alerts = comparison.regressions.filter(pl.col("state") == ALERT)
    return [
        GotWorse(
            name_of(row),
            str(row["classification_label"]),
            alert_sentences(row),
            tuple(row["worst_sessions"]),
        )
        for row in alerts.iter_rows(named=True)
    ]


def watch_coverage(comparison: Comparison) -> str:
    """Return how many models are monitored for getting worse, each for one label."""
    states = comparison.regressions["state"]
    watched, every = int((states != INSUFFICIENT).sum()), len(states)
    few = "" if watched == every else " The rest have too few sessions."
    return f"Monitoring {whole(watched)} of {whole(every)} model-label pairs.{few}"
