"""Command ``show``: all that the stores hold about one session, on one screen."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.conventions import ORGANIZATION, SESSION, refuse_unused
from evaluation_pipelines.cli.filters import AS_OF, named_session, parse_as_of
from evaluation_pipelines.cli.judging.score_output import score_record, show_judge_score
from evaluation_pipelines.cli.output import (
    OutputFormat,
    fenced,
    one_line,
    print_json,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.cli.session_lines import session_key_of, waiting_of
from evaluation_pipelines.formatting import points
from evaluation_pipelines.judging.domain.badge import Badge, badge, band, shown_scoring
from evaluation_pipelines.judging.plans import CurrentRubrics, current_rubrics
from evaluation_pipelines.people.identity_store import hidden_columns
from evaluation_pipelines.reporting.domain.book_states import title_of
from evaluation_pipelines.reporting.domain.session_facts import (
    dimensions,
    outcome_facts,
    session_facts,
)
from evaluation_pipelines.reporting.session_view import (
    SessionView,
    Timeline,
    TimelineStep,
    session_timeline,
    session_view,
    why_score,
)
from evaluation_pipelines.schemas.judge_score import shown_badge
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE
from evaluation_pipelines.sessions.domain.ended import open_sentence
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores

_LINES = {
    "when": ("Started", "Ended", "Last event", "Active"),
    "who": ("Person", "Team", "Organization"),
    "where": ("Repository", "Branch", "Environment"),
    "with": ("Agent", "Masque", "Program", "Model"),
    "what": ("Label", "Status", "Prompts", "Tool calls"),
    "used": ("Cost", "Tokens", "Cached tokens"),
}
"""Line -> the facts on it."""

_MAX_OVERRIDES = 3
_ANALYSIS_CHARACTERS = 600


def show(
    session: Annotated[str, SESSION],
    transcript: Annotated[
        bool, typer.Option("--transcript", help="Also show every step with its text.")
    ] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Only the latest judge score, in full.")
    ] = False,
    organization: Annotated[str | None, ORGANIZATION] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Show one session: facts, scores, reasons, lost calls.

    Text is shown as it was logged, without secrets. csv has no transcript.
    """
    if judge and transcript:
        raise typer.BadParameter("give either --transcript or --judge")
    refuse_unused("--format csv", {"--transcript": transcript and form is OutputFormat.CSV})
    settings, then = load_settings(), parse_as_of(as_of)
    with read_stores_as_of(settings, then) as stores:
        query = named_session(stores.lake, session, organization)
        if judge:
            show_judge_score(stores, query, session, then or datetime.now(UTC), form)
        else:
            _show(stores, session_view(stores, query, then), then, form, transcript=transcript)


def _show(
    stores: Stores,
    view: SessionView,
    then: datetime | None,
    form: OutputFormat,
    *,
    transcript: bool,
) -> None:
    hidden, timeline = hidden_columns(stores.settings.people_view), None
    if transcript:
        timeline = session_timeline(
            stores, view.session, then or datetime.now(UTC), None, slice(None)
        )
    if form is OutputFormat.JSON:
        print_json(session_record(view, current_rubrics(stores), hidden, timeline))
    elif form is OutputFormat.CSV:
        write_rows([session_row(view, hidden)], form)
    else:
        is_withheld = session_key_of(view.session) in waiting_of(stores)
        minutes = stores.settings.session_idle_minutes
        print_session(view, hidden, is_withheld=is_withheld, idle_minutes=minutes)
        if transcript:
            print_timeline(timeline)


def session_record(
    view: SessionView, rubrics: CurrentRubrics, hidden: frozenset[str], timeline: Timeline | None
) -> dict[str, Any]:
    """Return all about a session for programs; ``timeline`` is its transcript, if asked for."""
    prompt_hash = rubrics.prompt_hash(view.session["classification_label"])
    scores = [score_record(score, prompt_hash) for score in view.judge_scores]
    state = view.judge_state
    record: dict[str, Any] = {
        "session": {name: value for name, value in view.session.items() if name not in hidden},
        "has_ended": view.has_ended,
        "excluded_by": view.excluded_by,
        "evaluation": None if view.evaluation is None else record_of(view.evaluation),
        "performance": view.performance,
        "judge_scores": scores,
        "judge_state": None if state is None else {"state": state.state, "why": state.reason},
        "scorecards": view.scorecards,
        "overrides": view.overrides,
        "external_evaluations": view.external,
        "tool_report": view.tool_report,
    }
    if timeline is not None:
        record["transcript"] = [record_of(step) for step in timeline.steps]
    return record


def session_row(view: SessionView, hidden: frozenset[str]) -> dict[str, Any]:
    """Return the row of CSV: the columns of the session, its scores and what counts."""
    evaluation = view.evaluation
    row = {**(view.performance or {}), **view.session}
    shown = {name: value for name, value in row.items() if name not in hidden}
    judged = _badge(view)
    return {
        **shown,
        "effective_100": None if evaluation is None else evaluation.score_100,
        "effective_source": "none" if evaluation is None else evaluation.source,
        "judge_total": judged.total,
        "judge_model": judged.model,
    }


