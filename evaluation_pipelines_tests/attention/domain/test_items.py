"""Each item with its words, what it advises, and what is sent of it."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.attention.domain.arrivals import Arrival, CostCheck, Gap
from evaluation_pipelines.attention.domain.item import (
    DOCTOR,
    JUDGE,
    Item,
    Page,
    Part,
    State,
    answer,
    disk,
    incomplete_lines,
    judge_budget,
    no_judge,
    page_of,
    permissions,
    quarantine,
    reviews,
    silent_locks,
    unscored,
    waiting_dates,
)
from evaluation_pipelines.attention.domain.items import (
    Examined,
    Facts,
    alert_of,
    attention,
    needing,
    sent,
    worst,
)
from evaluation_pipelines.attention.domain.messages import (
    JUDGE_DOWN,
    QUALITY_RISKS,
    Alert,
    RaisedAlert,
    failed_run_alert,
    reported,
    spending_alert,
)
from evaluation_pipelines.attention.domain.session_facts import risks_of

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
TODAY = NOW.date()
HOUR = timedelta(hours=1)
GIB = 2**30
ARRIVES = "codex: 120 events a day, last event 60 min ago"
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


def arrival(hours: int = 1, *gaps: Gap) -> Arrival:
    return Arrival("codex", NOW - hours * HOUR, 120.4, gaps)


def examined(*arrivals: Arrival, **other: Any) -> dict[str, Examined]:
    return {"examined": Examined(**{"arrivals": arrivals, **other})}


def well(**other: Any) -> Facts:
    facts = {
        "now": NOW,
        **examined(arrival()),
        "is_telemetry_ever": True,
    }
    return Facts(**{**facts, **other})


def others(*items: Item) -> dict[str, Any]:
    return {"others": items}


def books(*rows: tuple[date, str, int]) -> dict[str, Any]:
    return others(
        *unscored(pl.DataFrame(rows, ["session_date", "state", "sessions"], orient="row"))
    )


def test_an_installation_that_is_well() -> None:
    fine = (waiting_dates(0, None, NOW), judge_budget(1.0, 5.0), disk(50 * GIB))
    items = attention(well(**others(*reversed(fine))))
    assert worst(items) is State.OK
    assert needing(items) == []
    assert [item.seen for item in items] == [
        "All telemetry is read",
        ARRIVES,
        "All dates are built",
        "$1.00 spent or reserved by the judge today, of $5.00",
        "50.0 GiB free for data",
        "It is 2026-06-01 12:00:00 UTC here",
    ]


@pytest.mark.parametrize(
    ("facts", "state", "title", "lines"),
    [
        (examined(), "failed", "No telemetry in the last 7 days", "agent-config"),
        ({**examined(), "is_telemetry_ever": False}, "failed", "No telemetry yet", "service.md"),
        (
            {"silent": [("codex", NOW - 30 * HOUR)]},
            *("warning", "No telemetry from codex for over 24 hours"),
            "codex: last event 2026-05-31 06:00\nCheck that the collector is running",
        ),
        (
            {"silent": [("codex", NOW - 30 * HOUR), ("genai", NOW - 40 * HOUR)]},
            *("warning", "No telemetry from 2 agent programs for over 24 hours"),
            "codex: last event 2026-05-31 06:00\ngenai: last event 2026-05-30 20:00\nCheck",
        ),
        (
            others(*quarantine(3, 1, "a, byte 0: bad", TODAY)),
            *("warning", "4 unreadable lines"),
            "3 in telemetry (last 7 days), 1 in signals\nlatest: a, byte 0: bad\nRead",
        ),
        (
            {"unread_bytes": 1500, "oldest_unread": NOW - timedelta(seconds=61)},
            *("failed", "1.5 kB of telemetry not read yet (since 2026-06-01 11:58)"),
            "evaluation-pipelines ingest",
        ),
        (
            others(*incomplete_lines([("a.jsonl", 900, NOW - timedelta(seconds=61))], NOW)),
            *(
                "warning",
                "a.jsonl ends in an incomplete line: 900 bytes not read (since 2026-06-01 11:58)",
            ),
            "End the line with a newline, or remove the line. A day after",
        ),
        (
            {"damage": ["/lake/a.parquet is missing. Build it: evaluation-pipelines build"]},
            *("failed", "/lake/a.parquet is missing", "Build it. Run: evaluation-pipelines build"),
        ),
        (
            {"why_not_listed": "s3://b: refused"},
            *("failed", "s3://b: refused", "EVAL_LANDING_DIR"),
        ),
        (
            {"parked": [(TODAY, 4, "agent_events: LakeError: torn")]},
            *("failed", "Build of 2026-06-01 failed 4 times and stopped retrying"),
            "2026-06-01: agent_events: LakeError: torn\nFix the cause, then build again. Run: ",
        ),
        (
            {"parked": [(TODAY, 4, "torn"), (date(2026, 6, 2), 5, "full")]},
            *("failed", "Builds of 2 dates failed and stopped retrying"),
            "2026-06-01: torn\n2026-06-02: full\nFix",
        ),
        (
            others(waiting_dates(2, NOW - HOUR, NOW)),
            *("failed", "2 dates to build (since 2026-06-01 11:00)", "make dev"),
        ),
        (
            others(
                *silent_locks(
                    [
                        ("ingest", "process 7 on here", NOW - timedelta(minutes=6)),
                        ("publish", "process 8 on here", NOW - timedelta(minutes=4)),
                    ],
                    NOW,
                )
            ),
            "warning",
            "process 7 on here holds the lock ingest. Its last progress was 6 min ago",
            "end it",
        ),
        (
            {**examined(), "is_telemetry_ever": False, "due": 1},
            *("warning", "Telemetry is read but not built yet", "run: evaluation-pipelines build"),
        ),
        (
            {
                **examined(),
                "is_telemetry_ever": False,
                "unread_bytes": 9,
                "oldest_unread": NOW,
            },
            *("failed", "9 bytes of telemetry not read yet (since 2026-06-01 12:00)", "ingest, "),
        ),
        (
            books((TODAY, "failed", 2)),
            *("task", "2 sessions of 2026-06-01 could not be scored", "books 2026-06-01"),
        ),
        (
            books((TODAY, "deferred", 1), (date(2026, 5, 30), "deferred", 4)),
            *("task", "1 session of 2026-06-01 is postponed", "4 more in the 7 days before"),
        ),
        (
            others(*reviews(3, has_keys=True)),
            *("task", "3 sessions to review blind", "trusted. They require a reviewer key."),
        ),
        (
            others(judge_budget(1.0, None)),
            *("warning", "$1.00 spent or reserved by the judge today, without a limit"),
            "PER_DAY_USD",
        ),
        (
            others(judge_budget(4.0, 5.0)),
            *("warning", "$4.00 spent or reserved by the judge today, of $5.00", "tomorrow"),
        ),
        (
            others(judge_budget(1.0, 0.0)),
            *("warning", "$1.00 spent or reserved by the judge today, of $0.00", "tomorrow"),
        ),
        (others(disk(4 * GIB)), "warning", "4.0 GiB free for data", "operations.md"),
        (others(disk(GIB // 2)), "failed", "0.5 GiB free for data", "operations.md"),
        (
            others(permissions("data", "/srv/data", 0o750, "eval", is_shared=False)),
            *(
                "warning",
                "Other users have access to data: /srv/data (mode 0750, owner eval)",
                "chmod 700 /srv/data",
            ),
        ),
        (
            examined(Arrival("codex", NOW + timedelta(minutes=5), 1.0, ())),
            "warning",
            "It is 2026-06-01 12:00:00 UTC here, and the latest event is 5 minutes later",
            "NTP",
        ),
        (
            examined(arrival(), answers=[answer("Dagster", "http://d", "refused", "start it")]),
            *("failed", "Dagster at http://d is not responding: refused", "start it"),
        ),
        (
            others(no_judge("no judge endpoint is configured", is_named=True)),
            *("warning", "no judge endpoint is configured", ""),
        ),
        (
            # Two days: from the beginning of the day to now are one and a half.
            examined(arrival(), late_rows={date(2026, 5, 31): 3}),
            "warning",
            "3 rows of 2026-05-31 in ClickHouse arrived later than the overlap: not read",
            "EVAL_OTEL_LOGS_OVERLAP_MINUTES=2880 ",
        ),
        (
            examined(arrival(1, Gap("cost", "points per dollar", "a price"))),
            *("warning", "Telemetry from codex lacks data that scores use"),
            "codex: cost not sent (affects points per dollar). Needed: a price",
        ),
        (
            examined(
                arrival(1, Gap("cost", "x", "a price"), Gap("p", "y", "P=1"), Gap("q", "z", "P=1"))
            ),
            *("warning", "Telemetry from codex lacks data that scores use"),
            (
                "codex: cost not sent (affects x). Needed: a price. "
                "p not sent (affects y), q not sent (affects z). Needed: P=1"
            ),
        ),
    ],
)
def test_what_needs_something(facts: dict[str, Any], state: str, title: str, lines: str) -> None:
    (found,) = needing(attention(well(**facts)))
    assert (found.state, found.title) == (state, title)
    assert lines in "\n".join(found.lines)


@pytest.mark.parametrize(
    ("facts", "seen"),
    [
        (
            others(*incomplete_lines([("a.jsonl", 9, NOW - timedelta(minutes=1))], NOW)),
            "All telemetry is read",
        ),
        ({"unread_bytes": 9, "oldest_unread": NOW}, "9 bytes of telemetry not read yet"),
        ({"due": 1, **others(waiting_dates(1, NOW, NOW))}, "1 date to build"),
        (others(no_judge("no judge is configured", is_named=False)), "no judge is configured"),
        (
            others(permissions("data", "/d", 0o700, "eval", is_shared=False)),
            "data: /d (mode 0700, owner eval)",
        ),
        (
            others(permissions("data", "/d", None, "", is_shared=False)),
            "data: /d does not exist yet",
        ),
        (
            others(permissions("landing", "/l", 0o777, "collector", is_shared=True)),
            "landing: /l (mode 0777, owner collector)",
        ),
        (
            examined(arrival(), answers=[answer("Dagster", "http://d", None, "")]),
            "Dagster at http://d is responding",
        ),
        (
            examined(
                arrival(),
                answers=[answer("service", "http://s", "refused", "start", is_expected=False)],
            ),
            "No service at http://s, and the settings name none",
        ),
        ({"examined": None, "is_telemetry_ever": False}, "All telemetry is read"),
        (
            examined(arrival(), costs={"codex": CostCheck(5, 2)}),
            f"{ARRIVES}, the reported cost of 2 of 5 sessions is over 10% off the list price",
        ),
    ],
)
def test_what_is_fine(facts: dict[str, Any], seen: str) -> None:
    items = attention(well(**facts))
    assert needing(items) == []
    assert any(seen == item.seen for item in items)


def test_failed_items_come_first_and_tasks_are_nothing_wrong() -> None:
    few = (*reviews(1, has_keys=False), *quarantine(1, 0, None, TODAY), disk(0))
    items = attention(well(**others(*few)))
    assert [item.state for item in needing(items)] == ["failed", "warning", "task"]
    assert worst(items) is State.FAILED
    assert worst(attention(well(**others(*few[:2])))) is State.WARNING
    assert worst(attention(well(**others(*few[:1])))) is State.OK


def test_without_keys_nobody_needs_one_to_review() -> None:
    (item,) = reviews(3, has_keys=False)
    assert item.lines == ("Reviews show how far automatic scores can be trusted.",)


def test_what_a_run_reported_is_listed_until_it_ends_with_its_page() -> None:
    alerts = [
        failed_run_alert("job", ["a"], "1b-2", "why", TODAY),
        reported(JUDGE_DOWN, "judge", "401"),
    ]
    raised = [RaisedAlert(at, alert, NOW, None, None) for at, alert in enumerate(alerts)]
    facts = well(alerts=raised, dagster_url="https://runs.example")
    judge, run = needing(attention(facts))
    assert (run.title, run.page, run.lines) == (
        "Run failed: job (since 2026-06-01 12:00)",
        Page(("runs", "1b-2"), server="https://runs.example"),
        (
            "Step: a (run 1b-2)",
            "why",
            "See its log in Dagster. This failure is reported once a day.",
            "Read the log of the run.",
        ),
    )
    assert (judge.seen, judge.page) == ("Judge endpoint not responding", JUDGE)
    assert (judge.parts, judge.command) == (
        (Part("", "401"),),
        "To judge it now: evaluation-pipelines judge run",
    )
    assert needing(attention(well(alerts=raised[:1])))[0].page == DOCTOR  # Dagster is not known


def test_the_sessions_of_an_alert_are_those_that_are_left_to_look_at() -> None:
    columns = ("session_key", "effective_source", "effective_100", "awaits_review")
    rows = [
        *[("low", "scorecard", 9.0, False), ("by Ann", "override", 8.0, False)],
        *[("above", "scorecard", 60.0, False), ("unseen", None, None, True)],
        *[("of Bob", "override", 70.0, False), ("of another alert", "scorecard", 1.0, False)],
    ]
    names = {"organization_id": "acme", "started_at": NOW, "status": "completed"}
    agent = {"agent_id": None, "model": None}
    frame = pl.DataFrame([dict(zip(columns, row, strict=True)) | names | agent for row in rows])
    keys = [("acme", key) for key, *_ in rows[:5]]
    found = risks_of(frame, keys, pl.col("effective_100") < 50)
    # Not the one that awaits its review: that it was in the alert would tell.
    why = "4 in the alert, minus 2 now scored by a person, 1 above it again"
    raised = RaisedAlert(1, Alert(QUALITY_RISKS, "1", "", ""), NOW, None, None)
    (item,) = needing(attention(well(alerts=[raised], risks={1: found})))
    assert item.title == "1 session scored below its threshold (since 2026-06-01 12:00)"
    assert [str(part) for part in item.parts] == [
        *(why, "low: score 9.0 (06-01 12:00, unknown, unknown)")
    ]
    assert risks_of(frame, keys[:1], pl.col("effective_100") < 50).why_fewer() is None


def test_sessions_with_equal_scores_have_one_order_everywhere() -> None:
    """Terminal and pages read the rows in other orders."""
    raised = RaisedAlert(1, Alert(QUALITY_RISKS, "1", "", ""), NOW, None, None)
    same = {"organization_id": "acme", "started_at": NOW, "status": "completed", "model": None}
    scored = {"agent_id": None, "effective_source": "scorecard", "effective_100": 9.0}
    rows = [same | scored | {"session_key": key, "awaits_review": False} for key in "bac"]
    found = risks_of(
        pl.DataFrame(rows), [("acme", key) for key in "abc"], pl.col("effective_100") < 50
    )
    (item,) = needing(attention(well(alerts=[raised], risks={1: found})))
    assert [part.name for part in item.parts] == ["a", "b", "c"]


def test_a_spender_leads_to_its_sessions_of_the_month() -> None:
    alert = spending_alert("2026-02", "team", ["core", "acme"], 5.0, [])
    (item,) = needing(attention(well(alerts=[RaisedAlert(1, alert, NOW, None, None)])))
    days = {"from": "2026-02-01", "to": "2026-02-28", "sort": "-cost"}
    assert item.page == page_of("sessions", **days, organization="acme", team="core")


def test_a_model_that_got_worse_says_since_when_how_much_and_where_to_look() -> None:
    (item,) = needing(attention(well(regressions=[REGRESSED])))
    assert item.title == "aspen-4 got worse (label code) (since 2026-05-18)"
    assert item.lines[0].startswith(
        "8.8 points lower since 2026-05-18 (95% interval: 3.2 to 14.4 points lower). "
    )
    assert item.lines[1:] == ("s7#baseline-1", "s9#baseline-1", item.advice)
    assert item.command == "To see one: evaluation-pipelines show SESSION"
    assert item.page == page_of("models", label="code")
    variant = {**REGRESSED, "model_variant": "effort high"}
    (named,) = needing(attention(well(regressions=[variant])))
    assert named.seen == "aspen-4 (effort high) got worse (label code)"
    causes = [*(sent(well(regressions=[REGRESSED, variant]))["regression"] or ())]
    assert (
        causes[1]
        == f"{causes[0]} / effort high"
        == "code / None / None / aspen-4 / orchard / effort high"
    )


def test_alerts_are_items_in_the_same_words() -> None:
    facts = well(
        silent=[("codex", NOW - 30 * HOUR)],
        parked=[(TODAY, 4, "torn")],
        damage=["/a is missing. Build it"],
        regressions=[REGRESSED],
    )
    alerts = [
        alert_of(cause, item)
        for items in sent(facts).values()
        for cause, item in (items or {}).items()
    ]
    shown = {item.seen: "\n".join(item.lines) for item in needing(attention(facts))}
    assert {alert.title: alert.text for alert in alerts} == shown
    assert [(alert.kind, alert.cause) for alert in alerts] == [
        ("stale", "codex"),
        ("parked", "2026-06-01"),
        ("damaged", "/a is missing. Build it"),
        ("regression", "code / None / None / aspen-4 / orchard"),
    ]
    assert sent(well(silent=None, regressions=None))["stale"] is None


def test_no_alert_of_an_item_contains_a_mention_or_a_link_or_is_long() -> None:
    regressed = {
        **REGRESSED,
        **dict.fromkeys(("model", "model_variant", "classification_label"), HOSTILE),
        "worst_sessions": [HOSTILE] * 5,
    }
    facts = well(
        silent=[(HOSTILE, NOW)], parked=[(TODAY, 4, HOSTILE)], damage=[HOSTILE],
        regressions=[regressed],
    )  # fmt: skip
    for items in sent(facts).values():
        for cause, item in (items or {}).items():
            alert: Alert = alert_of(cause, item)
            said = f"{alert.title}\n{alert.text}"
            assert not any(text in said for text in ("<", "@here", "://", "]("))
            assert len(alert.title) <= 400
            assert len(said) < 4000
            assert said.count("\n") <= 8
