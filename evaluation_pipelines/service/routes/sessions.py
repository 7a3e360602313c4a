"""Routes of sessions: the list, one session, its transcript, and overrides of its score."""

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from evaluation_pipelines.people.identity_store import hidden_columns
from evaluation_pipelines.reporting.session_view import EffectiveScore, SessionView, session_view
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    EXTERNAL_EVALUATIONS,
    OVERRIDES,
    RANKED_PERFORMANCE,
    SCORECARDS,
    SESSIONS,
)
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.scorecards.audit_review import WHOLE_TRANSCRIPT, session_transcript
from evaluation_pipelines.scorecards.domain.withheld import WAITS, without_scores
from evaluation_pipelines.scorecards.overrides import (
    MAX_NAME_CHARACTERS,
    MAX_REASON_CHARACTERS,
    HumanVerdict,
)
from evaluation_pipelines.service.caller import (
    find_window,
    hidden_from,
    organization_of,
    sees_texts,
    waiting_for,
)
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.kept import Kept, kept_of
from evaluation_pipelines.service.routes.common import (
    CARD_TEXTS,
    Chosen,
    Here,
    Organization,
    Paged,
    Reader,
    Reviewer,
    SessionPath,
    Text,
    Waiting,
    answers,
    as_json,
    errors,
    json_row,
    json_rows,
    record_override,
    row_model,
    without,
)
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.views.filters import OUTCOMES, ListQuery
from evaluation_pipelines.views.listing import SESSION_LISTING
from evaluation_pipelines.views.sessions import with_details

ROUTER = APIRouter(prefix="/api/v1/sessions", tags=["sessions"])

_SCORE_FIELDS = (
    *("score_id", "status", "judge_profile_id", "judge_profile_version", "judge_model"),
    *("total_score", "score_triggered_by", "scored_at_us", "completed_at_us"),
)

# People are shown as the settings say, so their columns may be missing.
_OF_PEOPLE = hidden_columns("off")
_Session = row_model(AGENT_SESSIONS, _OF_PEOPLE)
ListedSession = row_model(SESSIONS, _OF_PEOPLE)


class SessionPage(BaseModel):
    """Sessions, latest first."""

    sessions: list[ListedSession]  # type: ignore[valid-type]
    next_cursor: str | None
    built_at: datetime | None


class SessionOut(BaseModel):
    """Everything about a session except text and tool calls.

    ``awaits_review``: everything about its scores is null until its blind review.
    """

    session: _Session  # type: ignore[valid-type]
    performance: row_model(RANKED_PERFORMANCE) | None  # type: ignore[valid-type]
    evaluation: EffectiveScore | None
    scorecards: list[row_model(SCORECARDS)]  # type: ignore[valid-type]
    overrides: list[row_model(OVERRIDES)]  # type: ignore[valid-type]
    scorings: list[dict[str, Any]]
    profile_id: str | None
    has_ended: bool
    excluded_by: str | None
    judge_state: dict[str, Any] | None
    external_evaluations: list[row_model(EXTERNAL_EVALUATIONS)]  # type: ignore[valid-type]
    awaits_review: bool
    built_at: datetime | None


class TranscriptOut(BaseModel):
    """A session as text, without secrets; ``tokens`` are estimated."""

    session_key: str
    organization_id: str
    content_level: str
    task: str
    text: str
    tokens: int
    injection_suspected: bool
    redactions: dict[str, int]


