"""The list of sessions, as a page and as CSV."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.attention.alert_store import risky_sessions
from evaluation_pipelines.attention.domain.risks import risks_of
from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.judging.domain.badge import Badge, badges_of
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import CONTENT_KEY
from evaluation_pipelines.scorecards.domain.evaluation import is_risk
from evaluation_pipelines.scorecards.domain.overrides import newest_of_content
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.scorecards.judged_since_build import judged_since_build
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.service.errors import ServiceError, not_found
from evaluation_pipelines.service.pages.applied_filters import applied_filters
from evaluation_pipelines.service.pages.cursors import cursor_of, key_of, list_changed
from evaluation_pipelines.service.pages.domain.session_lines import (
    CHOICES,
    CSV_COLUMNS,
    JUDGED,
    SCORES,
    UNFINISHED,
    ListQuery,
    WindowKey,
    choices_of,
    chosen_rows,
    line_of,
    page_of,
    with_live_totals,
    with_reasons,
)
from evaluation_pipelines.service.pages.prompt_search import Search, search
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, asked_sessions, download

ROUTER = APIRouter(include_in_schema=False)

_LIMIT = 50
_SEARCH_SECONDS, _DOWNLOAD_SECONDS = 0.1, 60.0


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of a page, the key after which the next one begins, and whether more is unsearched."""

    rows: pl.DataFrame
    next_key: WindowKey | None
    is_search_cut: bool = False


@ROUTER.get("/sessions")
def sessions(visit: Visitor) -> HTMLResponse:
    """Show a page of the sessions that are asked for."""
    query, words = _asked(visit)
    every = visit.rows()
    rows = _chosen(visit, every, query)
    found = _page(visit, rows, words)
    who = next((name for name in ("person_id", "team") if name not in visit.hidden), None)
    shown = found.rows.to_dicts()
    judged, words_of = _badges(visit, shown), _words_of_people(visit, found.rows)
    names = [name for name, column in CHOICES.items() if column not in visit.hidden]
    return visit.page(
        "sessions",
        lines=[line_of(row, judged[_key(row)], who, words_of.get(_key(row))) for row in shown],
        number=rows.height,
        ties=_lowest(rows) if query.sort == "score" else 0,
        total=every.height,
        query=query,
        filters=applied_filters(visit, query, words),
        words=words,
        who=who,
        choices=choices_of(every, names),
        scores=[each for each in SCORES.items() if each[0] != "waiting" or visit.waiting],
        judged={**JUDGED, **UNFINISHED},
        next_url=None
        if found.next_key is None
        else visit.frame.here(cursor=cursor_of(found.next_key)),
        is_search_cut=found.is_search_cut,
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
    text = csv_text(with_reasons(rows).select(shown))
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
        raise ServiceError(
            403, "role_lacking", "Searching in prompts needs a key of the role reviewer."
        )
    return query, words


def _page(visit: Visit, rows: pl.DataFrame, words: str) -> _Found:
    after = key_of(visit.request.query_params.get("cursor"))
    if words:
        return _searched(visit, rows, after, words)
    page = page_of(rows, after, _LIMIT)
    if page is None:
        raise list_changed()
    return _Found(*page)


def _searched(visit: Visit, rows: pl.DataFrame, after: WindowKey | None, words: str) -> _Found:
    """Return a page of the sessions with these words; the search goes on where it was cut."""
    rows = rows.sort("started_at", descending=True, maintain_order=True)
    rest = page_of(rows, after, rows.height)
    if rest is None:
        raise list_changed()
    asked = Search(words, _LIMIT, _SEARCH_SECONDS)
    found, unsearched = search(visit.stores.lake, rest[0], asked)
    page = page_of(found, None, _LIMIT)
    if page is None or page[1] is not None or unsearched.is_empty():
        return _Found(found.head(_LIMIT), page[1] if page else None)
    searched = rest[0].height - unsearched.height
    return _Found(found, _key(rest[0].row(searched - 1, named=True)), is_search_cut=True)


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


def _badges(visit: Visit, shown: Iterable[Mapping[str, str]]) -> dict[WindowKey, Badge]:
    contents = {_key(row): row["content_hash"] for row in shown}
    scorings = ScoreStore(visit.stores.ledger).listed_of({key for _, key in contents})
    return badges_of(scorings, contents)


def _lowest(rows: pl.DataFrame) -> int:
    """Return how many sessions share the lowest score."""
    return rows.filter(pl.col("effective_100") == pl.col("effective_100").min()).height


def _words_of_people(visit: Visit, rows: pl.DataFrame) -> dict[WindowKey, str]:
    """Return the reasons of people whose scores count, for who may see texts."""
    scored = rows.filter(effective_source="override")
    if scored.is_empty() or not visit.sees_texts:
        return {}
    overrides = OverrideStore(visit.stores.ledger).of_dates(scored["session_date"].unique())
    of_score = (*CONTENT_KEY, "profile_id")
    words = newest_of_content(overrides).select(*of_score, words="reason")
    found = scored.join(words, on=of_score)
    return {_key(row): row["words"] for row in found.iter_rows(named=True)}


def _chosen(visit: Visit, rows: pl.DataFrame, query: ListQuery) -> pl.DataFrame:
    """Return the rows that are asked for; of the judge, what badges show at the moment counts."""
    if query.alert is not None:
        rows = _of_alert(visit, rows, query.alert)
    if not query.asks_for_judge:
        return chosen_rows(rows, query, {})
    stores = visit.stores
    keys = ScoreStore(stores.ledger).keys_to_look_up(
        judged_since_build(stores), stores.settings.judge_exclude_flagged
    )
    changed = rows.filter(pl.col("session_key").is_in(list(keys)), ~pl.col(WAITS))
    contents = changed.select("organization_id", "session_key", "content_hash").to_dicts()
    badges = _badges(visit, contents)
    totals = {key: each.total for key, each in badges.items()}
    unfinished = {
        key: each.text for key, each in badges.items() if each.text in UNFINISHED.values()
    }
    return chosen_rows(with_live_totals(rows, totals), query, unfinished)


def _of_alert(visit: Visit, rows: pl.DataFrame, alert_id: int) -> pl.DataFrame:
    """Return the sessions of an alert of quality risks; raises ServiceError 404."""
    sessions = risky_sessions(visit.stores.ledger, alert_id)
    if sessions is None:
        raise not_found("The alert")
    registry = ProfileStore(visit.stores.ledger).registry()
    return risks_of(rows, sessions, is_risk(registry)).rows


def _key(row: Mapping[str, str]) -> WindowKey:
    return row["organization_id"], row["session_key"]
