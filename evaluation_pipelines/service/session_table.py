"""Every session in memory, for lists that are filtered and sorted by anything."""

from collections.abc import Mapping
from datetime import date
from threading import Lock

import polars as pl
from fastapi.requests import HTTPConnection

from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    JUDGE_SCORES,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.scorecards.domain.evaluation import with_newest_overrides
from evaluation_pipelines.scorecards.domain.why_low import (
    CARD_COLUMNS,
    DIMENSIONS,
    TAG_COLUMNS,
    judge_tags,
    needs_reason,
    worst_criteria,
)
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED, SessionKey, withhold
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.service.date_cache import DateCache
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores

_COLUMNS: Mapping[Table, tuple[str, ...]] = {
    AGENT_SESSIONS: (
        *("session_id", "session_date", "started_at", "ended_at", "content_hash"),
        *("person_id", "team", "repository", "branch", "environment", "agent_id", "source_cli"),
        *("model", "model_variant", "classification_label", "status"),
        *("active_s", "total_tokens", "cost_usd"),
        *("total_tools", "tools_failed", "api_errors"),
    ),
    SESSION_PERFORMANCE: ("composite", "recommendation", *DIMENSIONS),
    SESSION_EVALUATIONS: (
        *("effective_100", "effective_source", "profile_id", "judge_total", "judge_model"),
        *("automatic_100", "provisional_100"),
        *("excluded_by", "card_id", "disqualified"),
    ),
    EVALUATION_BOOKS: ("state", "reason"),
}
"""Columns of a row, in addition to those of SESSION_KEY."""

_EXPLAINED_BY = (SCORECARDS, JUDGE_SCORES)
"""Tables that say why a score is low."""

_MOST_VIEWS = 16
"""Sets of withheld scores that are kept: one for each reviewer who has seen others."""


class SessionTable:
    """Rows of all session windows; threads may share one."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._cache = DateCache((*_COLUMNS, *_EXPLAINED_BY), _read)
        self._rows = self._shown = _no_rows()
        self._organizations: list[str] = []
        self._overrides: pl.DataFrame | None = None
        self._seen = dict[frozenset[SessionKey], pl.DataFrame]()

    def organizations(self) -> list[str]:
        """Return the organizations that have sessions, in alphabetical order; raises as rows."""
        with self._lock:
            self._refresh()
            return self._organizations

    def dates(self, condition: pl.Expr) -> list[date]:
        """Return the dates of the session windows that meet a condition on AGENT_SESSIONS.

        Raises:
            LakeError: A file cannot be read.
        """
        with self._lock:
            self._refresh()
            rows = self._rows
        # Lazy: a condition of literals alone fails on a frame of several chunks otherwise.
        found = rows.lazy().filter(condition).select(pl.col("session_date").unique())
        return found.collect()["session_date"].to_list()

    def rows(self, waiting: frozenset[SessionKey] = frozenset()) -> pl.DataFrame:
        """Return a row for each session window, the newest first, as ``withhold`` returns it.

        It has IS_SCORED, too.

        Overrides count from the moment they are made. What is not built yet is null.

        Args:
            waiting: Sessions whose scores are withheld.

        Raises:
            LakeError: A file cannot be read.
            LedgerError: The ledger cannot be used.
        """
        overrides = OverrideStore(self._stores.ledger).of_dates()
        with self._lock:
            is_new = self._refresh()
            if is_new or self._overrides is None or not overrides.equals(self._overrides):
                self._overrides = overrides
                shown = with_newest_overrides(self._rows, overrides)
                is_scored = pl.col("effective_100").is_not_null()
                self._shown = shown.with_columns(is_scored.alias(IS_SCORED))
                self._seen.clear()
            if waiting not in self._seen:
                if len(self._seen) >= _MOST_VIEWS:  # the oldest goes
                    del self._seen[next(iter(self._seen))]
                self._seen[waiting] = withhold(self._shown, waiting)
            return self._seen[waiting]

    def _refresh(self) -> bool:
        """Read what has changed; return whether anything has."""
        if self._cache.is_current(self._stores.lake):
            return False
        lake = self._stores.lake.snapshot()  # the tables of one moment
        rows = pl.concat([_no_rows(), *self._cache.values(lake)])
        self._rows = rows.sort(
            "started_at", *SESSION_KEY, descending=[True, False, False], nulls_last=True
        )
        self._organizations = rows["organization_id"].unique().sort().to_list()
        return True


def session_table_of(connection: HTTPConnection) -> SessionTable:
    """Return the sessions of the service of a request."""
    table: SessionTable = connection.app.state.session_table
    return table


def _read(lake: Lake, day: date) -> pl.DataFrame:
    rows = _joined(
        *(lake.read(table, [day], [*SESSION_KEY, *names]) for table, names in _COLUMNS.items())
    )
    low = rows.filter(needs_reason())
    if low.is_empty():
        return _explained(rows, *_no_reasons())
    cards = low["card_id"].drop_nulls().implode()
    keys = low["session_key"].implode()
    return _explained(
        rows,
        lake.read(SCORECARDS, [day], CARD_COLUMNS, pl.col("card_id").is_in(cards)),
        lake.read(JUDGE_SCORES, [day], TAG_COLUMNS, pl.col("session_key").is_in(keys)),
    )


def _no_rows() -> pl.DataFrame:
    tables = (table.no_rows.select(*SESSION_KEY, *names) for table, names in _COLUMNS.items())
    return _explained(_joined(*tables), *_no_reasons())


def _no_reasons() -> tuple[pl.DataFrame, pl.DataFrame]:
    return SCORECARDS.no_rows.select(CARD_COLUMNS), JUDGE_SCORES.no_rows.select(TAG_COLUMNS)


def _joined(sessions: pl.DataFrame, *others: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a date; a session that failed is not one to keep."""
    joined = sessions
    for each in others:
        joined = joined.join(each, on=SESSION_KEY, how="left")
    verdict = pl.when(pl.col("status") != "failed").then("recommendation")
    return joined.with_columns(verdict.alias("recommendation"))


def _explained(rows: pl.DataFrame, cards: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Add what :func:`why_low` needs of scorecards and judge scores."""
    return rows.join(worst_criteria(cards), on="card_id", how="left").join(
        judge_tags(scores), on=[*SESSION_KEY, "content_hash"], how="left"
    )
