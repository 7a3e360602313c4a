"""Why a session has the score that counts, in a plain sentence."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from evaluation_pipelines.formatting import points
from evaluation_pipelines.reporting.session_view import SessionView
from evaluation_pipelines.scorecards.domain.criterion_words import criterion_name
from evaluation_pipelines.scorecards.domain.evaluation import FAILED_AT_START
from evaluation_pipelines.sessions.domain.performance import WEIGHTS

Row: TypeAlias = Mapping[str, Any]

_MOST_NAMED = 2


def why_score(view: SessionView, *, texts: bool) -> str:
    """Return the sentence.

    Args:
        view: The session.
        texts: Whether the reader may see what a person wrote.
    """
    said = _why_score(view, texts=texts)
    is_said = view.evaluation is None or view.evaluation.source == "status"
    if view.session["status"] != "failed" or is_said:
        return said
    return f"The session failed{_of_errors(view)} {_what_failing_means(view)}{said}"


def _what_failing_means(view: SessionView) -> str:
    evaluation = view.evaluation
    if evaluation is None or evaluation.score_100 is None or evaluation.source == "override":
        return ""
    return "It does not pass, whatever its score, but what it did is still scored. "


def _why_score(view: SessionView, *, texts: bool) -> str:
    evaluation = view.evaluation
    match None if evaluation is None else evaluation.source:
        case "override":
            return _by_person(view, texts=texts)
        case "scorecard":
            return _by_card(view)
        case "judge":
            return f"It is the total of the judge{_why_no_card(view)}."
        case "composite":
            return f"It is ten times the composite{_weakest_dimensions(view)}{_why_no_card(view)}."
        case "status":
            return _by_status(view)
    return f"Nothing has scored it{_why_no_card(view)}."


def _by_person(view: SessionView, *, texts: bool) -> str:
    live = next((each for each in view.overrides if each["state"] == "live"), None)
    automatic = None if live is None else live["automatic_100"]
    annotator = None if view.evaluation is None else view.evaluation.annotator
    said = f"{annotator or 'A person'} scored it"
    if automatic is not None:
        said += f"; the automatic score is {points(automatic)}"
    return f"{said}. Reason: “{live['reason']}”" if live is not None and texts else f"{said}."


def _by_card(view: SessionView) -> str:
    card = _counting_card(view)
    if card is None:
        return "It is that of a scorecard."
    profile = f"By the profile {card['profile_id']}"
    if card["disqualified"]:
        rule = card["disqualifier_triggered"] or "an unknown rule"
        return f"{profile}: disqualified by {rule}, which counts 0 whatever its criteria."
    span = card["scale_max"] - card["scale_min"]
    known = [
        (100 * (each["value"] - card["scale_min"]) / span, criterion_name(each["key"]))
        for each in card["criteria_scores"] or ()
        if each["value"] is not None
    ]
    return f"{profile}; {_weakest(known, 100)}." if known else f"{profile}."


def _counting_card(view: SessionView) -> Row | None:
    profile = None if view.target is None else view.target.profile.id
    return next((each for each in view.scorecards if each["profile_id"] == profile), None)


def _by_status(view: SessionView) -> str:
    reason = view.evaluation and view.evaluation.reason
    if reason == FAILED_AT_START:
        said = f"{reason.capitalize()}, whatever a judge or a profile gives it"
    else:
        said = "A session that failed counts 0 as long as nothing else scores it"
    return f"{said}{_of_errors(view)}"


def _of_errors(view: SessionView) -> str:
    """Return the end of a sentence about a session that failed."""
    errors = view.session["api_errors"]
    return f": {errors} error{'' if errors == 1 else 's'} of the model's API." if errors else "."


def _weakest_dimensions(view: SessionView) -> str:
    row = view.performance or {}
    known = [(row[each], criterion_name(each)) for each in WEIGHTS if row.get(each) is not None]
    return f"; {_weakest(known, 10)}" if known else ""


def _weakest(known: Sequence[tuple[float, str]], most: int) -> str:
    """Return the lowest of some scores, each with its name; full ones are not low."""
    below = sorted(each for each in known if each[0] < most)[:_MOST_NAMED]
    if not below and len(known) > 1:
        return f"each of its criteria is {most} of {most}"
    named = " and ".join(
        f"{name.lower()} ({points(value)} of {most})" for value, name in below or known
    )
    if len(known) == 1:
        return f"it is from {named}"
    return f"lowest {'are' if len(below) > 1 else 'is'} {named}"


def _why_no_card(view: SessionView) -> str:
    reason, state = None if view.evaluation is None else view.evaluation.reason, view.judge_state
    thin = f" ({state.reason})" if state is not None and state.state == "too_thin" else ""
    return f"; no scorecard counts: {reason}{thin}" if reason else ""
