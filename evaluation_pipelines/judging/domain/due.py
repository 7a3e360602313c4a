"""Which sessions the judge is due to look at, and why each of the others is not."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal, TypeAlias

from evaluation_pipelines.judging.domain.score import OPEN, Score, ScoreStatus

RETRY_AFTER = timedelta(hours=20)
"""Shorter than a day: what failed in one night is tried in the next, whenever that begins."""

MAX_ATTEMPTS = 3

MAX_TAKEOVERS = 10
"""A scoring whose process dies that often may be what it dies of."""

State: TypeAlias = Literal[
    "excluded",
    "not_terminal",
    "no_profile",
    "too_thin",
    "sampled_out",
    "in_flight",
    "scored",
    "failed",
    "due",
]


@dataclass(frozen=True, slots=True)
class Window:
    """What the judge must know of a session window; ``is_terminal`` as of the time of the run.

    ``excluded_by`` names the rule of the user's that leaves it out.
    """

    organization_id: str
    session_key: str
    session_id: str
    session_date: date
    agent_id: str | None
    agent_model: str | None
    classification_label: str
    started_at: datetime
    ended_at: datetime
    is_terminal: bool
    content_level: str
    content_hash: str
    excluded_by: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeSetup:
    """By what a session is judged: the version of a judge profile that counts for it, a model."""

    profile_id: str
    profile_version: int
    rubric: str
    prompt_hash: str
    model: str
    samples: int = 1
    sample_rate: float = 1.0


@dataclass(frozen=True, slots=True)
class PastScore:
    """What is known of one scoring of the same session by any version of the same profile."""

    status: ScoreStatus
    profile_version: int
    content_hash: str
    prompt_hash: str
    retriable: bool | None = None
    completed_at: datetime | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class ExtraDue:
    """What somebody who starts a run may ask for beyond what is due.

    Attributes:
        force: judge again what is scored or has failed for good.
        include_thin: judge sessions of which no text was logged.
        obsolete: judge again what was scored by other words than the rubric's of today.
    """

    force: bool = False
    include_thin: bool = False
    obsolete: bool = False


@dataclass(frozen=True, slots=True)
class DueState:
    """Where a session stands with the judge, and why; ``attempt`` counts from 1 when it is due."""

    state: State
    reason: str
    attempt: int = 0


NIGHTLY = ExtraDue()


def standing(
    window: Window,
    judging: JudgeSetup | None,
    past: Sequence[PastScore],
    as_of: datetime,
    asked: ExtraDue = NIGHTLY,
) -> DueState:
    """Where a session stands: the first of these that holds, in the order of ``State``.

    Args:
        window: the session window.
        judging: what judges it; None when no profile does.
        past: all its scorings by any version of that profile.
        as_of: the time of the run.
        asked: what the run was asked for.
    """
    if window.excluded_by is not None:
        return DueState("excluded", f"left out by the rule {window.excluded_by}")
    if not window.is_terminal:
        return DueState("not_terminal", "the session has not ended")
    if judging is None:
        return DueState("no_profile", f"no judge profile lists {window.classification_label!r}")
    if window.content_level == "none" and not asked.include_thin:
        return DueState("too_thin", "no text of the session was logged")
    if not in_sample(window.session_key, judging.sample_rate):
        return DueState("sampled_out", f"not among the {judging.sample_rate:.0%} that are judged")
    if any(each.status in OPEN for each in past):
        return DueState("in_flight", "a scoring of it is not finished yet")
    return _standing_of_content(window, judging, past, as_of, asked)


def why_not_continued(
    score: Score, window: Window | None, judging: JudgeSetup | None
) -> str | None:
    """Why a scoring that somebody left unfinished cannot go on from its replies; None if it can.

    Args:
        score: as its last owner left it.
        window: its session as it is now; None when there is none any more.
        judging: what judges that session now.
    """
    if score.takeovers >= MAX_TAKEOVERS:
        return f"{score.takeovers} processes died while they were at work on it"
    if window is None:
        return "there is no such session any more"
    if window.content_hash != score.content_hash:
        return "the session has gone on since"
    if judging is None:
        return f"no judge profile lists {window.classification_label!r} any more"
    now = {
        "judge profile": (judging.profile_id, score.judge_profile_id),
        "version of the judge profile": (judging.profile_version, score.judge_profile_version),
        "judge model": (judging.model, score.judge_model),
        "wording of the rubric": (judging.prompt_hash, score.prompt_hash),
    }
    changed = [what for what, (present, begun) in now.items() if present != begun]
    return f"begun with another {' and '.join(changed)}" if changed else None


def in_sample(session_key: str, sample_rate: float) -> bool:
    """Whether a session is among the share that is judged: the same answer every time.

    The first 8 bytes of the key's SHA-256 are a fraction of 2**64; a higher rate so only adds.
    """
    place = int.from_bytes(hashlib.sha256(session_key.encode()).digest()[:8], "big")
    return place < sample_rate * 2**64


def oldest_first(window: Window) -> tuple[datetime, str, str]:
    """Sort key of due sessions: what waits longest comes first, whatever the budget leaves out."""
    return window.ended_at, window.organization_id, window.session_key


def _standing_of_content(
    window: Window,
    judging: JudgeSetup,
    past: Sequence[PastScore],
    as_of: datetime,
    asked: ExtraDue,
) -> DueState:
    """The same for a session that is to be judged, by what became of its present content."""
    present = (judging.profile_version, window.content_hash)
    current = [each for each in past if (each.profile_version, each.content_hash) == present]
    failures = [each for each in current if each.status == "failed"]
    attempt = len(failures) + 1
    if asked.force:
        return DueState("due", "asked for by force", attempt)
    words = [each.prompt_hash for each in current if each.status == "completed"]
    if words and not (asked.obsolete and judging.prompt_hash not in words):
        return DueState("scored", "this content is scored")
    return _after(failures, as_of) or DueState("due", "not scored yet", attempt)


def _after(failures: Sequence[PastScore], as_of: datetime) -> DueState | None:
    """Why a session that failed is not tried now; None when nothing stands against it."""
    final = [each for each in failures if not each.retriable]
    if final:
        return DueState("failed", f"failed for good: {final[-1].error_message}")
    if len(failures) >= MAX_ATTEMPTS:
        return DueState("failed", f"given up after {len(failures)} attempts: {_last(failures)}")
    ended = [each.completed_at for each in failures if each.completed_at is not None]
    again = max(ended, default=None)
    if again is not None and again + RETRY_AFTER > as_of:
        when = (again + RETRY_AFTER).astimezone(UTC)
        return DueState("failed", f"tried again from {when:%Y-%m-%d %H:%M} UTC: {_last(failures)}")
    return None


def _last(failures: Sequence[PastScore]) -> str:
    return str(failures[-1].error_message)
