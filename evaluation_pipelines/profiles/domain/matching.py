"""Assignment of judge profiles and their versions to sessions."""

import math
from collections.abc import Sequence

import polars as pl

from evaluation_pipelines.profiles.domain.profile import ANY_LABEL, JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registered, Registry
from evaluation_pipelines.schemas import CONTENT_KEY, SESSION_KEY

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

CARD_VERSION = (*CONTENT_KEY, "profile_id", "profile_version", "fallback")
"""What ``assign`` reads of scorecards."""


def applies(profile: JudgeProfile, label: str) -> bool:
    """Return whether a profile scores sessions with ``label``."""
    return label in profile.match_labels or ANY_LABEL in profile.match_labels


def ranked(known: Sequence[Registered], label: str) -> list[JudgeProfile]:
    """Return the enabled profiles that apply to ``label``, best match first.

    A profile that lists the label precedes one that applies to all labels. Ties are resolved by the
    fewest labels (all labels count as the most), then a profile of the user before a shipped one
    (with a judge before without), then the highest version, then the first id.
    """
    applicable = [each for each in known if each.profile.enabled and applies(each.profile, label)]
    applicable.sort(key=lambda each: _place(each, label))
    return [each.profile for each in applicable]


def assign(sessions: pl.DataFrame, registry: Registry, cards: pl.DataFrame) -> pl.DataFrame:
    """Return the profiles of each session, in the version that applies to it.

    Labels, order and ``enabled`` are those of a profile's newest version. A session is scored by
    the newest version, however long ago it ended; one that has a card keeps the version of its
    card, unless a later one was registered with ``rescore_history``.

    Args:
        sessions: Rows with CONTENT_KEY and ``classification_label``.
        registry: All registered versions.
        cards: Rows of ``scorecards`` with CARD_VERSION of these sessions.

    Returns:
        Table with the columns of ``ASSIGNMENTS``.
    """
    newest = registry.newest()
    labels = sessions["classification_label"].unique(maintain_order=True).to_list()
    frames = [ASSIGNMENTS.to_frame()]
    for label in labels:
        labeled = sessions.filter(pl.col("classification_label") == label)
        for rank, profile in enumerate(ranked(newest, label)):
            history = registry.history(profile.id)
            frames.append(
                labeled.join(_carded(cards, history), on=CONTENT_KEY, how="left").select(
                    *SESSION_KEY,
                    profile_id=pl.lit(profile.id),
                    profile_version=_version(history),
                    rank=pl.lit(rank, pl.Int64),
                    is_best_match=pl.lit(rank == 0),
                )
            )
    return pl.concat(frames).sort(*SESSION_KEY, "profile_id")


def _carded(cards: pl.DataFrame, history: Sequence[Registered]) -> pl.DataFrame:
    """Return the newest version by which each content has a card, ``carded``."""
    of_history = pl.col("profile_version").is_in([each.profile.version for each in history])
    return (
        cards.filter(pl.col("profile_id") == history[0].profile.id, of_history, ~pl.col("fallback"))
        .group_by(CONTENT_KEY)
        .agg(carded=pl.col("profile_version").max())
    )


def _version(history: Sequence[Registered]) -> pl.Expr:
    newest = history[-1].profile.version
    rescored = max((each.profile.version for each in history if each.rescore_history), default=0)
    kept = pl.max_horizontal("carded", pl.lit(rescored, pl.Int64))
    return pl.when(pl.col("carded").is_null()).then(pl.lit(newest, pl.Int64)).otherwise(kept)


def _place(registered: Registered, label: str) -> tuple[bool, float, int, int, str]:
    profile = registered.profile
    breadth = math.inf if ANY_LABEL in profile.match_labels else len(profile.match_labels)
    is_shipped = registered.origin == "shipped"
    default = is_shipped + (is_shipped and profile.method == "heuristic")
    return label not in profile.match_labels, breadth, default, -profile.version, profile.id
