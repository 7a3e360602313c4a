"""Pages of one session: Conversation, Technical and Score; score it, correct its score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.judging.domain.badge import Badge, badge, band, shown_scoring
from evaluation_pipelines.judging.domain.due import DEFAULT_PROFILE
from evaluation_pipelines.judging.domain.prompt.rubric import RubricCriterion
from evaluation_pipelines.judging.plans import current_rubrics, judged_criteria
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.judging.score_requests import waiting
from evaluation_pipelines.profiles.domain.heuristics import HEURISTICS
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.domain.session_facts import (
    Scoring,
    dimensions,
    lost_calls,
    outcome_facts,
    scoring_of,
    session_facts,
    summary_facts,
)
from evaluation_pipelines.reporting.session_view import (
    Row,
    SessionView,
    Timeline,
    counting_card,
    session_timeline,
    session_view,
    why_score,
)
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.scorecards.overrides import HumanVerdict, OverrideError, plain_number
from evaluation_pipelines.scorecards.store import OverrideStore, note_step
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.live import Live, live_of
from evaluation_pipelines.service.pages.domain.session_lines import badge_class_of
from evaluation_pipelines.service.pages.rendering import Fields, Visit, Visitor, visit_with
from evaluation_pipelines.service.pages.reviews import review_url
from evaluation_pipelines.service.routes.common import SessionPath, record_override
from evaluation_pipelines.service.routes.scoring import requested
from evaluation_pipelines.sessions.domain.ended import open_sentence
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.storage.stores import Stores

ROUTER = APIRouter(include_in_schema=False)

_Reviewer = Annotated[Visit, visit_with(Role.REVIEWER)]
_Operator = Annotated[Visit, visit_with(Role.OPERATOR)]
_Start = Annotated[int, Query(alias="from", ge=0, le=10_000_000)]

_STEPS = 200
"""Steps on one page."""

_CONVERSATION = ("prompt", "reply", "failure")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A session as a visitor sees it, and the newest event before it was read."""

    visit: Visit
    view: SessionView
    newest_event: int

    @property
    def organization(self) -> str:
        return str(self.view.session["organization_id"])

    @property
    def session_key(self) -> str:
        return str(self.view.session["session_key"])

    @property
    def badge(self) -> Badge:
        """The badge of the judge, as in the list."""
        shown = shown_scoring(self.view.judge_scores[::-1], self.view.session["content_hash"])
        return Badge() if shown is None else badge(shown)

    @property
    def badge_class(self) -> str:
        """The class of the badge in the style sheet."""
        return badge_class_of(self.badge)

    @property
    def from_next_build(self) -> str | None:
        """What counts from the next build only; ``None`` if there is nothing of that kind."""
        evaluation, total = self.view.evaluation, self.badge.total
        if evaluation is None:
            return None
        if evaluation.score_100 != evaluation.built_100:
            return "In comparisons and reports after the next build."
        is_judged = self.view.profile is None or self.view.profile.method != "heuristic"
        if is_judged and total is not None and total != evaluation.built_judge_total:
            return "The judge score is newer and counts after the next build."
        return None

    def url(self, view: str = "") -> str:
        """Return the URL of one of the views."""
        return self.visit.frame.session_url(self.organization, self.session_key, view)

    def page(self, name: str, status: int = 200, **content: Any) -> HTMLResponse:
        """Return one of the views, or one that shows nothing of what the visitor may review."""
        if self.view.key in self.visit.waiting:
            url = review_url(self.visit, self.view.key)
            return self.visit.page("session_blind", status, seen=self, review_url=url)
        evaluation = self.view.evaluation
        score = None if evaluation is None else evaluation.score_100
        return self.visit.page(
            f"session_{name}",
            status,
            name=name,
            seen=self,
            session=self.view.session,
            facts=[
                *session_facts(self.view.session, self._hidden),
                *outcome_facts(self.view.outcomes),
            ],
            brief=summary_facts(self.view.session),
            run_url=self.visit.frame.run_url(AGENT_SESSIONS, self.view.session["session_date"]),
            evaluation=evaluation,
            provisional=evaluation is not None and evaluation.provisional,
            why=why_score(self.view, texts=self.visit.sees_texts),
            until=None if self.view.has_ended else self._until(),
            effective_band="unscored" if score is None else band(score),
            **content,
        )

    @property
    def _hidden(self) -> frozenset[str]:
        is_own = self.visit.is_own(self.view.session["person_id"])
        return self.visit.hidden - ({"person_id"} if is_own else set())

    def _until(self) -> str:
        minutes = self.visit.installation.settings.session_idle_minutes
        return open_sentence(self.view.session["ended_at"], minutes)

    def timeline(self, kinds: tuple[str, ...] | None, places: slice) -> Timeline | None:
        """Return some of the steps of some kinds."""
        now, read = self.visit.installation.clock(), self.visit.kept.events.read
        return session_timeline(self.visit.stores, self.view.session, now, kinds, places, read)


