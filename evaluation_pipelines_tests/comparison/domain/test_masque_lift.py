"""Masque lift: differences in which people weigh alike, and the table of all dates."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.comparison.masque_lift import (
    compare_masques,
    masque_lift,
    write_masque_lift,
)
from evaluation_pipelines.schemas import AGENT_SESSIONS, MASQUE_LIFT, SESSION_KEY
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S
from evaluation_pipelines_tests.world import session as landed
from evaluation_pipelines_tests.world.rows import Row, session, sessions_frame


def lifts(
    rows: list[Row], composites: Sequence[float | None], min_sessions: int = 5
) -> list[dict[str, Any]]:
    """Return the rows of the table; composites are in the order of the sessions.

    Each session is one of a person of its own unless told otherwise.
    """
    numbered = [
        row
        | {
            "session_key": f"s{n}#x-1",
            "session_id": f"s{n}",
            "person_id": f"u{n}" if row["person_id"] is None else row["person_id"] or None,
        }
        for n, row in enumerate(rows)
    ]
    sessions = sessions_frame(numbered)
    performance = sessions.select(SESSION_KEY).with_columns(
        composite=pl.Series(composites, dtype=pl.Float64)
    )
    return masque_lift(sessions, performance, min_sessions).to_dicts()


def worn(masque: str = "Scout", **columns: Any) -> Row:
    return session(masque=masque, attribution="clean", **columns)


def of(row: dict[str, Any], measure: str) -> list[Any]:
    names = ("difference", "low", "high", "state")
    return [row[f"{measure}_{name}"] for name in names]


def test_people_who_did_both_are_compared_with_themselves() -> None:
    # With and without Scout: ada 6 9 and 5, bob 8 and 6, cy 7 and 4, dan 5 and 5, eve 9 and 6.
    worn_by = ["ada", "ada", "bob", "cy", "dan", "eve"]
    rows = [worn(person_id=name) for name in worn_by]
    rows += [session(person_id=name) for name in worn_by[1:]] + [session()]
    (row,) = lifts(rows, [6, 9, 8, 7, 5, 9, 5, 6, 4, 5, 6, 0])

    # Their own differences 7.5 - 5, 2, 3, 0 and 3: mean 2.1, squares of the deviations 0.16 + 0.01
    # + 0.81 + 4.41 + 0.81 = 6.2; error sqrt(6.2 / 4 / 5) = 0.55678, times t(4) = 2.7764: 1.5459.
    # The other baseline session, of someone who never wore it, is left out.
    assert of(row, "composite") == [
        *(pytest.approx(2.1), pytest.approx(2.1 - 1.5459, abs=1e-4)),
        *(pytest.approx(2.1 + 1.5459, abs=1e-4), "shown"),
    ]
    assert (row["composite_people"], row["clustered_by"]) == (5, "person")
    assert (row["composite_sessions"], row["composite_baseline_sessions"]) == (6, 6)
    # Means of the people's means: (7.5 + 8 + 7 + 5 + 9) / 5 and (5 + 6 + 4 + 5 + 6) / 5.
    assert (row["composite_mean"], row["composite_baseline_mean"]) == pytest.approx((7.3, 5.2))


def test_few_people_show_no_difference_however_many_sessions_they_have() -> None:
    people = ["ada", "bob", "cy", "dan"] * 10
    rows = [worn(person_id=name) for name in people] + [session(person_id=name) for name in people]
    (row,) = lifts(rows, [8.0] * 40 + [4.0] * 40)

    assert of(row, "composite") == [None, None, None, "too few people: 4 of 5"]
    assert (row["composite_people"], row["composite_mean"]) == (4, None)


def test_sessions_are_told_apart_where_persons_are_unknown() -> None:
    rows = [worn(person_id="")] * 5 + [session()] * 5
    (row,) = lifts(rows, [6, 7, 8, 9, 10, 3, 4, 4, 4, 5])

    assert row["clustered_by"] == "session and day"
    assert of(row, "composite")[3] == "shown"
    (few,) = lifts([worn(person_id="")] * 4 + [session()] * 4, [5.0] * 8, min_sessions=2)
    assert of(few, "composite")[3] == "too few sessions: 4 of 5"


def test_all_four_measures_are_compared() -> None:
    spread = range(-2, 3)
    others = [session(tools_failed=2 + n, cost_usd=0.10, active_s=100.0 + n) for n in spread]
    scouts = [worn(tools_failed=4 + n, cost_usd=0.05, active_s=160.0 + n) for n in spread]
    (row,) = lifts(scouts + others, [5.0] * 10)

    # 4 / 10 - 2 / 10 = 0.2; two variances of 0.025: sqrt(0.05 / 5) = 0.1, t(8) = 2.3060.
    assert of(row, "failure_rate") == [
        *(pytest.approx(figure, abs=1e-4) for figure in (0.2, -0.0306, 0.4306)),
        "shown",
    ]
    # Two variances of 2.5: error 1.
    assert of(row, "active_s") == [
        *(pytest.approx(figure, abs=1e-3) for figure in (60, 57.694, 62.306)),
        "shown",
    ]
    # Without any spread there is no interval.
    assert of(row, "cost_usd") == [pytest.approx(-0.05), None, None, "no spread"]
    assert of(row, "composite") == [0.0, None, None, "no spread"]


@pytest.mark.parametrize(("scouts", "others", "n"), [(4, 9, 4), (9, 3, 3), (2, 0, 0)])
def test_with_too_few_sessions_on_a_side_it_says_how_many_there_are(
    scouts: int, others: int, n: int
) -> None:
    (row,) = lifts([worn()] * scouts + [session()] * others, [5.0] * (scouts + others))

    assert of(row, "composite") == [None, None, None, f"not yet: {n} of 5"]
    assert (row["composite_mean"], row["composite_baseline_mean"]) == (None, None)
    assert (row["sessions"], row["baseline_sessions"]) == (scouts, others)


def test_a_measure_counts_the_sessions_in_which_it_is_known() -> None:
    rows = [worn(cost_usd=None)] * 2 + [worn()] * 4 + [session()] * 6
    (row,) = lifts(rows, [5.0] * 5 + [None] + [5.0] * 6)
    assert of(row, "cost_usd") == [None, None, None, "not yet: 4 of 5"]
    assert (row["cost_usd_sessions"], row["cost_usd_baseline_sessions"]) == (4, 6)
    assert (of(row, "composite")[3], row["composite_sessions"]) == ("no spread", 5)
    # A session of one call has a failure rate, 1 / 1 - 0 / 1, and one without calls has none.
    rows = [worn(total_tools=1, tools_failed=1)] * 5 + [session(total_tools=1, tools_failed=0)] * 5
    (row,) = lifts(rows, [5.0] * 10)
    assert of(row, "failure_rate") == [1.0, None, None, "no spread"]
    rows = [worn(total_tools=0, tools_failed=0, cost_usd=float("inf"))] * 5 + [session()] * 5
    (row,) = lifts(rows, [5.0] * 10)
    assert row["failure_rate_state"] == row["cost_usd_state"] == "not yet: 0 of 5"
    assert row["active_s_state"] == "no spread"


@pytest.mark.parametrize("attribution", ["mixed", "remainder"])
def test_mixed_sessions_and_remainders_are_left_out(attribution: str) -> None:
    odd = session(attribution=attribution, masque="Scout" if attribution == "mixed" else None)
    (row,) = lifts([worn()] * 5 + [session()] * 5 + [odd] * 5, [8.0] * 5 + [4.0] * 5 + [0.0] * 5)

    assert (row["sessions"], row["baseline_sessions"]) == (5, 5)
    assert of(row, "composite")[0] == 4.0


def test_organizations_masques_and_kinds_of_task_are_apart() -> None:
    rows = [
        worn(task_class="debug"),
        worn(task_class="review"),
        worn("Critic", task_class="debug"),
        worn(task_class="debug", organization_id="other"),
        session(task_class="debug"),
    ]
    found = lifts(rows, [5.0] * 5)

    keys = MASQUE_LIFT.key
    assert [tuple(row[name] for name in (*keys, "baseline_sessions")) for row in found] == [
        ("default", "Critic", "debug", 1),
        ("default", "Scout", "debug", 1),
        ("default", "Scout", "review", 0),
        ("other", "Scout", "debug", 0),
    ]


def test_it_says_which_dates_it_covers() -> None:
    for scouts, others in (((5, 9), (2, 7)), ((2, 7), (5, 9))):
        rows = [worn(session_date=date(2026, 11, day)) for day in scouts]
        rows += [session(session_date=date(2026, 11, day)) for day in others]
        (row,) = lifts(rows, [5.0] * 4)

        assert (row["first_date"], row["last_date"]) == (date(2026, 11, 2), date(2026, 11, 9))


def test_without_any_masque_there_is_no_row() -> None:
    assert lifts([session()], [5.0]) == []


NOON = datetime.fromisoformat("2026-06-01T12:00:00+00:00")


def fill(workplace: Workplace) -> None:
    """Build a session of Scout and one without a masque on each of two days."""
    for day in range(2):
        masques: dict[str, dict[str, Any]] = {"scout": {"masque__name": "Scout"}, "none": {}}
        for name, columns in masques.items():
            workplace.land("logs.jsonl", landed(f"{name}-{day}", day * DAY_S, **columns), "ab")
    workplace.ingest()
    workplace.build()


def counts(workplace: Workplace, now: datetime, *dates: date) -> list[Any]:
    """Return the sessions on either side, of some dates or of all."""
    lake = workplace.lake
    chosen = dates or lake.partitions(AGENT_SESSIONS)
    lift = compare_masques(lake, workplace.settings, now, chosen)
    return lift.select("sessions", "baseline_sessions").rows()


def test_all_dates_are_compared_or_some(workplace: Workplace) -> None:
    fill(workplace)

    assert counts(workplace, NOW) == [(2, 2)]
    assert counts(workplace, NOW, NOON.date()) == [(1, 1)]


def test_open_sessions_are_left_out(workplace: Workplace) -> None:
    fill(workplace)
    # The sessions of the second day end one second after noon, and count half an hour later.
    second = NOON + timedelta(days=1, minutes=30)

    assert counts(workplace, second) == [(1, 1)]
    assert counts(workplace, second + timedelta(seconds=2)) == [(2, 2)]


def test_the_table_is_one_file_that_is_replaced(workplace: Workplace) -> None:
    assert write_masque_lift(workplace.stores, NOW).is_empty()
    fill(workplace)
    written = write_masque_lift(workplace.stores, NOW)

    assert pl.read_parquet(Path(workplace.lake.place(MASQUE_LIFT, None))).equals(written)
    assert written["composite_state"].to_list() == ["not yet: 2 of 5"]
