"""Runs to compare: one per session window, with score, cost, user and agent."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.differences import Arm
from evaluation_pipelines.numerics.estimates import Codes
from evaluation_pipelines.schemas import UTC_TIME

GROUP = ("classification_label", "profile_id", "profile_version", "effective_source")
"""Columns of a group; only runs of the same group are compared."""

MODEL = ("model", "provider")
MIXED = "mixed"
SMALLEST_CLUSTERS = 10

RUNS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "classification_label": pl.String(),
        "profile_id": pl.String(),
        "profile_version": pl.Int64(),
        "effective_source": pl.String(),
        "model": pl.String(),
        "provider": pl.String(),
        "task_class": pl.String(),
        "started_at": UTC_TIME,
        "score": pl.Float64(),
        "people_score": pl.Float64(),
        "is_disqualified": pl.Boolean(),
        "cost_usd": pl.Float64(),
        "total_tokens": pl.Int64(),
        "active_ms": pl.Float64(),
        "user": pl.String(),
        "agent": pl.String(),
        "status": pl.String(),
        "reason": pl.String(),
        "agent_id": pl.String(),
        "masque": pl.String(),
        "tools_ok": pl.Int64(),
        "tools_failed": pl.Int64(),
        "quality_risk": pl.Boolean(),
        "risk_profile_id": pl.String(),
        "disqualified": pl.Boolean(),
        "card_id": pl.String(),
    }
)
"""``score`` and its source, profile and card are those without overrides: a run that people scored
stays among the runs it is compared with, and ``people_score`` is what they said. Only a run without
an automatic score has the source ``override``; one without any has ``none`` and a ``reason``.

``disqualified`` is what was found (null: unknown), ``is_disqualified`` what counts;
``quality_risk`` is that of the score that counts, people's first, under ``risk_profile_id``.
``user`` and ``agent`` distinguish users of different organizations and are never shown.
"""

_SESSION = ["organization_id", "session_key"]
_FACTS = ("person_id", "cost_usd", "total_tokens", "active_s", "tools_ok", "tools_failed")
_BY_PROFILE = ("override", "scorecard", "judge")


def runs_of(evaluations: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return RUNS of session windows, sorted by start.

    Composites and statuses belong to no profile, so profile changes do not split their runs.

    Args:
        evaluations: Rows of ``session_evaluations``.
        sessions: The same windows of ``agent_sessions``.
    """
    facts = sessions.select(*_SESSION, *_FACTS)
    is_automatic = pl.col("automatic_100").is_not_null()
    said = pl.col("effective_source") == "override"
    return (
        evaluations.join(facts, on=_SESSION, how="left", validate="1:1")
        .with_columns(
            risk_profile_id="profile_id",
            people_score=pl.when(said).then("effective_100"),
            score=pl.coalesce("automatic_100", "effective_100"),
            effective_source=pl.when(is_automatic)
            .then("automatic_source")
            .otherwise("effective_source"),
        )
        .with_columns(
            profile_id=pl.when(_is_judged()).then("profile_id"),
            profile_version=pl.when(_is_judged()).then("profile_version"),
            is_disqualified=pl.col("disqualified").fill_null(value=False),
            active_ms=pl.col("active_s") * 1000,
            user=_cluster("user", pl.col("person_id")),
            agent=_cluster("agent", pl.col("agent_id")),
        )
        .select(RUNS.names())
        .cast(RUNS)
        .sort("started_at", *_SESSION)
    )


def _is_judged() -> pl.Expr:
    return pl.col("effective_source").is_in(_BY_PROFILE)


def _cluster(kind: str, name: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.lit(f"{kind}\0"), "organization_id", pl.lit("\0"), name)


@dataclass(frozen=True, slots=True)
class Clusters:
    """Runs grouped by user or by agent (``kind``); ``kind`` is None if there are too few groups."""

    kind: str | None
    codes: tuple[Codes, ...]

    @property
    def is_used(self) -> bool:
        """True if errors are those of clusters."""
        return self.kind is not None


def clusters_of(sides: Sequence[pl.DataFrame]) -> Clusters:
    """Return the cluster of every run of some sides, numbered alike on all of them.

    By user (a run without one by its agent, otherwise by itself) if every side has at least ten,
    otherwise by agent, otherwise single runs are numbered.
    """
    alone = pl.concat_str(*_SESSION, separator="\0")
    for kind, cluster in (
        ("user", pl.coalesce("user", "agent", alone)),
        ("agent", pl.coalesce("agent", alone)),
    ):
        names = [side.select(cluster=cluster)["cluster"] for side in sides]
        if all(each.n_unique() >= SMALLEST_CLUSTERS for each in names):
            return Clusters(kind, numbered(names))
    return Clusters(None, numbered([side.select(run=alone)["run"] for side in sides]))


def numbered(sides: Sequence[pl.Series]) -> tuple[Codes, ...]:
    """Number distinct texts alike on all sides."""
    texts = np.concatenate([each.to_numpy() for each in sides]).astype(str)
    _, codes = np.unique(texts, return_inverse=True)
    ends = np.cumsum([len(each) for each in sides])[:-1]
    return tuple(part.astype(np.int64) for part in np.split(codes, ends))


def arms(first: pl.DataFrame, second: pl.DataFrame) -> tuple[Arm, Arm, str | None]:
    """Return two sides ready to be compared, and their clusters."""
    clusters = clusters_of([first, second])
    classes = numbered([each["task_class"].fill_null("unknown") for each in (first, second)])
    sides = [
        Arm(side["score"].to_numpy().astype(np.float64), kinds, codes)
        for side, kinds, codes in zip((first, second), classes, clusters.codes, strict=True)
    ]
    return sides[0], sides[1], clusters.kind
