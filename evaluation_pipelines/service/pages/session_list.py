"""The list of sessions, as a page and as CSV."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import polars as pl
from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from evaluation_pipelines.attention.alert_store import risky_sessions
from evaluation_pipelines.attention.domain.session_facts import risks_of
from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.judging.domain.badge import badges_of
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, CONTENT_KEY, SESSION_KEY
from evaluation_pipelines.scorecards.domain.evaluation import is_risk
from evaluation_pipelines.scorecards.domain.overrides import newest_by_content
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.service.caller import find_window
from evaluation_pipelines.service.errors import ServiceError, not_found
from evaluation_pipelines.service.pages.asked import applied_filters
from evaluation_pipelines.service.pages.domain.session_lines import (
    CSV_COLUMNS,
    choices_of,
    counted_on,
    judge_state,
    score_class,
)
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, asked_sessions, download
from evaluation_pipelines.sessions.domain.find_session import whole_name
from evaluation_pipelines.sessions.domain.session_filter import short_name
from evaluation_pipelines.sessions.session_queries import WINDOW_COLUMNS, window_events
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.telemetry.event_texts import prompts_with
from evaluation_pipelines.views.filters import (
    CHOICES,
    JUDGED,
    LIST_COLUMNS,
    OUTCOMES,
    SCORES,
    ListQuery,
)
from evaluation_pipelines.views.listing import SESSION_LISTING
from evaluation_pipelines.views.sessions import with_details, with_live_judge

ROUTER = APIRouter(include_in_schema=False)

_LIMIT = 50
_SEARCH_SECONDS, _DOWNLOAD_SECONDS = 0.1, 60.0
_DETAILS = ("judge_total", "why")
"""Columns of a line that are looked up for the lines of a page."""


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of a page, the cursor of the next one, and whether more is unsearched."""

    rows: pl.DataFrame
    cursor: str | None
    is_search_cut: bool = False


@ROUTER.get("/sessions")
def sessions(visit: Visitor) -> Response:
    """Show a page of the sessions that are asked for, or go to the one whose id is given."""
    if session := visit.request.query_params.get("session", "").strip():
        whole = whole_name(visit.rows(), session)
        found = find_window(visit.stores, visit.caller, whole, visit.organization)
        place = visit.frame.session_url(found["organization_id"], found["session_key"])
        return RedirectResponse(place, status_code=303)
    query, words = _asked(visit)
    every = visit.rows()
    rows = _chosen(visit, every, query)
    page = _page(visit, rows, query, words)
    who = next((name for name in ("person_id", "team") if name not in visit.hidden), None)
    shown = with_details(visit.stores, page.rows, _DETAILS)
    names = [name for name in CHOICES if LIST_COLUMNS[name] not in visit.hidden]
    own = [person for person in every["person_id"].unique().to_list() if visit.is_own(person)]
    return visit.page(
        "sessions",
        lines=shown.to_dicts(),
        cell=SESSION_LISTING.cell,
        score=SESSION_LISTING.score,
        heading=SESSION_LISTING.heading,
        short_name=short_name,
        counted_on=counted_on,
        judge_state=judge_state,
        score_class=score_class,
        failures=_failures(visit, shown),
        words_of=_people_words(visit, shown),
        number=rows.height,
        ties=_lowest(rows) if query.sort == "score" else 0,
        total=every.height,
        query=query,
        filters=applied_filters(visit, query, words),
        words=words,
        who=who,
        own=own[0] if own else None,
        choices=choices_of(every, names),
        scores=[item for item in SCORES.items() if item[0] != "waiting" or visit.waiting],
        judged=JUDGED,
        outcomes=OUTCOMES,
        has_outcomes=shown["outcome"].count() > 0,
        next_url=page.cursor and visit.frame.here(cursor=page.cursor),
        is_search_cut=page.is_search_cut,
        csv_url=visit.frame.here().replace("/sessions", "/sessions.csv", 1),
        has_organizations=bool(visit.frame.organizations) and visit.organization is None,
    )


@ROUTER.get("/sessions.csv")
def sessions_csv(visit: Visitor) -> Response:
    """Return all sessions that are asked for as CSV."""
    query, words = _asked(visit)
    rows = _chosen(visit, visit.rows(), query)
    if words:
        rows = _all_searched(visit, rows, words)
    shown = [name for name in CSV_COLUMNS if name not in visit.hidden]
    text = csv_text(with_details(visit.stores, rows, _DETAILS).select(shown))
    return download("sessions.csv", text)


def _asked(visit: Visit) -> tuple[ListQuery, str]:
    """Return the query, and words to search in prompts.

    Raises:
        ServiceError: 400, a field cannot have its value; 403, the caller may not read prompts.
    """
    fields = visit.request.query_params
    query = asked_sessions(visit)
    words = fields.get("q", "").strip()
    if words and not visit.sees_texts:
        raise ServiceError(403, "role_lacking", "Searching prompts requires a reviewer key.")
    return query, words


def _page(visit: Visit, rows: pl.DataFrame, query: ListQuery, words: str) -> _Found:
    """Return a page; raises CursorError."""
    after = visit.request.query_params.get("cursor")
    if words:
        return _searched(visit, rows, after, words)
    return _Found(*SESSION_LISTING.page(rows, query.sort, after, _LIMIT))


def _searched(visit: Visit, rows: pl.DataFrame, after: str | None, words: str) -> _Found:
    """Return a page of the sessions with these words; the search continues where it was cut."""
    rows = rows.sort("started_at", descending=True, maintain_order=True)
    rest, _ = SESSION_LISTING.page(rows, SESSION_LISTING.usual_order, after, rows.height)
    asked = Search(words, _LIMIT, _SEARCH_SECONDS)
    found, unsearched = search(visit.stores.lake, rest, asked)
    page, cursor = SESSION_LISTING.page(found, SESSION_LISTING.usual_order, None, _LIMIT)
    if cursor is not None or unsearched.is_empty():
        return _Found(page, cursor)
    searched = rest.head(rest.height - unsearched.height)
    return _Found(found, SESSION_LISTING.cursor_after(searched), is_search_cut=True)


