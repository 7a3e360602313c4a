"""Reviews: what waits for a person, and the blind review of the audit sample.

Every step is a form. Nothing of an automatic score is on a page before its reviewer has answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.scorecards.audit_review import (
    NO_REASON,
    AuditReview,
    GivenScore,
    current_card,
    review_criteria,
    review_facts,
    session_transcript,
)
from evaluation_pipelines.scorecards.blind_reviews import draw_samples, gone, undrawn_dates
from evaluation_pipelines.scorecards.domain.overrides import outdated, with_states
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.overrides import OverrideError, plain_number
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.service.errors import ServiceError, not_found
from evaluation_pipelines.service.pages.domain.session_lines import choices_of
from evaluation_pipelines.service.pages.rendering import (
    Fields,
    Visit,
    Visitor,
    asked_order,
    asked_sessions,
    download,
    visit_with,
)
from evaluation_pipelines.service.routes.common import SessionPath, Text, row_number
from evaluation_pipelines.views.filters import LIST_COLUMNS, ListQuery
from evaluation_pipelines.views.listing import in_order

ROUTER = APIRouter(include_in_schema=False)

_Reviewer = Annotated[Visit, visit_with(Role.REVIEWER)]

_MOST_LISTED = 50
_TOKENS, _MOST_TOKENS = 8_000, 400_000
"""Estimated tokens of a transcript on the page, and of one that is asked for as a whole."""


@dataclass(frozen=True, slots=True)
class _Desk:
    """A visitor who reviews under a name; the name is empty until it is given."""

    visit: Visit
    name: str

    @property
    def review(self) -> AuditReview:
        """The round of the reviewer; raises OverrideError if the name is empty or too long."""
        visit = self.visit
        return AuditReview(visit.stores, self.name, visit.organization, visit.caller.name)

    @property
    def asks_name(self) -> bool:
        """True if reviewers say who they are; otherwise their key does."""
        return self.visit.frame.is_open

    def url(self, key: SessionKey | None = None, **query: str | int | None) -> str:
        """Return the URL of the queue, or of one session in it."""
        path, owner = "/reviews", None
        if key is not None:
            path = f"{path}/{quote(key[1], safe='')}"
            owner = key[0] if self.visit.caller.organization is None else None
        name = self.name if self.asks_name else None
        return self.visit.frame.url(path, of=owner, reviewer=name or None, **query)


def review_url(visit: Visit, key: SessionKey) -> str:
    """Return the URL of the review of a session."""
    return _desk(visit, {}).url(key)


def _desk(visit: Visit, fields: Mapping[str, str]) -> _Desk:
    is_open = visit.frame.is_open
    return _Desk(visit, fields.get("reviewer", "").strip() if is_open else visit.caller.name)


@ROUTER.get("/reviews")
def reviews(visit: Visitor) -> HTMLResponse:
    """Show what waits for a person, and how far the reviewer is."""
    return _queue(_desk(visit, visit.request.query_params))


@ROUTER.get("/reviews.csv")
def reviews_csv(visit: _Reviewer) -> Response:
    """Return the sessions that wait for a blind review as CSV."""
    rows = waiting_rows(visit.to_review)
    found = in_asked_order(visit, rows, choices(visit, rows))
    return download("reviews.csv", csv_text(found.rows))


@ROUTER.get("/stale-scores.csv")
def stale_scores_csv(visit: Visitor) -> Response:
    """Return the scores by people that no longer count as CSV."""
    rows = stale_rows(visit, visit.to_review)
    found = in_asked_order(visit, rows, choices(visit, rows), STALE_SORT)
    return download("stale-scores.csv", csv_text(found.rows.select(STALE)))


@ROUTER.post("/reviews")
def take_step(visit: _Reviewer, fields: Fields) -> Response:
    """Begin or continue a round, or take an answer back."""
    desk, now = _desk(visit, fields), visit.installation.clock()
    try:
        review = desk.review
    except OverrideError as error:
        return _queue(_Desk(visit, ""), 400, fault=f"{error}")
    if fields.get("do") == "undo":
        number = row_number(fields.get("answer", ""))
        undone = None if number is None else review.undo(now, number)
        return RedirectResponse(desk.url(undone=None if undone is None else 1), 303)
    draw_samples(visit.stores, undrawn_dates(visit.stores, now.date()), now)
    review.resume(now)
    passed = review.skipped() | review.not_blind()
    if fields.get("do") == "begin" or passed >= {sample.key for sample in review.waiting()}:
        review.begin(now)
    return _to_next(desk, review)


@ROUTER.get("/reviews/{session:path}")
def review_session(
    visit: _Reviewer,
    session: SessionPath,
    of: Text = None,
    whole: Text = None,
) -> HTMLResponse:
    """Show a session to review; once it is answered, its automatic score and the reasons."""
    desk, key = _desk(visit, visit.request.query_params), _key(visit, session, of)
    if not desk.name:
        return visit.page("review_name", desk=desk, key=key, url=desk.url(key), progress=None)
    return _page(desk, key, whole=whole is not None)


@ROUTER.post("/reviews/{session:path}")
def answer_session(
    visit: _Reviewer, session: SessionPath, fields: Fields, of: Text = None
) -> Response:
    """Store an answer or its reason, or skip a session; then lead on."""
    desk, key, now = _desk(visit, fields), _key(visit, session, of), visit.installation.clock()
    review = desk.review
    given = review.newest_given(key)
    sample = review.sample(key)
    match fields.get("do"):
        case "skip" if sample is not None:
            review.resume(now)
            review.skip(sample, now)
        case "explain" if given is not None:
            review.resume(now)
            try:
                target = review.target(given.new)
                reason, criterion = fields.get("reason", ""), fields.get("criterion") or None
                review.explain(given, target, reason, criterion, now)
            except OverrideError as error:
                return _page(desk, key, 400, fault=f"{error}", sent=fields)
        case "answer" if sample is not None:
            review.resume(now)
            return _answer(desk, review, sample, fields)
        case _:
            raise not_found("The review")
    return _to_next(desk, review)


def _answer(
    desk: _Desk, review: AuditReview, sample: AuditSample, fields: dict[str, str]
) -> Response:
    key, text = sample.key, fields.get("score", "").strip()
    is_answered = sample.override_id is not None and review.newest_given(key) is not None
    if key in review.not_blind() or is_answered:  # a form that was sent twice, or is an old one
        return RedirectResponse(desk.url(key), 303)
    try:
        score = plain_number(text)
        review.answer(review.target(sample), score, desk.visit.installation.clock())
    except OverrideError as error:
        return _page(desk, key, 400, fault=f"{error}", sent=fields)
    except ValueError:
        fault = f"{text} is not a plain decimal number" if text else "Type a score"
        return _page(desk, key, 400, fault=fault, sent=fields)
    return RedirectResponse(desk.url(key), 303)


def _to_next(desk: _Desk, review: AuditReview) -> Response:
    """Lead to the next session that was not skipped in this round, or to the queue."""
    now, passed = desk.visit.installation.clock(), set(review.skipped())
    passed |= gone(desk.visit.stores, review.waiting())
    sample = review.next_sample(passed, now)
    if sample is None:
        return RedirectResponse(desk.url(), 303)
    review.show(sample, now)
    return RedirectResponse(desk.url(sample.key), 303)


def _key(visit: Visit, session: str, organization: str | None) -> SessionKey:
    owner = visit.caller.organization or organization
    if owner is None or not visit.caller.sees(owner):
        raise not_found("The review")
    return owner, session


def _page(
    desk: _Desk,
    key: SessionKey,
    status: int = 200,
    *,
    whole: bool = False,
    fault: str | None = None,
    sent: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """Return the page of one session: blind as long as it waits for this reviewer's answer."""
    try:
        review = desk.review
    except OverrideError as error:
        raise ServiceError(400, "invalid_request", f"{error}.") from error
    sample, given = review.sample(key), review.newest_given(key)
    content = {
        "desk": desk,
        "key": key,
        "url": desk.url(key),
        "progress": review.progress(),
        "fault": fault,
        "sent": sent or {},
    }
    if sample is None:
        raise not_found("The review")
    if sample.override_id is None:
        if key in review.not_blind():
            return desk.visit.page("review_over", status, **content, is_seen=True)
        return desk.visit.page(
            "review", status, **content, **_work(desk, review, sample, whole=whole)
        )
    if given is None:
        return desk.visit.page("review_over", status, **content, is_seen=False)
    return desk.visit.page("review_answered", status, **content, **_outcome(desk, review, given))


