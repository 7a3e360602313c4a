"""Trends by day and week: figures, cuts, and charts."""

from collections.abc import Mapping
from datetime import date

import polars as pl

from evaluation_pipelines.judge_changes.domain.judges import Turn
from evaluation_pipelines.service.pages.domain.trends import (
    WHOLE,
    answers_of,
    cells,
    charts,
    dimensions,
    display_names,
    eras,
    merges_note,
    names_of,
    trend_rows,
    turn_sentence,
    unnamed_sessions,
    with_absent,
)

MONDAY, TUESDAY, NEXT_MONDAY = date(2026, 6, 1), date(2026, 6, 2), date(2026, 6, 8)
CUT = Turn(TUESDAY, "default", "a", "b", None, "no anchors have been drawn")
BRIDGED = Turn(TUESDAY, "default", "a", "b", 4.0, None)

ROWS = pl.DataFrame(
    {
        "session_date": [MONDAY, MONDAY, TUESDAY, NEXT_MONDAY],
        "model": ["x", "x", "y", None],
        "effective_100": [50.0, None, 80.0, 70.0],
        "score": [54.0, None, 80.0, 70.0],
        "cost_usd": [0.5, None, 1.5, None],
        "total_tokens": [100, 300, 1000, None],
        "total_tools": [10, 5, 0, None],
        "tools_failed": [2, None, 0, None],
        "status": ["completed", "failed", "completed", "completed"],
        "is_scored": [True, True, True, True],
        "awaits_review": [False, True, False, False],
        "merged": [True, False, None, None],
    }
)


def test_a_period_has_means_of_what_is_known() -> None:
    first, *_ = trend_rows(ROWS, "model", "day", []).to_dicts()
    assert first == {
        "period": MONDAY,
        "era": 0,
        "name": "x",
        "first_day": MONDAY,
        "last_day": MONDAY,
        "sessions": 2,
        # Of the two that are scored, one waits for its review, and is in no mean.
        "scored": 2,
        "review_due": 1,
        "shown_scores": 1,
        "quality": 54.0,
        "quality_as_scored": 50.0,
        "known_costs": 1,
        "cost_usd": 0.5,
        "cost_per_session": 0.5,
        "known_tokens": 2,
        "tokens_per_session": 200.0,
        # Calls count where it is known how many failed: 2 of 10.
        "calls": 10,
        "failed_calls": 2,
        "failed_share": 0.2,
        "failed_sessions": 1,
        # One of two.
        "known_merged": 2,
        "merged_share": 0.5,
    }


def test_merges_are_not_final_while_commits_are_asked_about() -> None:
    rows = trend_rows(ROWS, None, "day", [])
    # The last day is 8 June.
    assert merges_note(rows, date(2026, 6, 8)) == (
        "Sessions since 2026-06-08 may still be merged: their share is not final."
    )
    assert merges_note(rows, date(2026, 6, 9)) is None
    assert merges_note(rows.with_columns(known_merged=0), date(2026, 6, 8)) is None


def test_a_cost_says_of_how_many_sessions_it_is_known_and_is_drawn_of_three() -> None:
    """Ten of eleven costs are unknown, and the one of a run that asked nothing is 0."""
    rows = pl.concat([ROWS[1:2]] * 10 + [ROWS[:1].with_columns(cost_usd=0.0)])
    days = trend_rows(rows, "model", "day", [])
    shown = cells(days.to_dicts()[0])[2]
    assert (shown[0], shown[2]) == ("$0.00 (1 of 11)", "total $0.00")
    assert [cells(row)[2][0] for row in trend_rows(ROWS[2:], "model", "day", []).to_dicts()] == [
        *("$1.50", "-"),
    ]
    assert "Cost per session" not in [chart[0] for chart in charts(days, ["x"], [], url)]


