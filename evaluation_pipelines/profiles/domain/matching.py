"""Which profiles score which sessions, and in which version."""

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
        "is_best_match": pl.Boolean(),
    }
)


def applies(profile: JudgeProfile, label: str) -> bool:
    """Whether a profile scores sessions with a label."""
    return label in profile.match_labels or ANY_LABEL in profile.match_labels


def ranked(profiles: Sequence[JudgeProfile], label: str) -> list[JudgeProfile]:
    """The enabled profiles that apply to a label, the best match first.

    One that lists the label comes before one that takes all; then the one with the fewest labels
    (all labels are the most), the highest version, the first id.
    """
    fitting = [each for each in profiles if each.enabled and applies(each, label)]
    return sorted(fitting, key=lambda each: (_breadth(each, label), -each.version, each.id))


def assign(sessions: pl.DataFrame, registry: Registry) -> pl.DataFrame:
    """The profiles of each session, each in the version that counts for it: ASSIGNMENTS.

    Labels, order and whether a profile is enabled are those of its newest version. A version
    counts for sessions that ended after it was registered, for older ones only when history is to
    be scored again; the first version of a profile counts for all sessions.

    Args:
        sessions: with ``organization_id, session_key, classification_label, ended_at``.
        registry: all registered versions.
    """
    newest = [each.profile for each in registry.newest()]
    labels = sessions["classification_label"].unique(maintain_order=True).to_list()
    frames = [ASSIGNMENTS.to_frame()]
    for label in labels:
        of_label = sessions.filter(pl.col("classification_label") == label)
        for rank, profile in enumerate(ranked(newest, label)):
            frames.append(
                of_label.select(
                    "organization_id",
                    "session_key",
                    profile_id=pl.lit(profile.id),
                    profile_version=_version_for(registry.history(profile.id)),
                    is_best_match=pl.lit(rank == 0),
                )
            )
    return pl.concat(frames).sort("organization_id", "session_key", "profile_id")


def _version_for(history: Sequence[Registered]) -> pl.Expr:
    first = history[0].profile.version
    version = pl.lit(first, pl.Int64)
    for each in history[1:]:
        number = pl.lit(each.profile.version, pl.Int64)
        counts = pl.lit(value=True) if each.rescore_history else _ended_after(each)
        version = pl.when(counts).then(number).otherwise(version)
    return version


def _ended_after(registered: Registered) -> pl.Expr:
    return pl.col("ended_at") > pl.lit(registered.registered_at)


def _breadth(profile: JudgeProfile, label: str) -> tuple[bool, float]:
    labels = profile.match_labels
    return label not in labels, math.inf if ANY_LABEL in labels else len(labels)