def _work(desk: _Desk, review: AuditReview, sample: AuditSample, *, whole: bool) -> dict[str, Any]:
    """Return what there is to review: neither a score nor a model."""
    stores, target = desk.visit.stores, review.target(sample)
    tokens, now = _MOST_TOKENS if whole else _TOKENS, desk.visit.installation.clock()
    transcript = session_transcript(stores, target.session, tokens, now)
    return {
        "facts": review_facts(target),
        "criteria": review_criteria(target.profile, stores.settings),
        "scale": target.profile.scale,
        "transcript": transcript,
        "redacted": sum(transcript.redactions.values()) if transcript else 0,
        "whole_url": None if whole else desk.url(sample.key, whole=1),
    }


def _outcome(desk: _Desk, review: AuditReview, given: GivenScore) -> dict[str, Any]:
    """Return what the reviewer may see after the answer."""
    target, new = review.target(given.new), given.new
    return {
        "answered": given,
        "card": current_card(desk.visit.stores, target),
        "session": target.session,
        "criterion_ids": [] if new.is_confirmation else target.profile.criterion_ids,
        "reason": "" if new.reason == NO_REASON else new.reason,
        "criterion": new.criterion_id,
    }


def _queue(desk: _Desk, status: int = 200, *, fault: str | None = None) -> HTMLResponse:
    """Return the page of all that waits; scores are not on it."""
    visit = desk.visit
    waiting = visit.to_review
    review = None
    if visit.sees_texts and desk.name:
        try:
            review = desk.review
        except OverrideError as error:
            status, fault = 400, f"{error}"
    rows, old = waiting_rows(waiting), stale_rows(visit, waiting)
    chosen = choices(visit, rows, old)
    listed = in_asked_order(visit, rows, chosen)
    stale = in_asked_order(visit, old, chosen, STALE_SORT)
    return visit.page(
        "reviews",
        status,
        desk=desk,
        choices=chosen,
        listed=listed,
        waiting=[_listed(desk, row) for row in listed.rows.head(_MOST_LISTED).to_dicts()],
        number=len(waiting),
        is_named=review is not None,
        progress=review.progress() if review else None,
        last=review.newest_given() if review else None,
        not_blind=review.not_blind() if review else frozenset(),
        gone={sample.key for sample in waiting} - visit.kept.reviews.waiting(),
        is_ordered="sort" in visit.request.query_params,
        is_undone=visit.request.query_params.get("undone") == "1",
        stale=stale,
        stale_rows=stale.rows.head(_MOST_LISTED).to_dicts(),
        stale_sort=STALE_SORT,
        csv_urls=[_csv_url(visit, name) for name in ("reviews", "stale-scores")],
        has_organizations=bool(visit.frame.organizations) and visit.organization is None,
        sample_size=visit.installation.settings.audit_sample_size,
        fault=fault,
    )


