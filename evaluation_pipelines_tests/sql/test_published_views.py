"""The views that analysts get over the published tables."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import duckdb
import polars as pl

from evaluation_pipelines.schemas import (
    SCORECARDS,
    SESSION_EVALUATIONS,
    Table,
)
from evaluation_pipelines.storage.sql_files import read_sql

ONE = {"session_key": "s#baseline-1", "content_hash": "c", "session_date": date(2026, 6, 1)}


def view(
    name: str, columns: str, tables: Sequence[tuple[Table, list[dict[str, Any]]]]
) -> list[tuple[Any, ...]]:
    """Some columns of a view over rows, of which only the given columns are known."""
    with duckdb.connect() as database:
        for table, rows in tables:
            known = pl.from_dicts([ONE | row for row in rows], schema=table.schema)
            database.register(table.name, known.to_arrow())
        found = database.sql(f"select {columns} from ({read_sql(name)}) order by all")  # noqa: S608
        return found.fetchall()


def test_the_card_that_counts_is_of_the_newest_version_of_its_content() -> None:
    mine: dict[str, Any] = {"organization_id": "acme", "profile_id": "p"}
    cards: list[dict[str, Any]] = [
        mine | {"profile_version": 2, "overall_score": 40.0, "is_best_match": False},
        mine | {"profile_version": 10, "overall_score": 70.0, "is_best_match": False},
        mine | {"profile_version": 11, "overall_score": 90.0, "content_hash": "older"},
        mine | {"profile_id": "q", "profile_version": 1, "overall_score": 5.0},
    ]

    found = view(
        "current_scorecards",
        "profile_id, overall_score, is_best_match",
        [(SCORECARDS, cards), (SESSION_EVALUATIONS, [mine])],
    )

    assert found == [("p", 70.0, True), ("q", 5.0, False)]
