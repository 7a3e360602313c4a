"""State of a session window in the books, its reason, and what would change it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from evaluation_pipelines.judging.domain.badge import LEFT_OUT
from evaluation_pipelines.judging.domain.due import DueState, Window
from evaluation_pipelines.scorecards.domain.evaluation import FAILED_AT_START, NOT_ENDED
from evaluation_pipelines.scorecards.domain.scorecard import NO_EVIDENCE, NOT_JUDGED

Row: TypeAlias = Mapping[str, Any]

BookState: TypeAlias = Literal[
    "excluded",
    "not_terminal",
    "no_profile",
    "too_thin",
    "sampled_out",
    "in_flight",
    "scored",
    "failed",
    "deferred",
]


@dataclass(frozen=True, slots=True)
class StateMeaning:
    """A state as people read it, its meaning, and what would change it.

    A session is "scored" if it has any score, and one that failed is something else than one whose
    judgment failed.
    """

    title: str
    meaning: str
    what_next: str


STATES: Mapping[str, StateMeaning] = {
    "excluded": StateMeaning(
        "excluded",
        "excluded by a rule in EVAL_EXCLUDE_SESSIONS",
        "change the rule and build the date again",
    ),
    "not_terminal": StateMeaning(
        "still open",
        "has not ended",
        "nothing to do: it is checked again once it has been silent for long enough",
    ),
    "no_profile": StateMeaning(
        "no matching profile",
        "no enabled judge profile lists its label",
        "add a profile that lists the label (or *) and build the date",
    ),
    "too_thin": StateMeaning(
        "not enough text",
        "its profile scores text, but too little was logged",
        "log session text, or run judge SESSION",
    ),
    "sampled_out": StateMeaning(
        "not sampled",
        "outside the sample rate of its profile",
        "raise the sample_rate of the profile, or run judge SESSION",
    ),
    "in_flight": StateMeaning(
        "being judged",
        "the judge has not finished",
        "nothing to do: the judgment finishes, or another run takes it over",
    ),
    "scored": StateMeaning(
        "scored by profile",
        "scored by its best available profile",
        "nothing to do: new telemetry, a new profile version or a better match scores it again",
    ),
    "failed": StateMeaning(
        "judgment failed",
        "the judge failed (permanently or until the next attempt), or its score is excluded",
        "wait for the next attempt if a time is named, or fix the cause: judge SESSION --force",
    ),
    "deferred": StateMeaning(
        "postponed",
        "postponed because of budget, batch size, endpoint or a build",
        "the next judge run with an endpoint and budget, or the next build of the date",
    ),
}
"""In order of precedence: the first that applies is the state."""

BY_PROFILE = "scored"
"""State of a session with a scorecard from its profile. Others may have a score, too."""


def title_of(state: str) -> str:
    """Return the title of a state; states of the judge have no other name."""
    return STATES[state].title if state in STATES else state.replace("_", " ")


_BEFORE_SCORED: Sequence[BookState] = ("too_thin", "sampled_out", "in_flight")
_ASKED_FOR = ", with a card because it was judged on request"
_NEVER = "nothing: the data to score it has expired"


@dataclass(frozen=True, slots=True)
class Booking:
    """State of one window, and the reason; ``is_final`` if nothing moves it to another state."""

    state: BookState
    reason: str
    is_final: bool = False

    @property
    def what_next(self) -> str:
        """What moves the window to another state."""
        return _NEVER if self.is_final else STATES[self.state].what_next


def book(
    window: Window, evaluated: Row, judged: DueState | None, why_due: str = NOT_JUDGED
) -> Booking:
    """Return the state of a window: the first of ``STATES`` that applies.

    Args:
        window: The current window.
        evaluated: Its row of ``session_evaluations``; ``reason`` says why ``card_id``, the current
            scorecard by the best-matching profile, is missing.
        judged: Its state for the judge; None if its profile needs no judge.
        why_due: Why a due session may not have been judged yet.
    """
    if evaluated["excluded_by"] is not None:
        return Booking("excluded", f"left out by the rule {evaluated['excluded_by']}")
    if not window.is_terminal:
        return Booking("not_terminal", "the session has not ended")
    if evaluated["profile_id"] is None:
        return Booking("no_profile", f"no judge profile lists {window.classification_label!r}")
    is_spent = window.expired is not None
    # Without calls there is nothing that a profile without a judge could score, either.
    nothing = {NO_EVIDENCE} if judged is not None else {NO_EVIDENCE, FAILED_AT_START}
    if evaluated["card_id"] is None and evaluated["reason"] in nothing:
        return Booking("too_thin", f"{evaluated['profile_id']}: {evaluated['reason']}", is_spent)
    # What expired was there when the card was made.
    is_thin_now = is_spent and judged is not None and judged.state == "too_thin"
    for state in _BEFORE_SCORED:
        if judged is not None and judged.state == state and not is_thin_now:
            in_spite = evaluated["card_id"] is not None and state != "in_flight"
            return Booking(state, judged.reason + _ASKED_FOR * in_spite)
    if evaluated["card_id"] is not None:
        since = f"; {window.why_expired} since" if is_spent else ""
        return Booking("scored", f"scored by {evaluated['profile_id']}{since}")
    return _without_card(window, evaluated, judged, why_due)


def _without_card(window: Window, evaluated: Row, judged: DueState | None, why_due: str) -> Booking:
    why_failed = judged.reason if judged is not None and judged.state == "failed" else None
    if why_failed is None and (evaluated["reason"] or "").startswith(LEFT_OUT):
        why_failed = evaluated["reason"]
    if why_failed is not None:
        return Booking("failed", why_failed, window.expired is not None)
    if window.why_expired is not None:
        return Booking("too_thin", window.why_expired, is_final=True)
    return Booking("deferred", _why_deferred(evaluated, judged, why_due))


def _why_deferred(evaluated: Row, judged: DueState | None, why_due: str) -> str:
    if judged is not None and judged.state == "due":
        return why_due
    if judged is not None:
        return "the judge has scored it: its card comes with the next build of the date"
    if evaluated["reason"] == NOT_ENDED:
        return "it has ended since the date was built: its card comes with the next build"
    return f"its card comes with the next build of the date ({evaluated['reason'] or 'none yet'})"