def _all_searched(visit: Visit, rows: pl.DataFrame, words: str) -> pl.DataFrame:
    """Return all sessions with these words.

    Raises:
        ServiceError: 503, they cannot be searched in the time that there is for a file.
    """
    asked = Search(words, rows.height, _DOWNLOAD_SECONDS)
    found, unsearched = search(visit.stores.lake, rows, asked)
    if not unsearched.is_empty():
        days = unsearched["session_date"].unique().sort().to_list()
        raise ServiceError(
            503,
            "search_too_long",
            f"The prompts of {unsearched.height:,} of these sessions, of {days[0]} to "
            f"{days[-1]}, could not be searched in {_DOWNLOAD_SECONDS:g} seconds.",
            "Choose fewer days (From, To) or another filter, and download a file for each.",
        )
    return found


def _failures(visit: Visit, shown: pl.DataFrame) -> dict[SessionKey, str]:
    """Return why judging failed, for the sessions of a page whose last attempt did."""
    failed = shown.filter(judge_badge="Failed")
    contents = {_key(row): row["content_hash"] for row in failed.iter_rows(named=True)}
    scorings = ScoreStore(visit.stores.ledger).listed_of({key for _, key in contents})
    badges = badges_of(scorings, contents)
    return {key: badge.reason for key, badge in badges.items() if badge.reason is not None}


def _lowest(rows: pl.DataFrame) -> int:
    """Return how many sessions share the lowest score."""
    return rows.filter(pl.col("effective_100") == pl.col("effective_100").min()).height


def _people_words(visit: Visit, rows: pl.DataFrame) -> dict[SessionKey, str]:
    """Return the reasons of people whose scores count, for who may see texts."""
    scored = rows.filter(effective_source="override")
    if scored.is_empty() or not visit.sees_texts:
        return {}
    overrides = OverrideStore(visit.stores.ledger).of_dates(scored["session_date"].unique())
    of_score = (*CONTENT_KEY, "profile_id")
    words = newest_by_content(overrides).select(*of_score, words="reason")
    found = scored.join(words, on=of_score)
    return {_key(row): row["words"] for row in found.iter_rows(named=True)}


def _chosen(visit: Visit, rows: pl.DataFrame, query: ListQuery) -> pl.DataFrame:
    """Return the rows that are asked for, in the order of the query."""
    if query.alert is not None:
        rows = _alert_sessions(visit, rows, query.alert)
    if query.asks_for_judge:
        rows = with_live_judge(visit.stores, rows)
    return SESSION_LISTING.in_order(query.chosen(rows), query.sort)


def _alert_sessions(visit: Visit, rows: pl.DataFrame, alert_id: int) -> pl.DataFrame:
    """Return the sessions of an alert of quality risks; raises ServiceError 404."""
    sessions = risky_sessions(visit.stores.ledger, alert_id)
    if sessions is None:
        raise not_found("The alert")
    registry = ProfileStore(visit.stores.ledger).registry()
    return risks_of(rows, sessions, is_risk(registry)).rows


def _key(row: Mapping[str, str]) -> SessionKey:
    return row["organization_id"], row["session_key"]


_SESSION = ("organization_id", "session_id")


@dataclass(frozen=True, slots=True)
class Search:
    """Words to look for.

    Attributes:
        words: Text that a prompt contains.
        wanted: How many sessions are enough.
        seconds: When to stop after the day that is searched then; at least one is searched.
    """

    words: str
    wanted: int
    seconds: float


def search(lake: Lake, rows: pl.DataFrame, asked: Search) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows whose windows have a prompt with these words, and rows not searched.

    Args:
        lake: The lake.
        rows: Rows of sessions, the newest first.
        asked: What to look for.

    Raises:
        LakeError: A file cannot be read.
        QueryError: The SQL failed.
    """
    end, found = time.monotonic() + asked.seconds, [rows.clear()]
    days = rows["session_date"].unique().sort(descending=True).to_list()
    for place, day in enumerate(days, 1):
        of_day = rows.filter(session_date=day)
        named = _windows_with(lake, day, asked.words)
        found.append(of_day.join(named, on=SESSION_KEY, how="semi", maintain_order="left"))
        is_enough = sum(frame.height for frame in found) > asked.wanted
        if is_enough or time.monotonic() > end:
            return pl.concat(found), rows.filter(pl.col("session_date").is_in(days[place:]))
    return pl.concat(found), rows.clear()


def _windows_with(lake: Lake, day: date, words: str) -> pl.DataFrame:
    """Return SESSION_KEY of the windows with a prompt; most sessions have one window."""
    prompts = prompts_with(lake, day, words)
    windows = lake.read(
        AGENT_SESSIONS,
        [day],
        [*SESSION_KEY, "session_id"],
        pl.col("session_id").is_in(prompts["session_id"].unique().implode()),
    ).join(prompts, on=_SESSION, how="semi")
    is_alone = pl.len().over(_SESSION) == 1
    several = windows.filter(~is_alone)
    if several.is_empty():
        return windows.select(SESSION_KEY)
    is_of_several = pl.col("session_id").is_in(several["session_id"].unique().implode())
    events = lake.read(AGENT_EVENTS, [day], WINDOW_COLUMNS, is_of_several)
    split = window_events(events).join(prompts, on=["organization_id", "event_id"], how="semi")
    return pl.concat(frame.select(SESSION_KEY) for frame in (windows.filter(is_alone), split))
