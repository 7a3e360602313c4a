"""Which rows a list of sessions has, and in which order: of a URL, a request or options."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Self

import polars as pl

from evaluation_pipelines.judging.domain.badge import AWAITS_JUDGE, is_in_band
from evaluation_pipelines.schemas.judge_score import NOT_SCORED, SCORING, shown_badge
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.sessions.domain.session_filter import FILTER_COLUMNS, SessionFilter
from evaluation_pipelines.views.listing import SESSION_LISTING, parse_order

LIST_COLUMNS = {
    **FILTER_COLUMNS,
    "profile": "profile_id",
    "status": "status",
    "recommendation": "recommendation",
    "source": "effective_source",
    "state": "state",
}
"""Name of a filter -> its column of SESSIONS."""

CHOICES = (
    *("agent", "program", "model", "variant", "label", "profile", "repository", "environment"),
    *("team", "person", "status", "recommendation", "source", "state"),
)
"""Filters with the values that there are, as pages offer them."""

BANDS = {"green": "75-100", "yellow": "50-74", "red": "0-49"}
SCORES = {**BANDS, "unscored": "no score", "waiting": "awaiting review"}
"""Values of the filter by score."""

_BADGES = {
    "unscored": NOT_SCORED,
    "queued": AWAITS_JUDGE,
    "scoring": SCORING,
    "failed": "Failed",
}
JUDGED = BANDS | {name: shown_badge(badge) for name, badge in _BADGES.items()}
"""Values of the filter by judge score, and by the state of judging."""

OUTCOMES = {
    "commit": "committed",
    "merged": "merged",
    "not_merged": "not merged",
    "reverted": "reverted",
    "not_reverted": "merged, not reverted",
    "tests_passed": "tests passed at the end",
    "tests_failed": "tests failed at the end",
    "tests_none": "no tests after the last edit",
}
"""Values of the filter by outcome."""

HAPPENED = {
    "commit": pl.col("commit"),
    "merged": pl.col("merged"),
    "not_merged": ~pl.col("merged"),
    "reverted": pl.col("reverted"),
    "not_reverted": ~pl.col("reverted"),
    **{
        f"tests_{result}": pl.col("tests_after_last_edit") == result
        for result in ("passed", "failed", "none")
    },
}
"""Value of that filter -> its condition on columns of SESSIONS."""

_FIRST_YEAR, _LAST_YEAR, _MOST_DIGITS = 2000, 2200, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery(SessionFilter):
    """What a list of sessions shows; ``None`` is any.

    Attributes:
        profile: A ``profile_id``.
        status: A ``status``.
        recommendation: A ``recommendation``.
        source: An ``effective_source``.
        state: A ``state`` of the books.
        score: A name in SCORES.
        judge: A name in JUDGED.
        outcome: A name in OUTCOMES.
        alert: Id of an alert of sessions below their threshold: only these.
        sort: Name of an order; with ``-`` before it the largest come first.
    """

    profile: str | None = None
    status: str | None = None
    recommendation: str | None = None
    source: str | None = None
    state: str | None = None
    score: str | None = None
    judge: str | None = None
    outcome: str | None = None
    alert: int | None = None
    sort: str = SESSION_LISTING.usual_order

    @property
    def columns(self) -> dict[str, str | None]:
        """Values by the name of their field; ``None`` is any."""
        return {name: getattr(self, name) for name in LIST_COLUMNS}

    @property
    def values(self) -> dict[str, str]:
        """The given values of CHOICES."""
        return {name: value for name in CHOICES if (value := getattr(self, name)) is not None}

    @property
    def first_date(self) -> date | None:
        """First UTC day."""
        return None if self.dates is None or self.dates[0] == date.min else self.dates[0]

    @property
    def last_date(self) -> date | None:
        """Last UTC day."""
        return None if self.dates is None or self.dates[1] == date.max else self.dates[1]

    @property
    def is_empty(self) -> bool:
        """True if every session is chosen."""
        return self == ListQuery(alert=self.alert, sort=self.sort)

    @property
    def is_filtered(self) -> bool:
        """True if some sessions may be left out."""
        return any((self.values, self.dates, self.score, self.judge, self.outcome, self.alert))

    @property
    def asks_for_judge(self) -> bool:
        """True if the judge decides which sessions are shown, or in which order."""
        return self.judge is not None or self.sort.removeprefix("-") == "judge"

    def on(self, first: date | None = None, last: date | None = None) -> Self:
        """Return the query of all sessions with the same values of CHOICES on some days."""
        given: dict[str, Any] = dict(self.values)
        return type(self)(**given, dates=_span(first, last))

    def chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of SESSIONS that are chosen, in their order."""
        return rows if self.is_empty else rows.filter(self.condition())

    def condition(self) -> pl.Expr:
        """Return whether a row of SESSIONS is chosen."""
        found = [
            *(
                pl.col(column) == value
                for name, column in LIST_COLUMNS.items()
                if name not in FILTER_COLUMNS and (value := getattr(self, name)) is not None
            ),
        ]
        if self.score == "waiting":
            found.append(pl.col(WAITS))
        elif self.score is not None:
            found += [is_in_band("effective_100", self.score), ~pl.col(WAITS)]
        if self.judge in BANDS:
            found += [is_in_band("judge_total", self.judge), ~pl.col(WAITS)]
        elif self.judge is not None:
            found += [pl.col("judge_badge") == _BADGES[self.judge], ~pl.col(WAITS)]
        if self.outcome is not None:
            found.append(HAPPENED[self.outcome])
        return pl.all_horizontal(SessionFilter.condition(self), *found)


def parse_query(
    fields: Mapping[str, str],
    orders: Collection[str] = SESSION_LISTING.orders,
    usual_order: str = SESSION_LISTING.usual_order,
) -> ListQuery:
    """Return the query of the fields of a URL; empty fields are as if they were not given.

    Args:
        fields: Names and values.
        orders: Names of the orders of a list of something else than sessions.
        usual_order: The order of that list.

    Raises:
        ValueError: A field has a value that it cannot have.
    """
    given = {name: value for name, value in fields.items() if value}
    values: dict[str, Any] = {name: given[name] for name in CHOICES if name in given}
    return ListQuery(
        **values,
        dates=_span(_date(given, "from"), _date(given, "to")),
        score=_allowed_choice(given, "score", SCORES),
        judge=_allowed_choice(given, "judge", JUDGED),
        outcome=_allowed_choice(given, "outcome", OUTCOMES),
        alert=_number(given, "alert"),
        sort=parse_order(given.get("sort"), orders, usual_order),
    )


def _span(first: date | None, last: date | None) -> tuple[date, date] | None:
    return None if first is last is None else (first or date.min, last or date.max)


def _date(fields: Mapping[str, str], name: str) -> date | None:
    if name not in fields:
        return None
    try:
        day = date.fromisoformat(fields[name])
    except ValueError as error:
        raise ValueError(f"{name} must be a date, such as 2026-11-21") from error
    if not _FIRST_YEAR <= day.year < _LAST_YEAR:  # days are added, which fails at the ends
        raise ValueError(f"{name} must be between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return day


def _number(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise ValueError(f"{name} must be a number")
    return int(text)


def _allowed_choice(fields: Mapping[str, str], name: str, allowed: Mapping[str, str]) -> str | None:
    value = fields.get(name)
    if value is not None and value not in allowed:
        raise ValueError(f"{name} must be one of: {', '.join(allowed)}")
    return value
