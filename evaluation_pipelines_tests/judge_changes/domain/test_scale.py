"""Scores of a trend on the scale of the newest judge."""

from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.judge_changes.domain.judges import MIXED, Turn, on_newest_scale
from evaluation_pipelines.schemas import JUDGE_CHANGES

JUNE = [date(2026, 6, day) for day in range(1, 31)]


def changes(*rows: dict[str, Any]) -> pl.DataFrame:
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
    "changed_on": JUNE[9],
    "former_model": "a",
    "new_model": "b",
    "judges_part": 4.0,
}
B_TO_C = {
    "changed_on": JUNE[19],
    "former_model": "b",
    "new_model": "c",
    "judges_part": -1.5,
}


def test_scores_before_bridged_changes_get_the_parts_of_all_that_followed() -> None:
    rows = sessions(
        (JUNE[0], "a", "judge", 60.0),
        (JUNE[10], "b", "judge", 60.0),
        (JUNE[20], "c", "judge", 60.0),
        (JUNE[0], "c", "judge", 60.0),  # scored again by the newest judge
        (JUNE[0], None, "override", 60.0),
        (JUNE[0], None, "composite", 60.0),
        (JUNE[0], None, "none", None),
    )
    scaled, turns = on_newest_scale(rows, changes(B_TO_C, A_TO_B))
    # 60 + 4 - 1.5; 60 - 1.5.
    assert scaled["score"].to_list() == [62.5, 58.5, 60.0, 60.0, 60.0, 60.0, None]
    assert scaled["effective_100"].to_list() == rows["effective_100"].to_list()
    assert turns == [
        Turn(JUNE[9], "default", "a", "b", 4.0, None),
        Turn(JUNE[19], "default", "b", "c", -1.5, None),
    ]


def test_a_cut_trend_shifts_nothing() -> None:
    rows = sessions((JUNE[0], "a", "judge", 60.0), (JUNE[10], "b", "judge", 60.0))
    cut = {**A_TO_B, "trend": "cut", "reason": "no anchors have been drawn", "judges_part": None}
    scaled, turns = on_newest_scale(rows, changes(cut))
    assert scaled["score"].to_list() == [60.0, 60.0]
    assert turns == [Turn(JUNE[9], "default", "a", "b", None, "no anchors have been drawn")]


def test_scorecards_that_contain_a_judgment_cut_the_trend() -> None:
    card = sessions((JUNE[0], "a", "scorecard", 60.0)).with_columns(profile_id=pl.lit("code"))
    change = {**A_TO_B, "judge_profile_id": "code"}
    scaled, turns = on_newest_scale(card, changes(change))
    assert scaled["score"].to_list() == [60.0]
    assert [(each.shift, each.reason) for each in turns] == [(None, MIXED)]


def test_changes_that_no_session_shows_are_left_out() -> None:
    rows = sessions((JUNE[10], "b", "judge", 60.0))
    unused = {**A_TO_B, "changed_on": None}
    of_others = {**A_TO_B, "judge_profile_id": "code", "changed_on": JUNE[20], "former_model": "b"}
    assert on_newest_scale(rows, changes(A_TO_B, unused, of_others))[1] == []


def test_another_wording_of_the_same_model_counts_by_its_day() -> None:
    rows = sessions((JUNE[0], "a", "judge", 60.0), (JUNE[10], "a", "judge", 60.0))
    scaled, _ = on_newest_scale(rows, changes({**A_TO_B, "new_model": "a"}))
    assert scaled["score"].to_list() == [64.0, 60.0]
