"""What people are told: in plain words, whatever telemetry put into them."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from evaluation_pipelines.alerts.domain.messages import (
    Alert,
    of_failed_run,
    of_open_books,
    of_parked_date,
    of_quality_risks,
    of_regression,
    of_stale_source,
    of_unjudged,
    untrusted,
)

DAY = date(2026, 6, 1)
HOSTILE = "<!channel> @here [x](http://evil.example) \n<script>" + "a" * 500
GONE_WORSE = {
    "classification_label": "code",
    "profile_id": None,
    "profile_version": None,
    "model": "aspen-4",
    "provider": "orchard",
    "recent_score": 71.2,
    "before_score": 80.0,
    "change": -8.8,
    "recent_runs": 40,
    "before_runs": 160,
}


def risk(**payload: object) -> dict[str, Any]:
    return {
        "session_key": "s1#baseline-1",
        "effective_100": 12.4,
        "effective_source": "scorecard",
        "model": None,
        "classification_label": "code",
        **payload,
    }


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a & b", "a &amp; b"),
        ("<!channel>", "&lt;!channel&gt;"),
        ("@here", "@\u200bhere"),
        ("http://evil.example", "http:\u200b//evil.example"),
        ("![x](y)", "![x]\u200b(y)"),
        ("two\nlines\x1b[31m", "two lines [31m"),
        ("abcdef", "abcd…"),
    ],
)
def test_untrusted_text_is_plain_and_short(said: str, shown: str) -> None:
    assert untrusted(said, 5 if said == "abcdef" else 300) == shown


@pytest.mark.parametrize(
    "alert",
    [
        of_parked_date(DAY, 4, HOSTILE),
        of_unjudged(DAY, HOSTILE),
        of_quality_risks("7", [risk(session_key=HOSTILE, model=HOSTILE)] * 100),
        of_regression({**GONE_WORSE, "model": HOSTILE, "classification_label": HOSTILE}),
        of_failed_run("job", [HOSTILE] * 100, "run", HOSTILE, DAY),
        of_open_books(DAY, HOSTILE),
        of_stale_source(HOSTILE, datetime(2026, 6, 1, tzinfo=UTC), timedelta(hours=96)),
    ],
    ids=lambda alert: alert.kind,
)
def test_nothing_of_it_mentions_links_or_floods(alert: Alert) -> None:
    told = f"{alert.title}\n{alert.text}"
    assert "<" not in told
    assert "@here" not in told
    assert "://" not in told
    assert "](" not in told
    assert len(alert.title) <= 200
    assert len(told) < 3000
    assert told.count("\n") <= 8


def test_risks_are_listed_up_to_five_and_counted_beyond() -> None:
    few = of_quality_risks("7", [risk()])
    assert few.title == "1 session is a quality risk"
    assert few.text.splitlines()[0] == (
        "s1#baseline-1: 12 of 100 (scorecard; model unknown, label code)"
    )
    many = of_quality_risks("9", [risk(model=f"m{n}") for n in range(8)])
    assert many.title == "8 sessions are a quality risk"
    assert "model m4" in many.text
    assert "model m5" not in many.text
    assert "and 3 more" in many.text


def test_a_regression_says_how_much_and_of_how_many() -> None:
    alert = of_regression(GONE_WORSE)
    assert alert.title == "aspen-4 got worse at code"
    assert alert.text.startswith(
        "Its mean score of the last 7 days is 71.2 (40 sessions), 8.8 points below the 28 days "
        "before (80.0, 160 sessions)."
    )
    assert alert.cause == "code / None / None / aspen-4 / orchard"


def test_a_failed_run_is_another_one_on_another_day_or_at_another_step() -> None:
    causes = {
        of_failed_run("job", steps, run, "why", day).cause
        for steps, run, day in (
            (["a"], "run-1", DAY),
            (["a"], "run-2", DAY),
            (["b"], "run-3", DAY),
            ([], "run-4", DAY),
            (["a"], "run-5", DAY + timedelta(days=1)),
        )
    }
    assert len(causes) == 4
    assert "no step began (run run-4)" in of_failed_run("job", [], "run-4", "why", DAY).text


def test_silence_is_told_with_its_last_sign_of_life() -> None:
    alert = of_stale_source(
        "claude_code", datetime(2026, 6, 1, 9, 5, tzinfo=UTC), timedelta(hours=96)
    )
    assert alert.title == "no telemetry of claude_code for more than 96 hours"
    assert alert.text.startswith("Its newest event is of 2026-06-01 09:05 UTC.")