class NewOverrideIn(BaseModel):
    """A score by a person on the scale of the profile; null confirms the automatic one."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    score: float | None
    annotator: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_CHARACTERS)]
    profile_id: Annotated[str, Field(max_length=64)] | None = None
    criterion: Annotated[str, Field(max_length=64)] | None = None


class OverrideOut(BaseModel):
    """The stored override; automatic scores are null while a blind review is awaited."""

    override_id: int
    session_key: str
    organization_id: str
    profile_id: str
    profile_version: int
    override_score: float | None
    automatic_score: float | None
    is_confirmation: bool


def _listed(
    chosen: Chosen,
    status: Text = None,
    outcome: Annotated[str | None, Query(pattern=f"^({'|'.join(OUTCOMES)})$")] = None,
) -> ListQuery:
    return replace(chosen, status=status, outcome=outcome)


@ROUTER.get("", responses=answers(SessionPage, 404))
def sessions(
    here: Here,
    kept: Annotated[Kept, Depends(kept_of)],
    page: Paged,
    chosen: Annotated[ListQuery, Depends(_listed)],
    caller: Reader,
    waiting: Waiting,
) -> JSONResponse:
    """List sessions with their scores, latest first."""
    rows = chosen.chosen(kept.sessions.rows(waiting, here.clock()))
    shown, cursor = SESSION_LISTING.page(rows, chosen.sort, page.cursor, page.limit)
    hidden = hidden_from(caller, here.settings.people_view)
    names = [column for column in SESSIONS.schema if column not in hidden]
    ranked = kept.sessions.with_ranks(shown, here.clock())
    detailed = with_details(here.stores, ranked).select(names)
    return as_json({"sessions": json_rows(detailed), "next_cursor": cursor, **_built_at(here)})


@ROUTER.get("/{session:path}/transcript", responses=answers(TranscriptOut, 404, 409))
def transcript(
    here: Here, caller: Reviewer, session: SessionPath, organization: Organization = None
) -> JSONResponse:
    """Return a session as text: prompts, replies and calls, without secrets."""
    window = find_window(here.stores, caller, session, organization)
    text = session_transcript(here.stores, window, WHOLE_TRANSCRIPT, here.clock())
    if text is None:
        raise ServiceError(
            409, "session_continued", "The session has continued since it was built.", "Try again."
        )
    fields = {name: value for name, value in asdict(text).items() if name != "truncated"}
    names = ("session_key", "organization_id")
    return as_json({**{name: window[name] for name in names}, **fields})


@ROUTER.post("/{session:path}/override", responses=errors(404))
def override(
    request: Request,
    here: Here,
    caller: Reviewer,
    session: SessionPath,
    sent: NewOverrideIn,
    organization: Organization = None,
) -> OverrideOut:
    """Record a human score. It counts immediately."""
    verdict = HumanVerdict(
        sent.score, sent.annotator, sent.reason, sent.criterion, recorded_by=caller.name
    )
    name = SessionName(session, organization, sent.profile_id)
    recorded = record_override(here, caller, name, verdict)
    new = recorded.new
    fields = {name: getattr(new, name, None) for name in OverrideOut.model_fields}
    if (new.organization_id, new.session_key) in waiting_for(request, caller):
        fields |= {"override_score": sent.score, "automatic_score": None}
    return OverrideOut.model_validate({**fields, "override_id": recorded.override_id})


# The last one: it takes whatever follows.
@ROUTER.get("/{session:path}", responses=answers(SessionOut, 404))
def session(
    here: Here,
    caller: Reader,
    waiting: Waiting,
    session: SessionPath,
    organization: Organization = None,
) -> JSONResponse:
    """Return everything about a session except text and tool calls."""
    query = SessionName(session, organization_of(caller, organization))
    found = session_view(here.stores, query, here.clock())
    hidden = hidden_from(caller, here.settings.people_view)
    view = _view(found, hidden, texts=sees_texts(caller))
    awaits_review = found.key in waiting
    shown = without_scores(view) if awaits_review else view
    return as_json({**shown, WAITS: awaits_review, **_built_at(here)})


def _built_at(here: Installation) -> dict[str, Any]:
    """Return when sessions were built last; null before the first build."""
    return json_row({"built_at": Manifest(here.stores.ledger).newest(AGENT_SESSIONS.name)})


def _view(found: SessionView, hidden: frozenset[str], *, texts: bool) -> dict[str, Any]:
    shown = {name: value for name, value in found.session.items() if name not in hidden}
    cards = [row if texts else without(row, CARD_TEXTS) for row in found.scorecards]
    overrides = [row if texts else without(row, CARD_TEXTS) for row in found.overrides]
    external = [row if texts else without(row, {"explanation"}) for row in found.external]
    return {
        "session": json_row(shown),
        "performance": None if found.performance is None else json_row(found.performance),
        "evaluation": None if found.evaluation is None else json_row(asdict(found.evaluation)),
        "scorecards": [json_row(card) for card in cards],
        "overrides": [json_row(row) for row in overrides],
        "external_evaluations": [json_row(row) for row in external],
        "scorings": [_scoring(score) for score in found.judge_scores],
        "profile_id": None if found.profile is None else found.profile.id,
        "has_ended": found.has_ended,
        "excluded_by": found.excluded_by,
        "judge_state": None if found.judge_state is None else asdict(found.judge_state),
    }


def _scoring(score: Score) -> dict[str, Any]:
    return {name: getattr(score, name) for name in _SCORE_FIELDS}