def test_a_dot_names_the_sessions_that_its_mean_is_of_and_has_three() -> None:
    """Of five sessions the scores of four are shown, and the tokens of two are known."""
    waits = {"awaits_review": pl.lit(value=True), "score": pl.lit(None, pl.Float64)}
    unknown = pl.lit(None, pl.Int64)
    one, tokens = ROWS[:1], ROWS[:1].with_columns(total_tokens=unknown)
    rows = pl.concat([one, one.with_columns(**waits), tokens, tokens, tokens])
    day = trend_rows(rows, "model", "day", [])
    drawn = dict(charts(day, ["x"], [], url))
    assert "<title>x, 2026-06-01: 54.0, 4 sessions</title>" in drawn["Mean score, 0-100"]
    assert "Tokens of a session" not in drawn  # two are too few
    assert cells(day.to_dicts()[0])[3][0] == "100 (2 of 5)"
    waiting = pl.concat([one, one, one.with_columns(**waits)])  # three sessions, two scores
    found = charts(trend_rows(waiting, "model", "day", []), ["x"], [], url)
    assert "Mean score, 0-100" not in [caption for caption, *_ in found]


def test_weeks_begin_on_monday_and_no_period_crosses_a_cut() -> None:
    weeks = trend_rows(ROWS, None, "week", [BRIDGED])
    assert weeks.select("period", "sessions").rows() == [(MONDAY, 3), (NEXT_MONDAY, 1)]
    assert weeks["failed_share"].to_list() == [0.2, None]
    cut = trend_rows(ROWS, None, "week", [CUT]).select("period", "first_day", "sessions")
    assert cut.rows() == [(MONDAY, MONDAY, 2), (MONDAY, TUESDAY, 1), (NEXT_MONDAY, NEXT_MONDAY, 1)]


def test_rows_on_both_sides_of_a_cut_name_the_judge() -> None:
    rows = trend_rows(ROWS, None, WHOLE, [CUT])
    named = [(eras([CUT])[row["era"]], row["sessions"]) for row in rows.to_dicts()]
    assert named == [("judge before 2026-06-02", 2), ("judge since 2026-06-02", 2)]
    assert eras([BRIDGED]) == []


def test_names_with_most_sessions_come_first() -> None:
    assert names_of(trend_rows(ROWS, "model", "day", [])) == ["x", "y", None]


def url(row: Mapping[str, object]) -> str:
    return f"/sessions?from={row['first_day']}&model=x"


def test_curves_end_at_a_cut_and_dashes_show_what_was_scored() -> None:
    often = pl.concat([ROWS] * 3)
    captions = {
        turn: charts(trend_rows(often, None, "day", [turn]), ["all sessions"], [turn], url)
        for turn in (CUT, BRIDGED)
    }
    quality = {turn: found[0][1] for turn, found in captions.items()}
    assert quality[CUT].count("<polyline") == 2
    assert 'stroke-dasharray="5 4"' not in quality[CUT]
    assert quality[CUT].count('class="mark"') == 1
    assert quality[BRIDGED].count("<polyline") == 2  # as shifted, and as scored
    assert quality[BRIDGED].count('stroke-dasharray="5 4"') == 1
    assert '<a href="/sessions?from=2026-06-01&amp;model=x">' in quality[CUT]
    assert captions[CUT][1][1].count("<polyline") == 1  # costs do not depend on a judge


def test_a_shift_that_cannot_be_seen_is_not_drawn() -> None:
    few = pl.concat([ROWS] * 3).with_columns(score=pl.col("effective_100") + 0.9)
    (quality, *_) = charts(
        trend_rows(few, None, "day", [BRIDGED]), ["all sessions"], [BRIDGED], url
    )
    assert 'stroke-dasharray="5 4"' not in quality[1]
    assert quality[1].count('class="mark"') == 1  # the day of the change is marked all the same


def test_repositories_have_their_short_names_and_their_links_the_whole_ones() -> None:
    address = "https://git.example/team/shop.git"
    rows = trend_rows(ROWS.with_columns(repository=pl.lit(address)), "repository", "all", [])
    assert rows["name"].to_list() == [address]
    assert display_names(rows, "repository") == {address: "shop"}
    assert answers_of(rows, display_names(rows, "repository"))[1] == ("Most sessions", "shop (4)")
    assert display_names(rows, "model") == {}
    often = pl.concat([ROWS.with_columns(repository=pl.lit(address))] * 3)
    days = trend_rows(often, "repository", "day", [])
    (quality, *_) = charts(days, [address], [], url, shown_names=display_names(days, "repository"))
    assert "<title>shop, 2026-06-01: " in quality[1]
    assert address not in quality[1]


