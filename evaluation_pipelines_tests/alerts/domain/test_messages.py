"""Texts of alerts stay plain, whatever telemetry puts into them."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from evaluation_pipelines.alerts.domain.messages import (
    Alert,
    failed_run_alert,
    judge_down_alert,
    open_books_alert,
    parked_date_alert,
    quality_risk_alert,
    regression_alert,
    run_of,
    sanitize,
    stale_source_alert,
    unjudged_alert,
)

DAY = date(2026, 6, 1)
HOSTILE = "<!channel> @here [x](http://evil.example) \n<script>" + "a" * 500
REGRESSED = {
    "classification_label": "code",
    "profile_id": None,
    "profile_version": None,
    "model": "aspen-4",
    "provider": "orchard",
    "model_variant": None,
    "channel": "scores",
    "window_since": datetime(2026, 5, 18, tzinfo=UTC),
    "recent_score": 71.2,
    "before_score": 80.0,
    "change": -8.8,
    "change_low": -14.4,
    "change_high": -3.2,
    "recent_runs": 40,
    "before_runs": 160,
    "before_days": 90,
    "people": 3,
    "largest_share": 0.5,
    "change_without_one": -7.0,
    "worst_sessions": ["s7#baseline-1", "s9#baseline-1"],
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
    ("value", "shown"),
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
def test_sanitized_text_is_plain_and_short(value: str, shown: str) -> None:
    assert sanitize(value, 5 if value == "abcdef" else 300) == shown


@pytest.mark.parametrize(
    "alert",
    [
        parked_date_alert(DAY, 4, HOSTILE),
        unjudged_alert(DAY, HOSTILE),
        judge_down_alert(HOSTILE),
        quality_risk_alert("7", [risk(session_key=HOSTILE, model=HOSTILE)] * 100),
        regression_alert(
            {
                **REGRESSED,
                "model": HOSTILE,
                "model_variant": HOSTILE,
                "classification_label": HOSTILE,
                "worst_sessions": [HOSTILE] * 5,
            }
        ),
        failed_run_alert("job", [HOSTILE] * 100, "run", HOSTILE, DAY),
        open_books_alert(DAY, HOSTILE),
        stale_source_alert(HOSTILE, datetime(2026, 6, 1, tzinfo=UTC), timedelta(hours=96)),
    ],
    ids=lambda alert: alert.kind,
)
def test_no_alert_contains_a_mention_or_a_link_or_is_long(alert: Alert) -> None:
    sent = f"{alert.title}\n{alert.text}"
    assert "<" not in sent
    assert "@here" not in sent
    assert "://" not in sent
    assert "](" not in sent
    assert len(alert.title) <= 200
    assert len(sent) < 3000
    assert sent.count("\n") <= 8


def test_risks_are_listed_up_to_five_and_counted_beyond() -> None:
    few = quality_risk_alert("7", [risk()])
    assert few.title == "1 session is a quality risk"
    assert few.text.splitlines()[0] == (
        "s1#baseline-1: 12 of 100 (scorecard; model unknown, label code)"
    )
    many = quality_risk_alert("9", [risk(model=f"m{n}") for n in range(8)])
    assert many.title == "8 sessions are a quality risk"
    assert "model m4" in many.text
    assert "model m5" not in many.text
    assert "and 3 more" in many.text


def test_the_alert_about_a_regression_says_since_when_how_much_and_where_to_look() -> None:
    alert = regression_alert(REGRESSED)
    assert alert.title == "aspen-4 got worse at code"
    assert alert.text.startswith(
        "Down 8.8 points since 2026-05-18 (3.2 to 14.4). "
        "Mean automatic score: 71.2 in 40 sessions since then, 80.0 in the 90 days before "
    )
    assert "Look at: s7#baseline-1, s9#baseline-1\n" in alert.text
    assert alert.cause == "code / None / None / aspen-4 / orchard"
    variant = regression_alert({**REGRESSED, "model_variant": "effort high"})
    assert variant.title == "aspen-4 (effort high) got worse at code"
    assert variant.cause == f"{alert.cause} / effort high"


def test_a_failed_run_on_another_day_or_at_another_step_is_another_alert() -> None:
    causes = {
        failed_run_alert("job", steps, run, "why", day).cause
        for steps, run, day in (
            (["a"], "run-1", DAY),
            (["a"], "run-2", DAY),
            (["b"], "run-3", DAY),
            ([], "run-4", DAY),
            (["a"], "run-5", DAY + timedelta(days=1)),
        )
    }
    assert len(causes) == 4
    last = failed_run_alert("job", [], "run-4", "why (run run-9)", DAY)
    assert "no step started (run run-4)" in last.text
    assert run_of(last) == "run-4"
    assert run_of(unjudged_alert(DAY, "why")) is None


def test_the_alert_about_a_silent_source_names_its_newest_event() -> None:
    alert = stale_source_alert(
        "claude_code", datetime(2026, 6, 1, 9, 5, tzinfo=UTC), timedelta(hours=96)
    )
    assert alert.title == "no telemetry of claude_code for more than 96 hours"
    assert alert.text.startswith("Its newest event is from 2026-06-01 09:05 UTC.")
