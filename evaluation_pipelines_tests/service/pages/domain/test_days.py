"""Sessions of the last days by the band of their score."""

from datetime import UTC, date, datetime, timedelta

import polars as pl

from evaluation_pipelines.service.pages.domain.days import days_chart, last_days, sources

TODAY = date(2026, 6, 3)

ROWS = pl.DataFrame(
    {
        "session_date": [TODAY, TODAY, TODAY, TODAY, TODAY - timedelta(days=1)],
        "effective_100": [75.0, 74.9, 49.9, None, 50.0],
        "score": [75.0, 74.9, 49.9, None, 54.0],
        "cost_usd": [0.25, None, 0.5, None, None],
        "awaits_review": [True, False, False, False, False],
    }
)


def test_days_are_counted_by_band_and_empty_ones_are_among_them() -> None:
    before, yesterday, today = last_days(ROWS, TODAY, 3)
    assert (before.sessions, before.mean_score) == (0, None)
    assert yesterday.counts == {"green": 0, "yellow": 1, "red": 0, "unscored": 0}
    assert yesterday.mean_score == 54.0  # on the scale of the newest judge
    assert today.counts == {"green": 1, "yellow": 1, "red": 1, "unscored": 1}
    assert today.cost_usd == 0.75
    # (75 + 74.9 + 49.9) / 3 = 66.6
    assert today.cells == ("1", "1", "1", "1", "66.6", "$0.75")


def test_each_bar_leads_to_its_day() -> None:
    chart = days_chart(last_days(ROWS, TODAY, 2), ["/a?x=1&y=2", "/b"])
    assert '<a href="/a?x=1&amp;y=2"><title>2026-06-02, sessions 1: 0 green, 1 yellow' in chart
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