def _listed(desk: _Desk, row: Mapping[str, Any]) -> dict[str, Any]:
    key = (row["organization_id"], row["session_key"])
    return {**row, "key": key, "url": desk.url(key)}


def _csv_url(visit: Visit, name: str) -> str:
    """Return the URL of a list as CSV, filtered and sorted as on the page; it names no person."""
    return visit.frame.here(reviewer=None, undone=None).replace("/reviews", f"/{name}.csv", 1)


WAITING = {
    "session_date": pl.Date,
    "organization_id": pl.String,
    "session_key": pl.String,
    "profile_id": pl.String,
    "classification_label": pl.String,
}
"""Columns of a list of what waits."""


STALE = (
    *("session_date", "organization_id", "session_key", "profile_id", "classification_label"),
    *("override_id", "override_score", "annotator", "made_at"),
)
"""Columns of a downloaded list of scores that no longer count."""

_SESSION = {
    "session": "session_key",
    "organization": "organization_id",
    "profile": "profile_id",
    "label": "classification_label",
    "date": "session_date",
}
_STALE = {**_SESSION, "by": "annotator", "when": "made_at"}
STALE_SORT = "stale-sort"
"""Field of the URL with the order of the second list; that of the first has the usual name."""

_ORDERS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "sort": (_SESSION, "date"),
    STALE_SORT: (_STALE, "when"),
}
"""Field of the URL -> columns of the orders by their names, and the usual order."""

