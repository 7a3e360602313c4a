"""Decision which sessions are due to be judged, with the reason for each, and on request."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal, TypeAlias

from evaluation_pipelines.schemas.judge_score import OPEN, Score, ScoreStatus

DEFAULT_PROFILE = "default"
"""Profile of the settings, for sessions without a matching judge profile."""

RETRY_AFTER = timedelta(hours=20)
"""Wait before a failed judgment is repeated; under a day, so that each nightly run repeats it."""

MAX_ATTEMPTS = 3

MAX_CRASHES = 10
"""Deaths of its judge after which a judgment is given up: it may be their cause."""

_ANOTHER = "started with another"

_NEVER = datetime.max.replace(tzinfo=UTC)

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
    """Data about a session window that decides whether it is judged.

    ``is_terminal`` is as of the time of the run. ``excluded_by`` is the name of the configured rule
    that excludes the session. ``expired`` is what has expired since of its date: its ``texts``, or
    its ``events`` with them; its ``content_level`` is then ``none``.
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
    expired: Literal["texts", "events"] | None = None

    @property
    def why_expired(self) -> str | None:
        """Why there is nothing left to judge; ``None`` if there is."""
        return None if self.expired is None else f"its {self.expired} have expired"


@dataclass(frozen=True, slots=True)
class JudgeSetup:
    """Version of a judge profile that applies to a session, with rubric and model."""

    profile_id: str
    profile_version: int
    rubric: str
    prompt_hash: str
    model: str
    samples: int = 1
    sample_rate: float = 1.0

    @property
    def identity(self) -> tuple[str, int, str]:
        """Profile, version and hash of the rubric."""
        return self.profile_id, self.profile_version, self.prompt_hash


@dataclass(frozen=True, slots=True)
class PastScore:
    """An earlier judgment of the same session by any version of the same profile."""

    status: ScoreStatus
    profile_version: int
    content_hash: str
    prompt_hash: str
    retriable: bool | None = None
    completed_at: datetime | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class ExtraDue:
    """Options that make more sessions due.

    Attributes:
        force: Judge sessions again that are scored or have failed permanently.
        include_thin: Judge sessions of which no text was logged.
        obsolete: Judge sessions again whose scores have another rubric or another wording of it.
        failed: Judge sessions again that have failed, whatever the reason, without any wait.
    """

    force: bool = False
    include_thin: bool = False
    obsolete: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True)
class DueState:
    """State of a session and the reason for it.

    ``attempt`` counts from 1 if it is due. ``is_outdated`` says that it has a score, but none by
    the current rubric.
    """

    state: State
    reason: str
    attempt: int = 0
    is_outdated: bool = False


NIGHTLY = ExtraDue()


def due_state(
    window: Window,
    setup: JudgeSetup | None,
    past: Sequence[PastScore],
    as_of: datetime,
    extra: ExtraDue = NIGHTLY,
) -> DueState:
    """Return the state of a session: the first one of ``State`` that applies.

    Args:
        window: The session window.
        setup: Profile and model that judge it; ``None`` if no profile applies.
        past: All its judgments by any version of that profile.
        as_of: Time of the run.
        extra: Options of the run.
    """
    if window.excluded_by is not None:
        return DueState("excluded", f"left out by the rule {window.excluded_by}")
    if not window.is_terminal:
        return DueState("not_terminal", "the session has not ended")
    if setup is None:
        return DueState("no_profile", f"no judge profile lists {window.classification_label!r}")
    if window.content_level == "none" and window.expired is None and not extra.include_thin:
        return DueState("too_thin", "no text of the session was logged")
    if not in_sample(window.session_key, setup.sample_rate):
        return DueState("sampled_out", f"not among the {setup.sample_rate:.0%} that are judged")
    if any(score.status in OPEN for score in past):
        return DueState("in_flight", "a scoring of the session is still open")
    if window.expired is not None:
        return _expired_state(window, _content_state(window, setup, past, _NEVER, extra))
    return _content_state(window, setup, past, as_of, extra)


def why_not_resumable(score: Score, window: Window | None, setup: JudgeSetup | None) -> str | None:
    """Return why an abandoned judgment cannot continue from its replies; ``None`` if it can.

    Args:
        score: The judgment as it was left.
        window: Its session as it is now; ``None`` if it no longer exists.
        setup: Profile and model that judge the session now.
    """
    if score.crashes >= MAX_CRASHES:
        return f"{score.crashes} processes died while scoring it"
    if window is None:
        return "the session no longer exists"
    if window.content_hash != score.content_hash:
        return "the session has changed since"
    if window.expired is not None:
        return f"{window.why_expired} since it was started"
    if setup is None:
        return f"no judge profile lists {window.classification_label!r} anymore"
    compared = {
        "judge profile": (setup.profile_id, score.judge_profile_id),
        "version of the judge profile": (setup.profile_version, score.judge_profile_version),
        "judge model": (setup.model, score.judge_model),
        "wording of the rubric": (setup.prompt_hash, score.prompt_hash),
    }
    changed = [name for name, (current, started) in compared.items() if current != started]
    return f"{_ANOTHER} {' and '.join(changed)}" if changed else None


