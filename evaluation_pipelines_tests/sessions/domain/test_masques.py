"""Comparison of masques."""

from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from evaluation_pipelines.schemas import SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.masques import (
    DONS_AND_DOFFS,
    WEARINGS,
    masque_table,
    masque_wearings,
)

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


START = datetime(2026, 11, 20, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def wearings(*sessions: str) -> pl.DataFrame:
    """Return WEARINGS of sessions 1, 2 ...

    "A0 b5" is a don of A at 0 s and a doff of B at 5 s; ".5" is a doff without a name. Positions
    count from 1.
    """
    rows = [
        (
            number,
            position,
            at(int(word[1:])),
            word[0].isupper(),
            None if word[0] == "." else word[0].upper(),
        )
        for number, session in enumerate(sessions, 1)
        for position, word in enumerate(session.split(), 1)
    ]
    return masque_wearings(pl.DataFrame(rows, schema=DONS_AND_DOFFS, orient="row"))


def spans(session: str) -> str:
    """Return each wearing as masque, first second and second of its own doff: "A0-5 B7-"."""
    found = []
    for row in wearings(session).iter_rows(named=True):
        doff = "" if row["doffed_at"] is None else f"{(row['doffed_at'] - START).seconds}"
        found.append(f"{row['masque']}{(row['donned_at'] - START).seconds}-{doff}")
    return " ".join(found)


def test_a_wearing_names_its_don_and_its_own_doff() -> None:
    found = wearings("A0 B10 b20 a30")

    assert found.schema == WEARINGS
    assert found.rows() == [
        (1, 1, "A", at(0), at(0), 1, None, None),
        (1, 2, "B", at(10), at(10), 2, at(20), 3),
        # The outer one is worn again from just after the doff of the inner one.
        (1, 3, "A", at(20) + INSTANT, at(20), 3, at(30), 4),
    ]


def test_wearings_are_counted_in_each_session() -> None:
    found = wearings("A0 a1 B2", "", "A0")

    assert found.select("session_no", "wearing_no", "masque").rows() == [
        (1, 1, "A"),
        (1, 2, "B"),
        (3, 1, "A"),
    ]
    assert wearings("a1").is_empty()


@pytest.mark.parametrize(
    ("dons_and_doffs", "expected"),
    [
        pytest.param("A0 B5", "A0- B5-", id="never taken off: worn until a don"),
        pytest.param("A0 B5 b9", "A0- B5-9", id="and not again after it"),
        pytest.param("A0 B5 a7 b9", "A0- B5-9", id="a covered one is taken off unseen"),
        pytest.param("A0 B5 C6 b7 a8 c9", "A0- B5- C6-9", id="two covered ones"),
        pytest.param("A0 A5 a7 a9", "A0- A5-7 A7-9", id="a doff ends the don put on last"),
        pytest.param("A0 B5 .7 .9", "A0- B5-7 A7-9", id="also without a name"),
        pytest.param("A0 B5 b6 .7 a8", "A0- B5-6 A6-7", id="a doff of none that is on"),
        pytest.param("A0 a5 a5 A5 a9", "A0-5 A5-5", id="a doff too many for one ends the new one"),
        pytest.param("B0 b5 A5 a9", "B0-5 A5-9", id="one is taken off before the next is put on"),
        pytest.param("A0 B5 b7 C7 c8 a9", "A0- B5-7 C7-8 A8-9", id="a swap uncovers nothing"),
        pytest.param("A0 B5 b7 a7", "A0- B5-7", id="both are taken off at one time"),
        pytest.param("A0 B5 a7 b7", "A0- B5-7", id="in either order"),
    ],
)
def test_what_is_worn_from_when_to_when(dons_and_doffs: str, expected: str) -> None:
    assert spans(dons_and_doffs) == expected


@pytest.mark.parametrize(
    ("dons_and_doffs", "expected"),
    [
        pytest.param("A5 B5", "B5-", id="of two that are never taken off the last"),
        pytest.param("A5 B5 a7 b9", "A5-7 B7-9", id="the longer one is the outer one"),
        pytest.param("A5 B5 b7 a9", "B5-7 A7-9", id="in either order"),
        pytest.param("A5 B5 b9", "B5-9", id="one that is never taken off is the outer one"),
        pytest.param("B5 A5 b9", "B5-9", id="in either order too"),
        pytest.param("A5 a5", "A5-5", id="an instant alone"),
        pytest.param("a5 A5", "A5-5", id="whose doff comes first"),
        pytest.param("A5 B5 a5 b5", "B5-5", id="two instants"),
        pytest.param("A5 B5 b5 a5", "B5-5", id="in either order of their doffs"),
        pytest.param("A0 B5 b5 a9", "A0- B5-5 A5-9", id="an instant inside another"),
        pytest.param("A5 a5 B5", "B5-", id="an instant before one that is never taken off"),
        pytest.param("B5 A5 a5", "B5-", id="in either order of both"),
        pytest.param("A5 a5 B5 b9", "B5-9", id="an instant before one that is taken off"),
        pytest.param("A5 a5 B5 C5 c7 b9", "C5-7 B7-9", id="an instant before two"),
    ],
)
def test_what_is_put_on_at_one_time(dons_and_doffs: str, expected: str) -> None:
    assert spans(dons_and_doffs) == expected
