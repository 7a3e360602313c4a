"""Texts of alerts stay plain, whatever telemetry puts into them."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from evaluation_pipelines.attention.domain.item import Item, Part, State
from evaluation_pipelines.attention.domain.items import alert_of
from evaluation_pipelines.attention.domain.messages import (
    REGRESSION,
    SPENDING,
    UNJUDGED,
    Alert,
    failed_run_alert,
    quality_risk_alert,
    reported,
    run_of,
    sanitize,
    without_sessions,
)

DAY = date(2026, 6, 1)
HOSTILE = "<!channel> @here [x](http://evil.example) \n<script>" + "a" * 500


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
        reported(UNJUDGED, DAY, HOSTILE),
        quality_risk_alert("7", [risk(session_key=HOSTILE, model=HOSTILE)] * 100),
        failed_run_alert("job", [HOSTILE] * 100, "run", HOSTILE, DAY),
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
    assert few.title == "1 session scored below its threshold"
    assert few.text.splitlines()[0] == (
        "s1#baseline-1: 12 of 100 (profile, model unknown, label code)"
    )
    many = quality_risk_alert("9", [risk(model=f"m{n}") for n in range(8)])
    assert many.title == "8 sessions scored below their threshold"
    assert "model m4" in many.text
    assert "model m5" not in many.text
    assert "and 3 more" in many.text


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
    assert "none started (run run-4)" in last.text
    assert run_of(last) == "run-4"
    assert run_of(reported(UNJUDGED, DAY, "why")) is None


def test_a_regression_does_not_list_the_sessions_that_await_review() -> None:
    long = "k" * 600
    item = Item(REGRESSION, "models", State.WARNING, "m got worse", parts=tuple(
        Part(key, "score 12 (06-01 10:00, scout, m)") for key in ("a", "a:1", long)
    ))  # fmt: skip
    alert = alert_of("x", item)
    left = "a:1: score 12 (06-01 10:00, scout, m)"
    assert without_sessions(alert, {("acme", "a"), ("acme", long)}).text == left
    # If sessions cannot be read, a line is the key alone.
    bare = alert_of("x", replace(item, parts=tuple(Part("", key) for key in ("a", "a:1", long))))
    assert without_sessions(bare, {("acme", "a"), ("acme", long)}).text == "a:1"
    spent = Alert(SPENDING, "x", "acme spent $3", "a: $2.00 (model m)")
    assert without_sessions(spent, {("acme", "a")}) == spent
