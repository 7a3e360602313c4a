"""What waits for a blind review, and scores by people that no longer count: filtered and sorted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.scorecards.blind_reviews import key_of
from evaluation_pipelines.scorecards.domain.overrides import with_states
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.service.pages.domain.session_lines import choices_of
from evaluation_pipelines.service.pages.rendering import Visit, asked_order, asked_sessions
from evaluation_pipelines.views.filters import LIST_COLUMNS, ListQuery
from evaluation_pipelines.views.listing import in_order

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
    *("override_score", "annotator", "made_at"),
)
"""Columns of a downloaded list of scores that no longer count."""

_SESSION = {
    "session": "session_key",
    "organization": "organization_id",
    "profile": "profile_id",
    "label": "classification_label",
    "date": "session_date",
}
WAITING_SORTED_BY: Mapping[str, str] = _SESSION
STALE_SORTED_BY: Mapping[str, str] = {**_SESSION, "by": "annotator", "when": "made_at"}
"""Name of an order -> its column."""

_USUAL, _USUAL_STALE = "date", "when"
_FILTERS = ("profile", "label")
STALE_SORT = "stale-sort"
"""Field of the URL with the order of the second list; that of the first has the usual name."""


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
    asked = asked_sessions(visit, WAITING_SORTED_BY, _USUAL)
    columns = [LIST_COLUMNS[name] for name in _FILTERS]
    values = choices_of(pl.concat(each.select(columns) for each in lists), _FILTERS)
    query = ListQuery(profile=asked.profile, label=asked.label, dates=asked.dates)
    return Choices(query, values)


def waiting_rows(samples: Sequence[AuditSample]) -> pl.DataFrame:
    """Return WAITING of samples without an answer."""
    rows = [tuple(getattr(each, name) for name in WAITING) for each in samples]
    return pl.DataFrame(rows, schema=WAITING, orient="row")


def stale_rows(visit: Visit, waiting: Sequence[AuditSample]) -> pl.DataFrame:
    """Return overrides of sessions that have continued since, without a newer one.

    Sessions of the audit sample are left out: their page would show the score.
    """
    rows = visit.rows()
    current = rows.select(*SESSION_KEY, "content_hash", best_profile_id="profile_id")
    made = OverrideStore(visit.stores.ledger).of_dates()
    made = made.join(current, on=SESSION_KEY, how="semi")
    states = with_states(made, current)
    subject = [*SESSION_KEY, "profile_id"]
    is_hidden = [key_of(each) for each in waiting]
    hidden = pl.DataFrame(is_hidden, schema=list(SESSION_KEY), orient="row").cast(pl.String)
    labels = rows.select(*SESSION_KEY, "classification_label")
    return (
        states.filter(state="stale")
        .join(states.filter(pl.col("state") != "stale"), on=subject, how="anti")
        .join(hidden, on=SESSION_KEY, how="anti")
        .unique(subject, keep="last", maintain_order=True)
        .join(labels, on=SESSION_KEY, how="left", maintain_order="left")
    )


def waiting_list(visit: Visit, rows: pl.DataFrame, chosen: Choices) -> ReviewList:
    """Return what waits as it is asked for; raises ServiceError 400, there is no such order."""
    order = asked_order(visit, WAITING_SORTED_BY, _USUAL)
    return ReviewList(
        in_order(chosen.query.chosen(rows), order, WAITING_SORTED_BY), rows.height, order
    )


def stale_list(visit: Visit, rows: pl.DataFrame, chosen: Choices) -> ReviewList:
    """Return the scores that no longer count as they are asked for; raises as above."""
    order = asked_order(visit, STALE_SORTED_BY, _USUAL_STALE, STALE_SORT)
    return ReviewList(
        in_order(chosen.query.chosen(rows), order, STALE_SORTED_BY), rows.height, order
    )
