"""Events for other systems about new effective scores of sessions."""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import polars as pl

from evaluation_pipelines.schemas.scorecards import Announcement

MODEL_FEEDBACK = "evaluation.model_feedback"
QUALITY_RISK = "evaluation.quality_risk"

_NAMESPACE = uuid.UUID("b6a1c5b2-3d0d-5b5e-8a43-0c7b9a5c2c7e")
_PAYLOAD = (
    "session_key",
    "session_id",
    "organization_id",
    "agent_id",
    "masque",
    "model",
    "provider",
    "classification_label",
    "task_class",
    "status",
    "effective_100",
    "effective_source",
    "confidence",
    "override_100",
    "scorecard_100",
    "judge_total",
    "composite",
    "disqualified",
    "profile_id",
    "profile_version",
    "card_id",
    "override_id",
    "content_hash",
)


def announcements(evaluations: pl.DataFrame) -> Iterator[Announcement]:
    """Yield a feedback event for every effective score, and a risk event for every low one.

    A session that no profile matches has no evaluation by a profile to report.

    Args:
        evaluations: SESSION_EVALUATIONS.
    """
    scored = evaluations.drop_nulls(["effective_100", "profile_id"])
    for row in scored.select("session_date", "quality_risk", *_PAYLOAD).iter_rows(named=True):
        yield _announcement(MODEL_FEEDBACK, row)
        if row["quality_risk"]:
            yield _announcement(QUALITY_RISK, row)


def labels_without_profile(evaluations: pl.DataFrame) -> dict[str, int]:
    """Return how many sessions no profile matches, by label."""
    unmatched = evaluations.filter(pl.col("profile_id").is_null())
    return dict(unmatched.group_by("classification_label").len().sort(pl.all()).iter_rows())


def event_id(kind: str, row: Mapping[str, Any]) -> str:
    """Return a UUID (version 5) of card, content and override: equal events have the same id.

    If there is no card, the source of the score takes its place.
    """
    parts = (
        kind,
        row["organization_id"],
        row["session_key"],
        row["card_id"] or row["effective_source"],
        row["content_hash"],
        row["override_id"] or "",
    )
    return str(uuid.uuid5(_NAMESPACE, "\0".join(parts)))


def _announcement(kind: str, row: Mapping[str, Any]) -> Announcement:
    payload = {"event": kind, **{name: row[name] for name in _PAYLOAD}}
    return Announcement(
        event_id=event_id(kind, row),
        kind=kind,
        session_date=row["session_date"],
        organization_id=row["organization_id"],
        session_key=row["session_key"],
        agent_id=row["agent_id"],
        effective_100=row["effective_100"],
        payload=msgspec.json.encode(payload, order="sorted").decode(),
    )
