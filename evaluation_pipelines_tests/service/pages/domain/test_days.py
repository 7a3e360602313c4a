"""Sessions of the last days by the band of their score."""

from datetime import UTC, date, datetime, timedelta

import polars as pl

from evaluation_pipelines.service.pages.domain.days import days_chart, last_days, sources

TODAY = date(2026, 6, 3)

ROWS = pl.DataFrame(
    {
        "session_date": [TODAY, TODAY, TODAY, TODAY, TODAY - timedelta(days=1)],
        "effective_100": [75.0, None, 49.9, None, 50.0],
        "score": [75.0, None, 49.9, None, 54.0],
        "is_scored": [True, True, True, False, True],
        "cost_usd": [0.25, None, 0.5, None, None],
        "awaits_review": [False, True, False, False, False],
    }
)


def test_days_are_counted_by_band_and_empty_ones_are_among_them() -> None:
    before, yesterday, today = last_days(ROWS, TODAY, 3)
    assert (before.sessions, before.mean_score) == (0, None)
    assert yesterday.counts == {"green": 0, "yellow": 1, "red": 0, "due": 0, "unscored": 0}
    assert yesterday.mean_score == 54.0  # on the scale of the newest judge
    assert today.counts == {"green": 1, "yellow": 0, "red": 1, "due": 1, "unscored": 1}
    assert today.cost_usd == 0.75
    # Four sessions, three of them scored, of which one is not shown: (75 + 49.9) / 2 = 62.45
    assert today.cells == ("4", "3", "1", "0", "1", "1", "1", "62.5", "$0.75")


def test_each_bar_leads_to_its_day() -> None:
    chart = days_chart(last_days(ROWS, TODAY, 2), ["/a?x=1&y=2", "/b"])
    assert '<a href="/a?x=1&amp;y=2"><title>2026-06-02, 1 session; 75-100: 0, 50-74: 1' in chart
    # Of four sessions in 154 pixels, each is 38.5 high.
    assert chart.count('height="38.5"') == 5
    assert 'class="unscored"' in chart


def test_a_chart_without_sessions_has_no_bars() -> None:
    chart = days_chart(last_days(ROWS.clear(), TODAY, 2), ["/a", "/b"])
    assert 'class="green"' not in chart


def test_sources_name_the_newest_of_each_program() -> None:
    rows = pl.DataFrame(
        {
            "source_cli": ["codex", "codex", None],
            "ended_at": [datetime(2026, 6, day, tzinfo=UTC) for day in (1, 3, 2)],
            "session_date": [date(2026, 6, 1), TODAY, TODAY - timedelta(days=7)],
        }
    )
    found = [(each.name, each.newest.day, each.sessions) for each in sources(rows, TODAY)]
    assert found == [("codex", 3, 2), ("unknown", 2, 0)]
