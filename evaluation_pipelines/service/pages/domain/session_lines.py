"""The list of sessions: which are chosen, in which order, and what a line shows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.formatting import DASH, points, usd
from evaluation_pipelines.judging.domain.badge import NOT_SCORED, Badge, band
from evaluation_pipelines.reporting.domain.reconciliation.states import title_of
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.scorecards.domain.why_low import needs_reason, why_low
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.service.pages.domain.days import is_in_band
from evaluation_pipelines.service.pages.domain.sorting import in_order, parse_order
from evaluation_pipelines.sessions.domain.repositories import short_name, short_names

WindowKey: TypeAlias = tuple[str, str]
"""(organization_id, session_key)"""

CHOICES = {
    "agent": "agent_id",
    "program": "source_cli",
    "model": "model",
    "variant": "model_variant",
    "label": "classification_label",
    "profile": "profile_id",
    "repository": "repository",
    "environment": "environment",
    "team": "team",
    "person": "person_id",
    "status": "status",
    "recommendation": "recommendation",
    "source": "effective_source",
    "state": "state",
}
"""Name of a filter -> its column."""

SOURCE_TITLES = {
    "override": "a person",
    "scorecard": "the profile",
    "judge": "the judge alone",
    "composite": "the composite",
    "status": "the outcome",
    "provisional": "provisional, it has not ended",
}
"""Source of a score that counts -> who or what gave it."""

REVIEW_DUE = "Review due"
"""Badge of a session that waits for a blind review."""

SCORES = {
    "green": "75-100",
    "yellow": "50-74",
    "red": "0-49",
    "unscored": "not scored",
    "waiting": "waits for a blind review",
}
"""Values of the filter of the score that counts."""

JUDGED = {"green": "75-100", "yellow": "50-74", "red": "0-49", "unscored": NOT_SCORED}
UNFINISHED = {"scoring": "Scoring", "failed": "Failed"}
"""Values of the filter of the judge: by the total, and by the state of a scoring."""

SORTED_BY = {
    "started": "started_at",
    "repository": "repository",
    "agent": "agent_id",
    "model": "model",
    "label": "classification_label",
    "judge": "judge_live",
    "score": "effective_100",
    "composite": "composite",
    "cost": "cost_usd",
    "failed": "tools_failed",
}
"""Name of an order -> its column."""

USUAL_ORDER = "-started"
_MOST_CHOICES, _MOST_DIGITS = 300, 18
_FIRST_YEAR, _LAST_YEAR = 2000, 2200


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list shows.

    Attributes:
        since: First UTC day.
        until: Last UTC day.
        values: Values of CHOICES, by the name of the filter.
        score: A name in SCORES.
        judge: A name in JUDGED or UNFINISHED.
        alert: Id of an alert of quality risks: only its sessions.
        sort: A name in SORTED_BY; with ``-`` before it the largest come first.
    """

    since: date | None = None
    until: date | None = None
    values: Mapping[str, str] | None = None
    score: str | None = None
    judge: str | None = None
    alert: int | None = None
    sort: str = USUAL_ORDER

    @property
    def is_filtered(self) -> bool:
        """True if not all sessions are shown."""
        return any((self.since, self.until, self.values, self.score, self.judge, self.alert))

    @property
    def asks_for_judge(self) -> bool:
        """True if the badge of the judge decides which sessions are shown, or in which order."""
        return self.judge is not None or self.sort.removeprefix("-") == "judge"

    @property
    def is_usual_order(self) -> bool:
        """True if the newest come first, as the rows already are."""
        return self.sort == USUAL_ORDER


def parse_query(
    fields: Mapping[str, str],
    sorted_by: Mapping[str, str] = SORTED_BY,
    usual_order: str = USUAL_ORDER,
) -> ListQuery:
    """Return the query that the fields of a URL ask for; empty fields ask for nothing.

    Args:
        fields: Names and values.
        sorted_by: Name of each order -> its column, for a list of something else than sessions.
        usual_order: The order of that list.

    Raises:
        ValueError: A field has a value that it cannot have.
    """
    given = {name: value for name, value in fields.items() if value}
    return ListQuery(
        since=_date(given, "from"),
        until=_date(given, "to"),
        values={name: given[name] for name in CHOICES if name in given},
        score=_one_of(given, "score", SCORES),
        judge=_one_of(given, "judge", {**JUDGED, **UNFINISHED}),
        alert=_number(given, "alert"),
        sort=parse_order(given.get("sort"), sorted_by, usual_order),
    )


