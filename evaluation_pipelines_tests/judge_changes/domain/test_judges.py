"""Judges, the changes between them, and scores on the newest scale."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

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
    return pl.DataFrame([dict.fromkeys(schema) | each for each in scores], schema=schema)


def changes(*scores: dict[str, Any], current: Judge | None = None) -> list[Change]:
    now = {} if current is None else {current.profile_id: current}
    return find_changes(first_judged(frame(*scores)), now)


def test_a_date_on_which_another_judge_scores_most_sessions_is_a_change() -> None:
    found = changes(
        score("a", 1, FORMER),
        score("b", 2, FORMER),
        score("c", 2, NEW),
        score("d", 2, FORMER),
        score("e", 3, NEW),
        score("f", 4, NEW),
    )

    # On June 2 the former judge has two of three sessions.
    assert found == [Change(FORMER, NEW, date(2026, 6, 3))]
    assert found[0].former.differences(found[0].new) == ["model"]


def test_one_judge_is_no_change() -> None:
    assert changes(score("a", 1, FORMER), score("b", 9, FORMER)) == []
    assert changes() == []
    assert changes(score("a", 1, FORMER), current=FORMER) == []


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


def test_a_judge_that_has_not_scored_yet_is_a_change_without_a_date() -> None:
    third = replace(NEW, rubric="incident-investigation", prompt_hash="c" * 64)
    found = changes(score("a", 1, FORMER), score("b", 2, NEW), current=third)

    assert found == [
        Change(NEW, third, None),
        Change(FORMER, NEW, date(2026, 6, 2)),
    ]
    assert NEW.differences(third) == ["rubric"]


def test_a_change_ends_where_the_next_begins_and_there_and_back_are_two() -> None:
    found = changes(score("a", 1, FORMER), score("b", 3, NEW), score("c", 5, FORMER))

    assert found == [
        Change(NEW, FORMER, date(2026, 6, 5)),
        Change(FORMER, NEW, date(2026, 6, 3), date(2026, 6, 5)),
    ]
    assert len({each.change_id for each in found}) == 2


def test_profiles_change_apart_from_each_other() -> None:
    other = replace(FORMER, profile_id="incidents")
    later = replace(other, profile_version=2)
    found = changes(
        score("a", 1, FORMER),
        score("a", 1, other),
        score("b", 2, FORMER),
        score("b", 2, later),
    )

    assert found == [Change(other, later, date(2026, 6, 2))]
    assert other.differences(later) == ["profile version"]
    assert found[0].profile_id == "incidents"


def test_another_wording_of_the_same_rubric_is_another_judge() -> None:
    reworded = replace(FORMER, prompt_hash="b" * 64)

    (found,) = changes(score("a", 1, FORMER), score("b", 2, reworded))
    assert found.former.differences(found.new) == ["wording of the rubric"]


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


def test_a_cut_trend_shifts_nothing() -> None:
    rows = sessions((DAYS[0], "a", "judge", 60.0), (DAYS[10], "b", "judge", 60.0))
    cut = {**A_TO_B, "trend": "cut", "reason": "no anchors have been drawn", "judges_part": None}
    scaled, turns = on_newest_scale(rows, table(cut))
    assert scaled["score"].to_list() == [60.0, 60.0]
    assert turns == [Turn(DAYS[9], "default", "a", "b", None, "no anchors have been drawn")]


def test_scorecards_that_contain_a_judgment_cut_the_trend() -> None:
    card = sessions((DAYS[0], "a", "scorecard", 60.0)).with_columns(profile_id=pl.lit("code"))
    change = {**A_TO_B, "judge_profile_id": "code"}
    scaled, turns = on_newest_scale(card, table(change))
    assert scaled["score"].to_list() == [60.0]
    assert [(each.shift, each.reason) for each in turns] == [(None, MIXED)]


def test_changes_that_no_session_shows_are_left_out() -> None:
    rows = sessions((DAYS[10], "b", "judge", 60.0))
    unused = {**A_TO_B, "changed_on": None}
    of_others = {**A_TO_B, "judge_profile_id": "code", "changed_on": DAYS[20], "former_model": "b"}
    assert on_newest_scale(rows, table(A_TO_B, unused, of_others))[1] == []


def test_another_wording_of_the_same_model_counts_by_its_day() -> None:
    rows = sessions((DAYS[0], "a", "judge", 60.0), (DAYS[10], "a", "judge", 60.0))
    scaled, _ = on_newest_scale(rows, table({**A_TO_B, "new_model": "a"}))
    assert scaled["score"].to_list() == [64.0, 60.0]