def test_periods_with_few_sessions_have_no_dot() -> None:
    assert charts(trend_rows(ROWS, None, "day", []), ["all sessions"], [], url) == []


def test_a_change_is_said_in_a_sentence() -> None:
    assert turn_sentence(BRIDGED) == (
        "The judge of profile default changed on 2026-06-02 from a to b. Earlier judge scores are "
        "shown adjusted by +4.0 points. The dashed line is not adjusted."
    )
    assert turn_sentence(BRIDGED, is_visible=False).endswith(
        " +4.0 points. They are few: no mean differs by a whole point."
    )
    assert turn_sentence(CUT).endswith(": earlier scores are not comparable.")


def test_people_and_teams_are_dimensions_where_the_settings_show_them() -> None:
    assert "person" in dimensions(frozenset())
    assert "person" not in dimensions({"person_id"})
    assert "team" not in dimensions({"person_id", "team"})


def test_all_days_together_are_one_row_for_each_name_the_lowest_first() -> None:
    rows = trend_rows(ROWS, "model", "all", [])
    assert rows["period"].to_list() == [MONDAY] * 3
    every = pl.concat(
        [
            ROWS.select("session_date", "model"),
            pl.DataFrame({"session_date": [TUESDAY, MONDAY], "model": ["z", "z"]}),
        ]
    )
    found = with_absent(rows, every, "model")
    assert found.select("name", "sessions", "last_day", "quality").rows() == [
        ("x", 2, MONDAY, 54.0),
        (None, 1, NEXT_MONDAY, 70.0),
        ("y", 1, TUESDAY, 80.0),
        ("z", 0, TUESDAY, None),  # not in these days
    ]
    assert cells(found.row(3, named=True)) == [
        (shown, value, "")
        for shown, value in (("-", None), ("0", 0), ("-", None), ("-", None), ("-", None), ("0", 0))
    ]


def test_who_has_most_sessions_costs_most_and_has_none_is_said() -> None:
    absent = ROWS.head(1).with_columns(model=pl.lit("z"), session_date=date(2026, 5, 1))
    rows = with_absent(trend_rows(ROWS, "model", "all", [CUT]), pl.concat([ROWS, absent]), "model")
    assert answers_of(rows) == [
        ("Lowest mean score (at least 3 sessions)", "none"),  # no model has 3 sessions
        ("Most sessions", "x (2), y (1)"),
        ("Highest known cost", "y ($1.50), x ($0.50)"),
        ("No recent sessions", "z (last 2026-05-01)"),
    ]
    assert unnamed_sessions(rows) == 1  # it is in none of them
    names = pl.concat([ROWS.head(1).with_columns(model=pl.lit(letter)) for letter in "abcde"])
    _, most, paid, gone = answers_of(trend_rows(names, "model", "all", []))
    assert most[1] == "a (1), b (1), c (1), 2 more"
    assert (paid[1][:9], gone[1]) == ("a ($0.50)", "none")


def test_the_lowest_mean_score_is_of_three_sessions_and_of_the_last_judge() -> None:
    def row(name: str, era: int, scored: int, review_due: int, quality: float) -> dict[str, object]:
        counts = {"sessions": scored, "shown_scores": scored - review_due, "known_costs": 0}
        days = {"last_day": MONDAY, "cost_usd": 0.0}
        return {"name": name, "era": era, "quality": quality, **counts, **days}

    rows = pl.DataFrame(
        [
            row("low", 1, 3, 0, 51.25),
            row("two", 1, 3, 1, 10.0),  # two scores are shown, the third is reviewed
            row("high", 1, 1200, 0, 90.0),
            row("former", 0, 9, 0, 20.0),  # by the judge of before
            row("low", 0, 9, 0, 99.0),
        ]
    )
    assert answers_of(rows)[0] == (
        "Lowest mean score (at least 3 sessions)",
        "low (51.3, 3 sessions), high (90.0, 1,200 sessions)",
    )