def chosen_rows(
    rows: pl.DataFrame, query: ListQuery, unfinished: Mapping[WindowKey, str]
) -> pl.DataFrame:
    """Return the rows that a query asks for, in its order.

    Args:
        rows: Rows of all sessions, the newest first; with ``judge_live`` where the query asks for
            the judge.
        query: The query.
        unfinished: ``Scoring`` or ``Failed`` by session window; needed where it asks for the judge.
    """
    found = rows.filter(*_conditions(query))
    if query.judge is not None:
        found = _judged(found, query.judge, unfinished)
    return found if query.is_usual_order else in_order(found, query.sort, SORTED_BY)


def with_live_totals(rows: pl.DataFrame, live: Mapping[WindowKey, float | None]) -> pl.DataFrame:
    """Add ``judge_live``: the total of the judge as the badge shows it.

    Args:
        rows: Rows of sessions with the total of their last build.
        live: Totals of sessions whose scorings have changed since.
    """
    schema = dict.fromkeys(SESSION_KEY, pl.String()) | {"judge_live": pl.Float64()}
    totals = pl.DataFrame([(*key, each) for key, each in live.items()], schema, orient="row")
    joined = rows.join(
        totals.with_columns(is_live=True), on=SESSION_KEY, how="left", maintain_order="left"
    )
    is_live = pl.col("is_live").is_not_null()
    return joined.with_columns(
        judge_live=pl.when(is_live).then("judge_live").otherwise("judge_total")
    ).drop("is_live")


def page_of(
    rows: pl.DataFrame, after: WindowKey | None, limit: int
) -> tuple[pl.DataFrame, WindowKey | None] | None:
    """Return a page of rows and the key of its last row if there are more.

    Returns:
        ``None`` if there is no row ``after``.
    """
    start = 0
    if after is not None:
        is_last = (pl.col("session_key") == after[1]) & (pl.col("organization_id") == after[0])
        places = rows.select(is_last.arg_true())
        if places.is_empty():
            return None
        start = places.item() + 1
    shown = rows.slice(start, limit)
    if rows.height <= start + limit:
        return shown, None
    last = shown.row(-1, named=True)
    return shown, (last["organization_id"], last["session_key"])


def choices_of(rows: pl.DataFrame, names: Collection[str]) -> dict[str, list[str]]:
    """Return the values of some filters, each in alphabetical order; very many are left out."""
    found = {name: rows[CHOICES[name]].unique().drop_nulls().sort() for name in names}
    return {name: values.head(_MOST_CHOICES).to_list() for name, values in found.items()}


