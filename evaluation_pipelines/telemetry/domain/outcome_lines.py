"""Outcomes that other systems report: a line of a landing file, or the body of a request.

``{"session_id": ..., "kind": "merged", "value": true, "at": ..., "reference": "pull/12"}``, with
``organization`` and ``session_key`` where needed. A later line with the same session, kind and
reference corrects it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evaluation_pipelines import times
from evaluation_pipelines.schemas import OUTCOME_KINDS
from evaluation_pipelines.telemetry.domain.attributes import text
from evaluation_pipelines.telemetry.domain.organizations import NO_ORGANIZATION

OUTCOME_NAMES = (
    *("kind", "value", "at", "reference", "organization", "session_id", "session_key"),
)
_TESTS = {"passed": 1.0, "failed": 0.0, "none": None}
_OWN = re.compile(r"x_[a-z0-9_]{1,60}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_MAX_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class LateOutcome:
    """An outcome from git or outside. Its fields are columns of ``late_outcomes``."""

    organization_id: str
    session_id: str
    kind: str
    source: str
    read_at: datetime
    session_key: str = ""
    reference: str = ""
    happened_at: datetime | None = None
    value: float | None = 1.0
    lines: int | None = None
    inferred: bool = False


def outcome_of(
    sent: Mapping[str, Any], now: datetime, organization: str | None = None
) -> LateOutcome | str:
    """Return an outcome as sent, or its defect.

    Args:
        sent: Values by OUTCOME_NAMES, None without a value.
        now: Time at which it came.
        organization: The only one that its sender may name.
    """
    given = {name: value for name, value in sent.items() if value is not None}
    for name in ("kind", "reference", "organization", "session_id", "session_key"):
        value = given.get(name, "-")
        if not isinstance(value, str) or not text(value) or len(value) > _MAX_CHARACTERS:
            return f"outcome: {name} is not a text of 1 to {_MAX_CHARACTERS} characters"
    if "session_id" not in given or "kind" not in given:
        return "outcome: session_id and kind are needed"
    kind, value = given["kind"], _value(given["kind"], given.get("value", True))
    if kind not in (*OUTCOME_KINDS, "rejected") and not _OWN.fullmatch(kind):
        return f"outcome: kind must be {', '.join(OUTCOME_KINDS)}, rejected, or x_ and a name"
    if isinstance(value, str):
        return value
    time_us = times.from_iso(given["at"]) if "at" in given else None
    if "at" in given and (time_us is None or not times.EARLIEST_US <= time_us <= times.to_us(now)):
        return "outcome: at is not an ISO 8601 time between 2020 and now"
    if kind == "commit" and not _COMMIT.fullmatch(given.get("reference", "")):
        return "outcome: the reference of a commit is its id, 7 to 64 hexadecimal digits"
    key, session_id = given.get("session_key", ""), given["session_id"]
    if key and key.rpartition("#")[0] != session_id:
        return "outcome: session_key must be of this session"
    return LateOutcome(
        organization or given.get("organization", NO_ORGANIZATION),
        session_id,
        "accepted" if kind == "rejected" else kind,
        "outside",
        now,
        session_key=key,
        reference=given.get("reference", ""),
        happened_at=None if time_us is None else times.from_us(time_us),
        value=1 - value if kind == "rejected" and value is not None else value,
    )


def _value(kind: str, sent: Any) -> float | str | None:
    if kind == "tests_after_last_edit" and isinstance(sent, str) and sent in _TESTS:
        return _TESTS[sent]
    if isinstance(sent, bool | int | float) and 0 <= sent <= 1:
        return float(sent)
    return "outcome: value is not true, false or a number from 0 to 1"
