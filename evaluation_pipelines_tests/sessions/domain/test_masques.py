"""Comparison of masques."""

from datetime import date

import polars as pl

from evaluation_pipelines.schemas import SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.masques import masque_table

LAST = date(2026, 6, 14)


def scores(*rows: tuple[str | None, int, float | None, str]) -> pl.DataFrame:
    """Return performance rows of (masque, day of June, composite, attribution)."""
    given = [
        {
            "masque": masque,
            "session_date": date(2026, 6, day),
            "composite": composite,
            "scorable": composite is not None,
            "attribution": attribution,
        }
        for masque, day, composite, attribution in rows
    ]
    return pl.DataFrame(given, schema=SESSION_PERFORMANCE.schema)


def test_the_best_masque_comes_first_with_its_mean() -> None:
    table = masque_table(
        scores(
            ("A", 14, 6.0, "clean"),
            ("A", 13, 8.0, "clean"),
            ("B", 14, 9.0, "mixed"),
            (None, 14, 3.0, "baseline"),
        ),
        LAST,
    )
    assert table.select("masque", "sessions", "composite", "recommendation").rows() == [
        ("B", 1, 9.0, "keep"),
        ("A", 2, 7.0, "keep"),  # (6 + 8) / 2
        (None, 1, 3.0, "doff"),
    ]


def test_the_trend_compares_the_last_seven_dates_with_the_seven_before() -> None:
    # The 8th to the 14th: 4 4 4 4 9, mean 5; the 1st to the 7th: 8 8 8 8 3, mean 7.
    late = [("A", day, 4.0, "clean") for day in (8, 9, 10, 11)] + [("A", 14, 9.0, "clean")]
    early = [("A", day, 8.0, "clean") for day in (4, 5, 6, 7)] + [("A", 1, 3.0, "clean")]
    assert masque_table(scores(*late, *early), LAST)["trend"].to_list() == [-2.0]


def test_four_sessions_are_too_few_for_a_trend() -> None:
    late = [("A", 14, 9.0, "clean")] * 5
    early = [("A", 7, 8.0, "clean")] * 4
    assert masque_table(scores(*late, *early), LAST)["trend"].to_list() == [None]


def test_remainders_and_unscored_sessions_belong_to_no_masque() -> None:
    table = masque_table(
        scores((None, 14, 3.0, "remainder"), ("A", 14, None, "clean"), ("A", 14, 8.0, "clean")),
        LAST,
    )
    assert table.select("masque", "sessions").rows() == [("A", 1)]


def test_without_scores_the_table_is_empty() -> None:
    assert masque_table(scores(), LAST).is_empty()