def _visible_session(visit: Visit, session: str) -> _Seen:
    """Return the session with a name that the visitor sees; raises as ``session_view``."""
    query = SessionName(session, visit.organization)
    newest_event = ServiceEvents(visit.stores.ledger).newest_id()
    # No page shows the percentile.
    view = session_view(visit.stores, query, visit.installation.clock(), ranked=False)
    return _Seen(visit, view, newest_event)


@ROUTER.get("/sessions/{session:path}/technical")
def technical(visit: Visitor, session: SessionPath, start: _Start = 0) -> HTMLResponse:
    """Show every step with what went in and out, the dimensions, and where calls were lost."""
    seen = _visible_session(visit, session)
    return seen.page(
        "technical",
        timeline=seen.timeline(None, slice(start, start + _STEPS)),
        start=start,
        performance=seen.view.performance,
        dimensions=dimensions(seen.view.performance),
        report=seen.view.tool_report,
        lost=lost_calls(seen.view.tool_report, visit.shown_texts),
    )


@ROUTER.get("/sessions/{session:path}/score")
def score_page(visit: Visitor, session: SessionPath) -> HTMLResponse:
    """Show the score with its reasons, scorecards, overrides and earlier scores."""
    return _score_page(_visible_session(visit, session))


@ROUTER.get("/sessions/{session:path}")
def conversation(visit: Visitor, session: SessionPath, start: _Start = 0) -> HTMLResponse:
    """Show what was asked and answered."""
    seen = _visible_session(visit, session)
    timeline = seen.timeline(_CONVERSATION, slice(start, start + _STEPS))
    return seen.page("conversation", timeline=timeline, start=start)


@ROUTER.post("/sessions/{session:path}/score")
def score(
    visit: _Operator,
    session: SessionPath,
    fields: Fields,
    live: Annotated[Live, Depends(live_of)],
) -> Response:
    """Request a judgment; an error is shown on the same page."""
    seen = _visible_session(visit, session)
    query = SessionName(seen.session_key, seen.organization)
    try:
        requested(visit.installation, visit.caller, query, force="force" in fields)
    except ServiceError as error:
        return _score_page(seen, error.status_code, fault=error.detail)
    live.notify()
    return RedirectResponse(seen.url("score"), 303)


@ROUTER.post("/sessions/{session:path}/look")
def look(visit: _Reviewer, session: SessionPath, _fields: Fields) -> Response:
    """Show a session that waits for a blind review, and leave that to others."""
    seen, name = _visible_session(visit, session), visit.caller.name
    if seen.view.key in visit.waiting:
        note_step(visit.stores.ledger, name, "look", visit.installation.clock(), seen.view.key)
    return RedirectResponse(seen.url("score"), 303)


@ROUTER.post("/sessions/{session:path}/override")
def override(visit: _Reviewer, session: SessionPath, fields: Fields) -> Response:
    """Record the score of a person, or that the automatic one is right, or undo one."""
    seen = _visible_session(visit, session)
    if (undone := fields.get("undo")) is not None:
        if undone in {row["override_id"] for row in seen.view.overrides}:
            store, now = OverrideStore(visit.stores.ledger), visit.installation.clock()
            store.undo(visit.caller.name, now, int(undone))
        return RedirectResponse(f"{seen.url('score')}#overrides", 303)
    try:
        verdict = _verdict(visit, fields)
        name = SessionName(seen.session_key, seen.organization, fields.get("profile") or None)
        record_override(visit.installation, visit.caller, name, verdict)
    except (OverrideError, ProfileError, ValueError) as error:
        return _score_page(seen, 400, override_fault=f"{error}", sent=fields)
    return RedirectResponse(f"{seen.url('score')}#overrides", 303)