def options_of(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """Return the values of a filter, each with how it is shown."""
    if name == "repository":
        shown = short_names(values)
    elif name == "state":
        shown = {value: title_of(value) for value in values}
    else:
        shown = SOURCE_TITLES if name == "source" else {}
    return [(value, shown.get(value, value)) for value in values]


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A line of the list; texts are not escaped. Unknown values are a dash, names ``None``.

    ``counted_on`` is the day on which it is counted, if it started on another one: a later part of
    a session, under another masque, is of the day on which the session began.
    """

    organization: str
    session_key: str
    started_at: datetime
    counted_on: date | None
    who: str | None
    repository: str | None
    agent: str | None
    model: str | None
    label: str | None
    badge: Badge
    badge_class: str
    status: str
    score: str
    score_class: str
    source: str | None
    composite: str
    recommendation: str | None
    why: str | None
    words: str | None
    cost: str
    failed_calls: str

    @property
    def repository_name(self) -> str | None:
        """The short name of the repository."""
        return short_name(self.repository) if self.repository else self.repository


def line_of(
    row: Mapping[str, Any], judged: Badge, who: str | None, words: str | None
) -> SessionLine:
    """Return the line of a session.

    Args:
        row: A row of the session table.
        judged: The badge of the judge.
        who: The column of persons or teams.
        words: The reason of the person whose score counts, if the reader may see texts.
    """
    score = row["effective_100"]
    return SessionLine(
        organization=row["organization_id"],
        session_key=row["session_key"],
        started_at=row["started_at"],
        counted_on=_counted_on(row),
        who=row[who] if who else None,
        repository=row["repository"],
        agent=row["agent_id"],
        model=row["model"],
        label=row["classification_label"],
        badge=Badge(REVIEW_DUE) if row[WAITS] else judged,
        badge_class="unscored" if row[WAITS] else badge_class_of(judged),
        status=row["status"],
        score=points(row["provisional_100"] if score is None else score),
        score_class="unscored" if score is None else band(score),
        source=row["effective_source"] if score is not None else _provisional(row),
        composite=points(row["composite"]),
        recommendation=row["recommendation"],
        why=why_low(row),
        words=words,
        cost=usd(row["cost_usd"]),
        failed_calls=f"{row['tools_failed']} of {row['total_tools']}"
        if row["total_tools"]
        else DASH,
    )


def _provisional(row: Mapping[str, Any]) -> str | None:
    return None if row["provisional_100"] is None else "provisional"


def _counted_on(row: Mapping[str, Any]) -> date | None:
    day: date = row["session_date"]
    return day if day != row["started_at"].date() else None


def with_reasons(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``why``: :func:`why_low` of each session; null where it says nothing."""
    low = rows.filter(needs_reason())
    said = low.select(SESSION_KEY).with_columns(
        why=pl.Series([why_low(row) for row in low.iter_rows(named=True)], dtype=pl.String)
    )
    return rows.join(said, on=SESSION_KEY, how="left", maintain_order="left")


CSV_COLUMNS: Sequence[str] = (
    *("started_at", "organization_id", "session_key", "person_id", "team", "repository"),
    *("environment", "agent_id", "source_cli", "model", "model_variant", "classification_label"),
    *(
        "status",
        "judge_total",
        "effective_100",
        "effective_source",
        "provisional_100",
        "composite",
        "recommendation",
        "why",
    ),
    *("cost_usd", "total_tokens", "active_s", "total_tools", "tools_failed", WAITS),
)
"""Columns of a downloaded list, as in the analysts' database."""


def _date(fields: Mapping[str, str], name: str) -> date | None:
    if name not in fields:
        return None
    try:
        day = date.fromisoformat(fields[name])
    except ValueError:
        raise ValueError(f"{name} must be a day such as 2026-06-01") from None
    if not _FIRST_YEAR <= day.year < _LAST_YEAR:  # days are added to it and taken from it
        raise ValueError(f"{name} must be between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return day


def _number(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise ValueError(f"{name} must be a number")
    return int(text)


def _one_of(fields: Mapping[str, str], name: str, allowed: Collection[str]) -> str | None:
    value = fields.get(name)
    if value is not None and value not in allowed:
        raise ValueError(f"{name} must be one of: {', '.join(allowed)}")
    return value


def badge_class_of(judged: Badge) -> str:
    """Return the class of the style sheet that a badge of the judge has."""
    if judged.total is not None:
        return band(judged.total)
    return "red" if judged.text == UNFINISHED["failed"] else "unscored"


def _conditions(query: ListQuery) -> list[pl.Expr]:
    found = [pl.col(CHOICES[name]) == value for name, value in (query.values or {}).items()]
    if query.since is not None:
        found.append(pl.col("session_date") >= query.since)
    if query.until is not None:
        found.append(pl.col("session_date") <= query.until)
    if query.score == "waiting":
        found.append(pl.col(WAITS))
    elif query.score is not None:
        found += [is_in_band("effective_100", query.score), ~pl.col(WAITS)]
    return found


def _judged(rows: pl.DataFrame, judge: str, unfinished: Mapping[WindowKey, str]) -> pl.DataFrame:
    state = UNFINISHED.get(judge)
    keys = [key for key, text in unfinished.items() if state in {None, text}]
    named = pl.DataFrame(keys, schema=dict.fromkeys(SESSION_KEY, pl.String), orient="row")
    if state is not None:
        return rows.join(named, on=SESSION_KEY, how="semi", maintain_order="left")
    found = rows.filter(is_in_band("judge_live", judge), ~pl.col(WAITS))
    return found.join(named, on=SESSION_KEY, how="anti", maintain_order="left")
