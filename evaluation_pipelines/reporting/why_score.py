"""What the score of a session comes from, in short sentences."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from evaluation_pipelines.formatting import points
from evaluation_pipelines.reporting.session_view import SessionView
from evaluation_pipelines.scorecards.domain.criterion_words import criterion_name
from evaluation_pipelines.scorecards.domain.evaluation import FAILED_AT_START
from evaluation_pipelines.scorecards.domain.why_low import model_api_errors
from evaluation_pipelines.sessions.domain.performance import WEIGHTS

Row: TypeAlias = Mapping[str, Any]

_MOST_NAMED = 2


def why_score(view: SessionView, *, texts: bool) -> str:
    """Return what the effective score comes from, in short sentences.

    Args:
        view: The session.
        texts: Whether the reader may see what a person wrote.
    """
    evaluation = view.evaluation
    source = None if evaluation is None else evaluation.source
    if source == "status":
        return _by_status(view)
    failed = ""
    if view.session["status"] == "failed" and evaluation is not None:
        is_automatic = source != "override" and evaluation.score_100 is not None
        rule = ", so not passed despite its score" if is_automatic else ""
        failed = f"Failed{model_api_errors(view.session)}{rule}. "
    return f"{failed}{_by_source(view, source, texts=texts)}"


def _by_source(view: SessionView, source: str | None, *, texts: bool) -> str:
    match source:
        case "override":
            return _by_person(view, texts=texts)
        case "scorecard":
            return _by_card(view)
        case "judge":
            return f"Judge total.{_why_no_card(view)}"
        case "composite":
            return f"Composite x 10.{_weakest_dimensions(view)}{_why_no_card(view)}"
    return f"No score.{_why_no_card(view)}"


def _by_person(view: SessionView, *, texts: bool) -> str:
    live = next((each for each in view.overrides if each["state"] == "live"), None)
    automatic = None if live is None else live["automatic_100"]
    annotator = None if view.evaluation is None else view.evaluation.annotator
    said = f"Scored by {annotator or 'a person'}."
    if automatic is not None:
        said += f" Automatic score: {points(automatic)}."
    return f"{said} Reason: “{live['reason']}”" if live is not None and texts else said


def _by_card(view: SessionView) -> str:
    card = counting_card(view)
    if card is None:
        return "Scored by a profile."
    profile = f"Profile {card['profile_id']}"
    if card["disqualified"]:
        rule = card["disqualifier_triggered"] or "an unknown rule"
        return f"{profile}: disqualified by {rule}, so the score is 0 whatever its criteria."
    span = card["scale_max"] - card["scale_min"]
    known = [
        (100 * (each["value"] - card["scale_min"]) / span, criterion_name(each["key"]))
        for each in card["criteria_scores"] or ()
        if each["value"] is not None
    ]
    return f"{profile}.{_weakest('criteria', known, 100)}"


def counting_card(view: SessionView) -> Row | None:
    """Return the scorecard whose profile decides the score; ``None`` if there is none."""
    profile = None if view.target is None else view.target.profile.id
    return next((each for each in view.scorecards if each["profile_id"] == profile), None)


def _by_status(view: SessionView) -> str:
    is_at_start = view.evaluation is not None and view.evaluation.reason == FAILED_AT_START
    when = "before any tool call" if is_at_start else "without any other score"
    return f"Failed {when}{model_api_errors(view.session)}: score 0."


def _weakest_dimensions(view: SessionView) -> str:
    row = view.performance or {}
    known = [(row[each], criterion_name(each)) for each in WEIGHTS if row.get(each) is not None]
    return _weakest("dimensions", known, 10)


def _weakest(what: str, known: Sequence[tuple[float, str]], most: int) -> str:
    """Return the lowest of some scores, each with its name; full ones are not low."""
    below = sorted(each for each in known if each[0] < most)[:_MOST_NAMED]
    if not below:
        return f" All {what}: {most} of {most}." if known else ""
    named = ", ".join(f"{name.lower()} {points(value)}" for value, name in below)
    return f" Lowest {what} (0-{most}): {named}."


def _why_no_card(view: SessionView) -> str:
    reason, state = None if view.evaluation is None else view.evaluation.reason, view.judge_state
    thin = f" ({state.reason})" if state is not None and state.state == "too_thin" else ""
    return f" No scorecard: {reason}{thin}." if reason else ""
