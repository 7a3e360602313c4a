"""Judges, the changes between them, and scores on the newest scale."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.judge_changes.domain.judges import (
    MIXED,
    SCORE_COLUMNS,
    Change,
    Judge,
    Turn,
    find_changes,
    first_judged,
    on_newest_scale,
    sessions_of,
)
from evaluation_pipelines.schemas import JUDGE_CHANGES, JUDGE_SCORES
from evaluation_pipelines_tests.judge_changes.change_builders import FORMER, NEW

JUNE = date(2026, 6, 1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def score(
    session: str, day: int, judge: Judge, total: float = 60, hours: float = 0, **columns: Any
) -> dict[str, Any]:
    """A score of a session of a day in June, completed the next night or some hours later."""
    return {
        "score_id": f"{session}-{judge.model}-{hours}",
        "organization_id": "default",
        "session_key": session,
        "session_id": session,
        "session_date": JUNE + timedelta(days=day - 1),
        "content_hash": "c",
        "judge_profile_id": judge.profile_id,
        "judge_profile_version": judge.profile_version,
        "judge_model": judge.model,
        "rubric": judge.rubric,
        "prompt_hash": judge.prompt_hash,
        "status": "completed",
        "total_score": total,
        "completed_at": NOON + timedelta(days=day, hours=hours),
        **columns,
    }


def frame(*scores: dict[str, Any]) -> pl.DataFrame:
    schema = {name: JUDGE_SCORES.schema[name] for name in SCORE_COLUMNS}
    return pl.DataFrame([dict.fromkeys(schema) | row for row in scores], schema=schema)


def changes(*scores: dict[str, Any], current: Judge | None = None) -> list[Change]:
    now = {} if current is None else {current.profile_id: current}
    return find_changes(first_judged(frame(*scores)), now)


THIRD = replace(NEW, rubric="incident-investigation", prompt_hash="c" * 64)
INCIDENTS = replace(FORMER, profile_id="incidents")
SECOND = replace(INCIDENTS, profile_version=2)
REWORDED = replace(FORMER, prompt_hash="b" * 64)


@pytest.mark.parametrize(
    ("scored", "current", "expected"),
    [
        # A date on which another judge scores most sessions: on June 2 the former one has two of
        # three.
        (
            [(1, FORMER), (2, FORMER), (2, NEW), (2, FORMER), (3, NEW), (4, NEW)],
            None,
            [(FORMER, NEW, 3, None, "model")],
        ),
        ([(1, FORMER), (9, FORMER)], None, []),
        ([], None, []),
        ([(1, FORMER)], FORMER, []),
        # A judge that has not scored yet is a change without a date.
        (
            [(1, FORMER), (2, NEW)],
            THIRD,
            [(NEW, THIRD, None, None, "rubric"), (FORMER, NEW, 2, None, "model")],
        ),
        # A change ends where the next begins, and there and back are two.
        (
            [(1, FORMER), (3, NEW), (5, FORMER)],
            None,
            [(NEW, FORMER, 5, None, "model"), (FORMER, NEW, 3, 5, "model")],
        ),
        # Profiles change apart from each other.
        (
            [(1, FORMER), (1, INCIDENTS), (2, FORMER), (2, SECOND)],
            None,
            [(INCIDENTS, SECOND, 2, None, "profile version")],
        ),
        (
            [(1, FORMER), (2, REWORDED)],
            None,
            [(FORMER, REWORDED, 2, None, "wording of the rubric")],
        ),
    ],
)
def test_another_judge_of_most_sessions_of_a_date_is_a_change(
    scored: list[tuple[int, Judge]], current: Judge | None, expected: list[tuple[Any, ...]]
) -> None:
    def june(day: int | None) -> date | None:
        return None if day is None else date(2026, 6, day)

    scores = [score(f"s{number}", *row) for number, row in enumerate(scored)]
    found = changes(*scores, current=current)
    assert found == [
        Change(former, new, june(day), june(end)) for former, new, day, end, _ in expected
    ]
    assert [change.former.differences(change.new) for change in found] == [
        [row[-1]] for row in expected
    ]
    assert [change.profile_id for change in found] == [row[0].profile_id for row in expected]
    assert len({change.change_id for change in found}) == len(found)


def test_a_history_that_is_scored_again_moves_no_date() -> None:
    again = [score(name, day, NEW, 90, 500) for name, day in (("a", 1), ("b", 2))]
    scores = [score("a", 1, FORMER), score("b", 2, FORMER), score("c", 3, NEW), *again]

    assert changes(*scores) == [Change(FORMER, NEW, date(2026, 6, 3))]
    assert first_judged(frame(*scores))["total_score"].to_list() == [60, 60, 60]


def test_the_newest_score_by_the_first_judge_counts() -> None:
    first = first_judged(
        frame(
            score("a", 1, FORMER, 50),
            score("a", 1, FORMER, 70, 5, content_hash="longer"),
            score("a", 1, NEW, 90, 9),
            score("b", 1, FORMER, 40, status="failed", total_score=None),
        )
    )

    assert first.select("session_key", "total_score", "content_hash").rows() == [
        ("a", 70.0, "longer")
    ]


def test_sessions_of_a_judge_are_those_of_the_dates() -> None:
    first = first_judged(
        frame(*(score(f"s{day}", day, FORMER) for day in (1, 2, 3)), score("n", 2, NEW))
    )

    found = sessions_of(first, FORMER, date(2026, 6, 1), date(2026, 6, 3))
    assert found["session_key"].to_list() == ["s1", "s2"]


def test_a_change_is_recent_for_56_days_and_until_it_has_begun() -> None:
    change = Change(FORMER, NEW, JUNE)

    # June has 30 days: June 1 and 56 days is July 27.
    assert change.is_recent(date(2026, 7, 27))
    assert not change.is_recent(date(2026, 7, 28))
    assert Change(FORMER, NEW, None).is_recent(date(2036, 1, 1))


DAYS = [date(2026, 6, day) for day in range(1, 31)]


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    usual = {"judge_profile_id": "default", "trend": "bridged", "reason": None}
    return pl.DataFrame(
        [{"change_id": f"{place}", **usual, **row} for place, row in enumerate(rows)],
        schema=JUDGE_CHANGES.schema,
    )


def sessions(*rows: tuple[date, str | None, str, float | None]) -> pl.DataFrame:
    columns = {
        "session_date": pl.Date,
        "automatic_judge_model": pl.String,
        "effective_source": pl.String,
        "effective_100": pl.Float64,
    }
    found = pl.DataFrame(rows, schema=columns, orient="row")
    return found.with_columns(profile_id=pl.lit(None, dtype=pl.String))


A_TO_B = {
    "changed_on": DAYS[9],
    "former_model": "a",
    "new_model": "b",
    "judges_part": 4.0,
}
B_TO_C = {
    "changed_on": DAYS[19],
    "former_model": "b",
    "new_model": "c",
    "judges_part": -1.5,
}


def test_scores_before_bridged_changes_get_the_parts_of_all_that_followed() -> None:
    rows = sessions(
        (DAYS[0], "a", "judge", 60.0),
        (DAYS[10], "b", "judge", 60.0),
        (DAYS[20], "c", "judge", 60.0),
        (DAYS[0], "c", "judge", 60.0),  # scored again by the newest judge
        (DAYS[0], None, "override", 60.0),
        (DAYS[0], None, "composite", 60.0),
        (DAYS[0], None, "none", None),
    )
    scaled, turns = on_newest_scale(rows, table(B_TO_C, A_TO_B))
    # 60 + 4 - 1.5; 60 - 1.5.
    assert scaled["score"].to_list() == [62.5, 58.5, 60.0, 60.0, 60.0, 60.0, None]
    assert scaled["effective_100"].to_list() == rows["effective_100"].to_list()
    assert turns == [
        Turn(DAYS[9], "default", "a", "b", 4.0, None),
        Turn(DAYS[19], "default", "b", "c", -1.5, None),
    ]


NO_ANCHORS = "no anchors have been drawn"
CUT = {**A_TO_B, "trend": "cut", "reason": NO_ANCHORS, "judges_part": None}
OF_OTHERS = {**A_TO_B, "judge_profile_id": "code", "changed_on": DAYS[20], "former_model": "b"}


@pytest.mark.parametrize(
    ("row", "profile", "known", "score", "expected"),
    [
        # A cut trend shifts nothing, and a card that contains a judgment cuts it.
        ((DAYS[0], "a", "judge", 60.0), None, [CUT], 60.0, [(None, NO_ANCHORS)]),
        (
            (DAYS[0], "a", "scorecard", 60.0),
            "code",
            [{**A_TO_B, "judge_profile_id": "code"}],
            60.0,
            [(None, MIXED)],
        ),
        # Changes that no session shows are left out.
        (
            (DAYS[10], "b", "judge", 60.0),
            None,
            [A_TO_B, {**A_TO_B, "changed_on": None}, OF_OTHERS],
            60.0,
            [],
        ),
        # Another wording of the same model counts by its day.
        ((DAYS[0], "a", "judge", 60.0), None, [{**A_TO_B, "new_model": "a"}], 64.0, [(4.0, None)]),
        ((DAYS[10], "a", "judge", 60.0), None, [{**A_TO_B, "new_model": "a"}], 60.0, None),
    ],
)
def test_what_is_not_bridged_shifts_nothing(
    row: tuple[date, str, str, float],
    profile: str | None,
    known: list[dict[str, Any]],
    score: float,
    expected: list[tuple[float | None, str | None]] | None,
) -> None:
    rows = sessions(row).with_columns(profile_id=pl.lit(profile, dtype=pl.String))
    scaled, turns = on_newest_scale(rows, table(*known))
    assert scaled["score"].to_list() == [score]
    assert expected is None or [(turn.shift, turn.reason) for turn in turns] == expected