_FILTERS = ("profile", "label")


@dataclass(frozen=True, slots=True)
class ReviewList:
    """A list that was asked for: its rows, the number of all, and its order."""

    rows: pl.DataFrame
    total: int
    order: str


@dataclass(frozen=True, slots=True)
class Choices:
    """Values to filter by, and what is asked for."""

    query: ListQuery
    offered: Mapping[str, Sequence[str]]


def choices(visit: Visit, *lists: pl.DataFrame) -> Choices:
    """Return what the fields of the URL ask for, and the values of all lists.

    Raises:
        ServiceError: 400, a field cannot have its value.
    """
    asked = asked_sessions(visit, *_ORDERS["sort"])
    columns = [LIST_COLUMNS[name] for name in _FILTERS]
    values = choices_of(pl.concat(frame.select(columns) for frame in lists), _FILTERS)
    query = ListQuery(profile=asked.profile, label=asked.label, dates=asked.dates)
    return Choices(query, values)


def waiting_rows(samples: Sequence[AuditSample]) -> pl.DataFrame:
    """Return WAITING of samples without an answer."""
    rows = [tuple(getattr(sample, name) for name in WAITING) for sample in samples]
    return pl.DataFrame(rows, schema=WAITING, orient="row")


def stale_rows(visit: Visit, waiting: Sequence[AuditSample]) -> pl.DataFrame:
    """Return overrides of sessions that have continued since, without a newer one.

    Sessions of the audit sample are left out: their page would show the score.
    """
    rows = visit.rows()
    current = rows.select(*SESSION_KEY, "content_hash", best_profile_id="profile_id")
    made = OverrideStore(visit.stores.ledger).of_dates()
    made = made.join(current, on=SESSION_KEY, how="semi")
    is_hidden = [sample.key for sample in waiting]
    hidden = pl.DataFrame(is_hidden, schema=list(SESSION_KEY), orient="row").cast(pl.String)
    labels = rows.select(*SESSION_KEY, "classification_label")
    return (
        outdated(with_states(made, current))
        .join(hidden, on=SESSION_KEY, how="anti", maintain_order="left")
        .join(labels, on=SESSION_KEY, how="left", maintain_order="left")
    )


def in_asked_order(
    visit: Visit, rows: pl.DataFrame, chosen: Choices, field: str = "sort"
) -> ReviewList:
    """Return a list as it is asked for; raises ServiceError 400, there is no such order."""
    columns, usual = _ORDERS[field]
    order = asked_order(visit, columns, usual, field)
    return ReviewList(in_order(chosen.query.chosen(rows), order, columns), rows.height, order)