def print_session(
    view: SessionView, hidden: frozenset[str], *, is_withheld: bool, idle_minutes: int
) -> None:
    """Print facts, scores with their reasons, overrides and lost calls.

    Args:
        view: The session.
        hidden: Columns that are not shown.
        is_withheld: Whether its scores are withheld.
        idle_minutes: Idle minutes after which a session counts as ended.
    """
    print_line(one_line(f"{view.session['session_key']} of {view.session['organization_id']}"))
    facts = dict(session_facts(view.session, hidden))
    for name, shown in _LINES.items():
        if said := [
            _named_fact(name, fact.lower(), facts[fact]) for fact in shown if fact in facts
        ]:
            _print_fact(name, ", ".join(said))
    for kind, value in outcome_facts(view.outcomes):
        _print_fact(kind.lower(), one_line(value))
    if not view.has_ended:
        _print_fact("end", open_sentence(view.session["ended_at"], idle_minutes))
    if view.excluded_by is not None:
        _print_fact("excluded", f"by the rule {view.excluded_by}")
    if is_withheld:
        print_line(f"\nscore: {REVIEW_DUE} (page /reviews: score it first)")
    else:
        _print_scores(view)
        _print_calls(view.tool_report)
    if view.external:
        columns = ("evaluation", "score #", "label", "by", "why")
        rows = [
            tuple(
                "" if row[name] is None else one_line(f"{row[name]}")
                for name in ("name", "value", "label", "source", "explanation")
            )
            for row in view.external
        ]
        print_table("\nEvaluations by other programs", columns, rows, essential=3)


def _named_fact(line: str, name: str, value: str) -> str:
    """Return a fact with its name, unless the line has the same name."""
    return value if name == line else f"{name} {value}"


def print_timeline(timeline: Timeline | None) -> None:
    """Print the transcript: each step with its clock, and its texts behind a bar."""
    if timeline is None:
        print_line("\nThe session was just resumed. Its transcript appears after the next build.")
        return
    if timeline.note:
        print_line(f"\n{timeline.note}")
    print_line("\nTranscript (minutes and seconds since the first event)")
    for step in timeline.steps:
        for line in _step_lines(step):
            print_line(line)


def _step_lines(step: TimelineStep) -> Iterator[str]:
    mark = "!" if step.is_failure else " "
    unlogged = f" ({', '.join(step.not_logged)} not logged)" if step.not_logged else ""
    yield f"{step.clock:>7} {mark} {one_line(step.title)}{unlogged}"
    for label, text in step.texts:
        if label:
            yield f"          {one_line(label)}"
        yield fenced(text)


def _print_fact(name: str, value: str) -> None:
    print_line(f"  {name:10} {one_line(value)}")


def _print_scores(view: SessionView) -> None:
    evaluation, performance = view.evaluation, view.performance
    score = None if evaluation is None else evaluation.score_100
    if evaluation is not None and evaluation.provisional:
        print_line(f"\nscore: {points(evaluation.provisional_100)} of 100, provisional")
    elif evaluation is None or score is None:
        why = "it is not built yet" if evaluation is None else evaluation.reason or "unknown"
        print_line(f"\nscore: none ({one_line(why)})")
    else:
        by = evaluation.annotator or evaluation.source
        print_line(f"\nscore: {points(score)} of 100, {band(score)}, by {one_line(by)}")
        _print_fact("because", why_score(view, texts=True))
    if performance is not None and performance["composite"] is not None:
        parts = ", ".join(f"{name} {value}" for name, value in dimensions(performance))
        advice = f", {view.recommendation}" if view.recommendation else ""
        composite = f"{points(performance['composite'])} of 10{advice}"
        _print_fact("composite", f"{composite}: {parts}")
    _print_judge(view)
    rows = [_card(scorecard) for scorecard in view.scorecards]
    if rows:
        columns = ("profile", "automatic #", "by people #", "best", "judge", "criteria")
        print_table("\nScorecards, 0-100", columns, rows, essential=4)
    for override in view.overrides[:_MAX_OVERRIDES]:
        said = (
            f"{points(override['override_100'])} by {override['annotator']} ({override['state']})"
        )
        _print_fact("override", f"{said}: {override['reason'] or 'no reason'}")


def _print_judge(view: SessionView) -> None:
    found, state = _badge(view), view.judge_state
    by = "" if found.model is None else f" by {found.model}"
    flags = f", flagged: {', '.join(found.flags)}" if found.flags else ""
    why = (
        f" ({title_of(state.state)}: {state.reason})"
        if state is not None and found.total is None
        else ""
    )
    _print_fact("judge", f"{shown_badge(found.text)}{by}{flags}{why}")
    shown = shown_scoring(view.judge_scores[::-1], view.session["content_hash"])
    if shown is not None and shown.score_analysis:
        text = " ".join(shown.score_analysis.split())
        cut = text[:_ANALYSIS_CHARACTERS] + ("…" if len(text) > _ANALYSIS_CHARACTERS else "")
        print_line(fenced(cut))


def _badge(view: SessionView) -> Badge:
    shown = shown_scoring(view.judge_scores[::-1], view.session["content_hash"])
    return Badge() if shown is None else badge(shown)


def _card(card: Mapping[str, Any]) -> tuple[object, ...]:
    criteria = ", ".join(
        f"{score['key']} {points(score['value'])}" for score in card["criteria_scores"] or ()
    )
    low, high = card["scale_min"], card["scale_max"]
    automatic, human = 100 * (card["overall_score"] - low) / (high - low), card["human_override"]
    return (
        f"{card['profile_id']} v{card['profile_version']}",
        points(automatic),
        None if human is None or human["stale"] else points(card["effective_100"]),
        "yes" if card["is_best_match"] else "no",
        card["judge_model"],
        criteria,
    )


def _print_calls(report: Mapping[str, Any] | None) -> None:
    if report is None:
        return
    score = report["effectiveness_score"]
    of_calls = f"{report['lost_calls']:,g} of {report['total_calls']:,} calls lost"
    effectiveness = "unknown" if score is None else f"{points(score)} of 100"
    print_line(f"\ntool effectiveness: {effectiveness}, {of_calls} (tools SESSION lists them)")
