"""Routes of figures: scorecards, profiles, comparison, tool reports, books, alerts."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import date
from typing import Annotated, Any, Literal

import polars as pl
from fastapi import APIRouter, Depends, Path, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, create_model

from evaluation_pipelines.attention.alert_store import AlertStore, visible_alerts
from evaluation_pipelines.attention.domain.messages import names_person
from evaluation_pipelines.comparison.compare_models import tables_of
from evaluation_pipelines.comparison.domain.compare import for_reviewer
from evaluation_pipelines.comparison.domain.groups import BY_MODEL, WHAT
from evaluation_pipelines.evaluations.outbox import Outbox, events_of, note_changes
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.books import settled_books
from evaluation_pipelines.schemas import (
    ALERTS,
    EVALUATION_BOOKS,
    EVALUATION_EVENTS,
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    SCORECARDS,
    TOOL_REPORTS,
)
from evaluation_pipelines.scorecards.domain.withheld import (
    IS_SCORED,
    WAITS,
    withhold,
)
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, dates_of, query_cards
from evaluation_pipelines.service.caller import (
    check_all_organizations,
    find_window,
    organization_of,
    sees_people,
    sees_texts,
)
from evaluation_pipelines.service.errors import ServiceError, not_found
from evaluation_pipelines.service.kept import BUILD_PATIENCE_S, Asked, Kept, kept_of
from evaluation_pipelines.service.routes.common import (
    CARD_TEXTS,
    TOOL_TEXTS,
    Chosen,
    Here,
    Organization,
    Owner,
    Paged,
    Reader,
    RequestDate,
    Sender,
    SessionPath,
    Since,
    Text,
    Until,
    Waiting,
    answers,
    as_json,
    errors,
    json_row,
    json_rows,
    json_value,
    row_model,
    without,
)
from evaluation_pipelines.sessions.find import reports_of
from evaluation_pipelines.storage.lock import LockTimeoutError
from evaluation_pipelines.telemetry.domain.outcome_lines import outcome_of
from evaluation_pipelines.telemetry.forgotten_events import is_forgotten_outcome
from evaluation_pipelines.telemetry.ledger.forgotten_store import read_forgotten
from evaluation_pipelines.telemetry.ledger.late_outcomes import OutcomeStore
from evaluation_pipelines.views.listing import ALERT_LISTING, BOOK_LISTING, CARD_LISTING

ROUTER = APIRouter(prefix="/api/v1", tags=["evaluation"])

_NOTE_SECONDS = 2.0
"""How long a request may look for changes. The next one goes on."""

_LARGEST_POSITION = 2**63 - 1


ToolReport = row_model(TOOL_REPORTS)


_Waits: dict[str, Any] = {WAITS: (bool, ...)}
ListedScorecard = create_model("ListedScorecard", __base__=row_model(SCORECARDS), **_Waits)
BookedSession = create_model("BookedSession", __base__=row_model(EVALUATION_BOOKS), **_Waits)


class ScorecardPage(BaseModel):
    """Current scorecards, latest sessions first."""

    scorecards: list[ListedScorecard]
    next_cursor: str | None


class ProfileList(BaseModel):
    """The newest version of every judge profile, with the fields of its file."""

    profiles: list[dict[str, Any]]


class ComparisonOut(BaseModel):
    """The tables of a comparison."""

    model_comparison: list[row_model(MODEL_COMPARISON)]  # type: ignore[valid-type]
    model_comparison_pairs: list[row_model(MODEL_COMPARISON_PAIRS)]  # type: ignore[valid-type]
    model_regressions: list[row_model(MODEL_REGRESSIONS)]  # type: ignore[valid-type]


class BooksPage(BaseModel):
    """The state of every session of a day. ``is_balanced`` is for keys of all organizations.

    ``scored`` counts the sessions with an effective score, the state ``scored`` those with a card
    of their profile.
    """

    session_date: date
    is_balanced: bool | None
    scored: int
    states: dict[str, int]
    sessions: list[BookedSession]
    next_cursor: str | None


class EvaluationEvents(BaseModel):
    """Evaluations in the order of their changes. Ask again with ``next_after``."""

    events: list[row_model(EVALUATION_EVENTS)]  # type: ignore[valid-type]
    next_after: int


class AlertPage(BaseModel):
    """Alerts, latest first."""

    alerts: list[row_model(ALERTS)]  # type: ignore[valid-type]
    next_cursor: str | None


@ROUTER.get("/scorecards", responses=answers(ScorecardPage, 404))
def scorecards(
    here: Here,
    caller: Reader,
    page: Paged,
    chosen: Chosen,
    waiting: Waiting,
    profile_id: Annotated[
        str | None, Query(max_length=64, description="A profile, or best for the best matches.")
    ] = None,
) -> JSONResponse:
    """List current scorecards with the latest overrides. Readers get null for text."""
    query = CardQuery(
        organization=chosen.organization,
        agent=chosen.agent,
        model=chosen.model,
        label=chosen.label,
        since=chosen.since,
        until=chosen.until,
        profile=profile_id,
    )

    def read(days: Sequence[date]) -> pl.DataFrame:
        return withhold(query_cards(here.stores, replace(query, days=days)), waiting)

    dates = dates_of(here.stores, query)
    rows, cursor = CARD_LISTING.dated_page(dates, read, page.cursor, page.limit)
    shown = rows.to_dicts()
    if not sees_texts(caller):
        shown = [without(row, CARD_TEXTS) for row in shown]
    return as_json({"scorecards": [json_row(row) for row in shown], "next_cursor": cursor})


@ROUTER.get("/profiles", responses=answers(ProfileList))
def profiles(here: Here, _caller: Reader) -> JSONResponse:
    """List judge profiles; they are the same for all organizations."""
    registry = ProfileStore(here.stores.ledger).registry()
    rows = [
        {
            **registered.profile.model_dump(mode="json"),
            "origin": registered.origin,
            "registered_at": json_value(registered.registered_at),
        }
        for registered in registry.newest()
    ]
    return as_json({"profiles": rows})


def _asked(
    owner: Owner,
    since: Since = None,
    until: Until = None,
    classification_label: Text = None,
    by: Annotated[str, Query(max_length=100, description=f"{WHAT}.")] = BY_MODEL.by,
) -> Asked:
    return Asked(owner, classification_label, (since, until), by)


@ROUTER.get("/comparison", responses=answers(ComparisonOut, 404))
async def comparison(
    here: Here,
    kept: Annotated[Kept, Depends(kept_of)],
    asked: Annotated[Asked, Depends(_asked)],
    waiting: Waiting,
) -> JSONResponse:
    """Compare models, or the groups in ``by``, by quality and cost. Default: the last 28 days."""
    found = await kept.comparisons.answer(asked, here.clock())

    def answered() -> JSONResponse:
        shown = tables_of(for_reviewer(found, waiting))
        return as_json({table.name: json_rows(rows) for table, rows in shown})

    return await run_in_threadpool(answered)


@ROUTER.get("/tools/{session:path}", responses=answers(ToolReport, 404))
def tools(
    here: Here,
    caller: Reader,
    waiting: Waiting,
    session: SessionPath,
    organization: Organization = None,
) -> JSONResponse:
    """Return the tool report of a session; 404 if it made no tool call."""
    window = find_window(here.stores, caller, session, organization)
    rows = withhold(reports_of(here.stores, window), waiting).drop(WAITS)
    if rows.is_empty():
        raise not_found("A tool report of the session", "It made no tool call.")
    row = rows.row(0, named=True)
    return as_json(json_row(row if sees_texts(caller) else without(row, TOOL_TEXTS)))


@ROUTER.get("/books/{session_date}", responses=answers(BooksPage, 404))
def books(
    here: Here,
    kept: Annotated[Kept, Depends(kept_of)],
    owner: Owner,
    page: Paged,
    waiting: Waiting,
    session_date: Annotated[RequestDate, Path(description="A UTC day.")],
    state: Annotated[str | None, Query(max_length=40)] = None,
) -> JSONResponse:
    """Return the state of every session of a day; 503 with ``Retry-After`` while it is built."""
    now, read = here.clock(), kept.compared_days.read
    found = settled_books(here.stores, session_date, now, BUILD_PATIENCE_S, read)
    found = found.seen(waiting, owner)
    chosen = found.sessions if state is None else found.sessions.filter(state=state)
    ordered, order = BOOK_LISTING.newest_first(chosen), BOOK_LISTING.usual_order
    rows, cursor = BOOK_LISTING.page(ordered, order, page.cursor, page.limit)
    scored = kept.sessions.rows().filter(IS_SCORED, session_date=session_date)
    return as_json(
        {
            "session_date": session_date.isoformat(),
            "is_balanced": found.is_balanced if owner is None else None,
            "scored": sum(
                owner in {None, organization} for organization in scored["organization_id"]
            ),
            "states": {state: number for state, number in found.states.items() if number},
            "sessions": json_rows(rows),
            "next_cursor": cursor,
        }
    )


@ROUTER.get("/evaluation-events", responses=answers(EvaluationEvents, 404))
def evaluation_events(
    here: Here,
    caller: Reader,
    owner: Owner,
    waiting: Waiting,
    after: Annotated[int, Query(ge=0, le=_LARGEST_POSITION, description="A next_after.")] = 0,
    limit: Annotated[int, Query(ge=1, le=200, description="Sessions of a page.")] = 50,
) -> JSONResponse:
    """Return new and changed evaluations. Readers get null for explanations.

    Sessions that the caller may review blind are left out.
    """
    with suppress(LockTimeoutError):  # another request or process notes the changes
        note_changes(here.stores, here.clock(), _NOTE_SECONDS)
    changes = Outbox(here.stores.ledger).after(after, limit, owner)
    found = events_of(here.stores, changes, after, waiting, explained=sees_texts(caller))
    next_after = changes[-1].position if changes else after
    return as_json({"events": json_rows(found), "next_after": next_after})


@ROUTER.get("/alerts", responses=answers(AlertPage))
def alerts(
    here: Here,
    caller: Reader,
    page: Paged,
    waiting: Waiting,
) -> JSONResponse:
    """List alerts, latest first. They are about all organizations, as the key must be."""
    check_all_organizations(caller)
    is_all = sees_people(caller, here.settings.people_view)
    every = [
        row
        for row in AlertStore(here.stores.ledger).all()
        if is_all or not names_person(row.alert.kind, row.alert.cause)
    ]
    visible = visible_alerts(here.stores.ledger, [row.alert for row in every], waiting, every)
    raised = [
        asdict(row) | asdict(seen)
        for row, seen in zip(every, visible, strict=True)
        if seen is not None
    ]
    rows = ALERT_LISTING.newest_first(pl.DataFrame(raised, ALERTS.schema))
    shown, cursor = ALERT_LISTING.page(rows, ALERT_LISTING.usual_order, page.cursor, page.limit)
    return as_json({"alerts": json_rows(shown), "next_cursor": cursor})


class NewOutcome(BaseModel):
    """What happened after a session. A later one of the same kind and reference corrects it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    session_id: str
    kind: str = Field(description="merged, reverted, task_closed ... or your own: x_ and a name")
    value: bool | float | Literal["passed", "failed", "none"] = True
    at: AwareDatetime | None = Field(None, description="when it happened")
    reference: str | None = Field(None, description="commit, pull request, ticket ...")
    session_key: str | None = Field(None, description="one window, else the whole session")
    organization: str | None = None


class StoredOutcome(BaseModel):
    """The stored outcome, and whether telemetry of its session has arrived."""

    organization_id: str
    session_id: str
    kind: str
    value: float | None
    reference: str
    is_known: bool


@ROUTER.post("/outcomes", responses=errors(404))
def outcomes(here: Here, caller: Sender, sent: NewOutcome) -> StoredOutcome:
    """Store an outcome of a session. The same one again changes nothing."""
    organization = organization_of(caller, sent.organization)
    given = sent.model_dump() | {"at": sent.at and sent.at.isoformat()}
    outcome = outcome_of(given, here.clock(), organization)
    if isinstance(outcome, str):
        raise ServiceError(400, "invalid_outcome", outcome, "See /openapi.json.")
    forgotten = read_forgotten(here.stores.ledger, here.stores.settings.forgotten_key_path)
    store = OutcomeStore(here.stores.ledger)
    if not is_forgotten_outcome(outcome, forgotten):
        store.add([outcome])
    return StoredOutcome.model_validate(
        {name: getattr(outcome, name) for name in StoredOutcome.model_fields if name != "is_known"}
        | {"is_known": store.knows(outcome.organization_id, outcome.session_id)}
    )
