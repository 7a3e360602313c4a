"""Assignment of judge profiles and their versions to sessions."""

import math
from collections.abc import Sequence

import polars as pl

from evaluation_pipelines.profiles.domain.profile import ANY_LABEL, JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registered, Registry

ASSIGNMENTS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "profile_id": pl.String(),
        "profile_version": pl.Int64(),
        "rank": pl.Int64(),
        "is_best_match": pl.Boolean(),
    }
)
"""Profiles of sessions; ``rank`` is 0 for the best match by labels, then 1 and so on."""


def applies(profile: JudgeProfile, label: str) -> bool:
    """Return whether a profile scores sessions with ``label``."""
    return label in profile.match_labels or ANY_LABEL in profile.match_labels


def ranked(profiles: Sequence[JudgeProfile], label: str) -> list[JudgeProfile]:
    """Return the enabled profiles that apply to ``label``, best match first.

    A profile that lists the label precedes one that applies to all labels. Ties are resolved by the
    fewest labels (all labels count as the most), then the highest version, then the first id.
    """
    applicable = [each for each in profiles if each.enabled and applies(each, label)]
    return sorted(applicable, key=lambda each: (_breadth(each, label), -each.version, each.id))


def assign(sessions: pl.DataFrame, registry: Registry) -> pl.DataFrame:
    """Return the profiles of each session, in the version that applies to it.

    Labels, order and ``enabled`` are those of a profile's newest version. A version applies to
    sessions that ended after it was registered, and to older ones only with ``rescore_history``.
    The first version of a profile applies to all sessions.

    Args:
        sessions: Rows with ``organization_id, session_key, classification_label, ended_at``.
        registry: All registered versions.

    Returns:
        Table with the columns of ``ASSIGNMENTS``.
    """
    newest = [each.profile for each in registry.newest()]
    labels = sessions["classification_label"].unique(maintain_order=True).to_list()
    frames = [ASSIGNMENTS.to_frame()]
    for label in labels:
        labeled = sessions.filter(pl.col("classification_label") == label)
        for rank, profile in enumerate(ranked(newest, label)):
            frames.append(
                labeled.select(
                    "organization_id",
                    "session_key",
                    profile_id=pl.lit(profile.id),
                    profile_version=_version_for(registry.history(profile.id)),
                    rank=pl.lit(rank, pl.Int64),
                    is_best_match=pl.lit(rank == 0),
                )
            )
    return pl.concat(frames).sort("organization_id", "session_key", "profile_id")


def _version_for(history: Sequence[Registered]) -> pl.Expr:
    first = history[0].profile.version
    version = pl.lit(first, pl.Int64)
    for each in history[1:]:
        number = pl.lit(each.profile.version, pl.Int64)
        has_effect = pl.lit(value=True) if each.rescore_history else _ended_after(each)
        version = pl.when(has_effect).then(number).otherwise(version)
    return version


def _ended_after(registered: Registered) -> pl.Expr:
    return pl.col("ended_at") > pl.lit(registered.registered_at)


def _breadth(profile: JudgeProfile, label: str) -> tuple[bool, float]:
    labels = profile.match_labels
    return label not in labels, math.inf if ANY_LABEL in labels else len(labels)