def is_by_another_judge(reason: str) -> bool:
    """Return whether a judgment is not resumable because another judge began it."""
    return reason.startswith(_ANOTHER)


def in_sample(session_key: str, sample_rate: float) -> bool:
    """Return whether a session is in the sample that is judged; the answer is deterministic.

    The first 8 bytes of the SHA-256 of ``session_key``, as a fraction of 2**64, are compared with
    ``sample_rate``. A higher rate therefore only adds sessions.
    """
    position = int.from_bytes(hashlib.sha256(session_key.encode()).digest()[:8], "big")
    return position < sample_rate * 2**64


def oldest_first(window: Window) -> tuple[datetime, str, str]:
    """Return the sort key of due sessions: sessions that have waited longest come first."""
    return window.ended_at, window.organization_id, window.session_key


def _expired_state(window: Window, found: DueState) -> DueState:
    """Return the state of a session of which something has expired.

    What was scored stays scored, and what failed for good has failed; the rest cannot be judged.
    """
    if found.state == "due":
        return DueState("too_thin", window.why_expired or "")
    return DueState(found.state, f"{found.reason}; {window.why_expired} since")


def _content_state(
    window: Window,
    setup: JudgeSetup,
    past: Sequence[PastScore],
    as_of: datetime,
    extra: ExtraDue,
) -> DueState:
    """Return the state by the judgments of the current content and profile version."""
    content = (setup.profile_version, window.content_hash)
    current = [score for score in past if (score.profile_version, score.content_hash) == content]
    failures = [score for score in current if score.status == "failed"]
    attempt = len(failures) + 1
    if extra.force:
        return DueState("due", "requested with force", attempt)
    hashes = [score.prompt_hash for score in current if score.status == "completed"]
    is_outdated = setup.prompt_hash not in hashes
    if hashes and not (extra.obsolete and is_outdated):
        reason = "scored by another rubric" if is_outdated else "this content is scored"
        return DueState("scored", reason, is_outdated=is_outdated)
    if failures and extra.failed:
        return DueState("due", "failed, and requested again", attempt)
    return _failed_state(failures, as_of) or DueState("due", "not scored yet", attempt)


def _failed_state(failures: Sequence[PastScore], as_of: datetime) -> DueState | None:
    """Return the state of a session that must not be retried now; ``None`` if it may be."""
    permanent = [failure for failure in failures if not failure.retriable]
    if permanent:
        return DueState("failed", f"failed permanently: {permanent[-1].error_message}")
    if not failures:
        return None
    error = failures[-1].error_message
    if len(failures) >= MAX_ATTEMPTS:
        return DueState("failed", f"given up after {len(failures)} attempts: {error}")
    ended = [failure.completed_at for failure in failures if failure.completed_at is not None]
    retry_at = max(ended) + RETRY_AFTER if ended else as_of
    if retry_at > as_of:
        when = retry_at.astimezone(UTC)
        return DueState("failed", f"retried from {when:%Y-%m-%d %H:%M} UTC: {error}")
    return None


Action: TypeAlias = Literal["create", "existing", "conflict", "not_terminal", "unknown", "expired"]


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """Action for a request, and its HTTP status code."""

    action: Action
    http_status: int


def answer_request(
    existing: ScoreStatus | None,
    *,
    force: bool,
    is_held: bool = True,
    is_known: bool = True,
    is_terminal: bool = True,
    has_expired: bool = False,
) -> RequestAnswer:
    """Answer a request to score a session.

    Args:
        existing: Status of the newest judgment of its current content by its current profile.
        force: Whether to score again if a judgment has ended already.
        is_held: Whether an unfinished judgment is under way.
        is_known: Whether the session exists.
        is_terminal: Whether the session has ended.
        has_expired: Whether there is nothing left to judge.
    """
    if not is_known:
        return RequestAnswer("unknown", 404)
    if not is_terminal:
        return RequestAnswer("not_terminal", 400)
    if existing in OPEN:
        is_refused = force and is_held
        return RequestAnswer("conflict", 409) if is_refused else RequestAnswer("existing", 202)
    if existing is not None and not force:
        return RequestAnswer("existing", 200)
    return RequestAnswer("expired", 410) if has_expired else RequestAnswer("create", 202)


def answer_lookup(existing: ScoreStatus | None) -> RequestAnswer:
    """Answer a request to read a score; ``existing`` is the status of the newest scoring."""
    return RequestAnswer("unknown", 404) if existing is None else RequestAnswer("existing", 200)