def _verdict(visit: Visit, fields: dict[str, str]) -> HumanVerdict:
    given = None if "confirm" in fields else plain_number(fields.get("score", "").strip())
    return HumanVerdict(
        given,
        fields.get("annotator", ""),
        fields.get("reason", ""),
        fields.get("criterion") or None,
        recorded_by=visit.caller.name,
    )


def _score_page(
    seen: _Seen,
    status: int = 200,
    *,
    fault: str | None = None,
    override_fault: str | None = None,
    sent: dict[str, str] | None = None,
) -> HTMLResponse:
    visit, view = seen.visit, seen.view
    content = view.session["content_hash"]
    scores = view.judge_scores
    scorings = _scorings(visit, view, scores)
    shown = shown_scoring(scores[::-1], content)
    current = next(
        (scoring for scoring in scorings if shown and scoring.score.score_id == shown.score_id),
        None,
    )
    timeline = seen.timeline(("reply",), slice(-1, None)) if visit.sees_texts else None
    card = counting_card(view)
    return seen.page(
        "score",
        status,
        current=current,
        goes_on=None if shown is None else scoring_goes_on(visit.stores, shown),
        earlier=[scoring for scoring in scorings if scoring is not current],
        card=card,
        measures={name: heuristic.words for name, heuristic in HEURISTICS.items()},
        weights=_weights(view, card),
        cards=view.scorecards,
        overrides=view.overrides,
        target=view.target,
        state=view.judge_state,
        timeline=timeline,
        fault=fault,
        override_fault=override_fault,
        sent=sent or {},
        why_no_judge=visit.installation.settings.why_no_judge,
        may_score=visit.caller.role.includes(Role.OPERATOR),
    )


def _weights(view: SessionView, card: Row | None) -> Mapping[str, float]:
    """Return the weights of the criteria; none if the card is of another version of its profile."""
    if card is None or view.target is None:
        return {}
    profile = view.target.profile
    if profile.version != card["profile_version"]:
        return {}
    return {criterion.id: criterion.weight for criterion in (*profile.computed, *profile.judged)}


def _scorings(visit: Visit, view: SessionView, scores: Sequence[Score]) -> list[Scoring]:
    """Return the judgments of a session, each with the criteria of its version of the profile."""
    rubrics = load_rubrics(visit.installation.settings.judge_rubrics_dir)
    registry = ProfileStore(visit.stores.ledger).registry()
    label = view.session["classification_label"]
    prompt_hash = current_rubrics(visit.stores).prompt_hash(label)

    def criteria_of(score: Score) -> Sequence[RubricCriterion]:
        rubric = rubrics.get(score.rubric)
        if rubric is None:
            return ()
        if score.judge_profile_id == DEFAULT_PROFILE:  # its criteria are those of the rubric
            return rubric.criteria if rubric.prompt_hash == score.prompt_hash else ()
        try:
            found = registry.find(score.judge_profile_id, score.judge_profile_version)
        except ProfileError:  # scored by a profile that the ledger does not know
            return ()
        return judged_criteria(found.profile, rubric)

    return [
        scoring_of(
            score,
            view.session["content_hash"],
            prompt_hash,
            criteria_of(score),
            texts=visit.sees_texts,
        )
        for score in scores
    ]


def scoring_goes_on(stores: Stores, score: Score) -> str | None:
    """Return who finishes a judgment, and when; ``None`` if it has ended."""
    waits = waiting(stores, score)
    if waits is None:
        return None
    if waits.mode == "batch":
        by = waits.expected_by
        until = "" if by is None else f" (results by {by:%Y-%m-%d %H:%M} UTC)"
        return f"Waiting in a batch of the judge's provider{until}."
    if score.status == "in_progress":
        return "Being judged. This takes about a minute, and you can leave the page."
    if not score.is_request:
        return "A judge run left it unfinished. The next run finishes it, or request it now."
    if stores.settings.why_no_judge is not None:
        return "Requested. It waits until a judge is configured."
    if stores.settings.service_scoring == "dagster":
        return "Requested. It starts with the next Dagster judge run."
    if waits.deferred_because is not None:
        return f"{waits.next_try}. Postponed: {waits.deferred_because}"
    return "Requested. It starts within seconds, and you can leave the page."
