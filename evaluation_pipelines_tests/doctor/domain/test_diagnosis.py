"""Each check with what it says and advises."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from evaluation_pipelines.doctor.domain.arrivals import Arrival, Gap
from evaluation_pipelines.doctor.domain.cost_check import CostCheck
from evaluation_pipelines.doctor.domain.diagnosis import (
    Answer,
    AtWork,
    Check,
    Facts,
    Folder,
    OpenAlert,
    State,
    diagnose,
    worst,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
GIB = 2**30


def arrival(hours: int = 1, *gaps: Gap) -> Arrival:
    return Arrival("codex", NOW - hours * HOUR, 120.4, gaps)


def well(**other: Any) -> Facts:
    facts = {
        "now": NOW,
        "arrivals": [arrival()],
        "is_telemetry_ever": True,
        "spent_usd": 1.0,
        "limit_usd": 5.0,
        "free_bytes": 50 * GIB,
        "versions": {"Python": "3.13"},
        "newest_event": NOW - HOUR,
    }
    return Facts(**{**facts, **other})


def bad(facts: Facts) -> list[Check]:
    return [each for each in diagnose(facts) if each.state is not State.OK]


def test_an_installation_that_is_well() -> None:
    checks = diagnose(well())
    assert worst(checks) is State.OK
    assert [each.seen for each in checks] == [
        "all telemetry is read",
        "codex: 120 events a day, the newest 60 min ago",
        "all dates are built",
        "$1.00 spent or reserved today of $5.00",
        "50.0 GiB free for data",
        "Python 3.13",
        "it is 2026-06-01 12:00:00 UTC here",
    ]


@pytest.mark.parametrize(
    ("facts", "state", "seen", "advice"),
    [
        ({"arrivals": []}, "failed", "no telemetry in the last 7 days", "agent-config"),
        ({"arrivals": [], "is_telemetry_ever": False}, "failed", "no telemetry yet", "team.md"),
        ({"arrivals": [arrival(30)]}, "warning", "the newest 30 h ago", "silent for more than 24"),
        ({"quarantined": 3}, "warning", "3 lines of the last 7 days", "quarantine list"),
        ({"price_faults": ["prices.yaml: bad"]}, "warning", "prices.yaml: bad", "telemetry.md"),
        (
            {"unread_bytes": 1500, "oldest_unread": NOW - HOUR},
            *("failed", "1,500 bytes are not read yet, the oldest written 60 min ago", "ingest"),
        ),
        (
            {"damage": ["/lake/a.parquet is missing. Build it: evaluation-pipelines build"]},
            *("failed", "/lake/a.parquet is missing", "Build it: evaluation-pipelines build"),
        ),
        ({"why_not_listed": "s3://b: refused"}, "failed", "s3://b: refused", "EVAL_LANDING_DIR"),
        ({"parked": ["2026-05-30"]}, "failed", "cannot be built: 2026-05-30", "build --date"),
        (
            {"due": 2, "due_since": NOW - HOUR},
            *("failed", "dates to build: 2, since 60 min ago", "make dev"),
        ),
        (
            {
                "at_work": [
                    AtWork("ingest", "process 7 on here", NOW - timedelta(minutes=6)),
                    AtWork("publish", "process 8 on here", NOW - timedelta(minutes=4)),
                ]
            },
            *("warning", "process 7 on here holds the lock ingest, its last progress was 6 min"),
            "end it",
        ),
        (
            {"alerts": [OpenAlert("x got worse", "the page /models has what helps")]},
            *("warning", "x got worse", "/models"),
        ),
        (
            {"arrivals": [], "is_telemetry_ever": False, "due": 1, "due_since": NOW},
            *("warning", "arrived and read, not built yet", "run evaluation-pipelines build"),
        ),
        (
            {"arrivals": [], "is_telemetry_ever": False, "unread_bytes": 9, "oldest_unread": NOW},
            *("failed", "9 bytes are not read yet, the oldest written 0 min ago", "ingest, then"),
        ),
        ({"limit_usd": None}, "warning", "without a limit", "PER_DAY_USD"),
        ({"spent_usd": 4.0}, "warning", "$4.00 spent or reserved today of $5.00", "tomorrow"),
        ({"limit_usd": 0.0}, "warning", "of $0.00", "tomorrow"),
        ({"free_bytes": 4 * GIB}, "warning", "4.0 GiB free", "operations.md"),
        ({"free_bytes": GIB // 2}, "failed", "0.5 GiB free", "operations.md"),
        (
            {"folders": [Folder("data", "/srv/data", 0o750, "eval")]},
            *("warning", "data: /srv/data is 0750, of eval", "chmod 700 /srv/data"),
        ),
        (
            {"newest_event": NOW + timedelta(minutes=5)},
            *("warning", "the newest event is 5 minutes later", "NTP"),
        ),
        (
            {"answers": [Answer("Dagster", "http://d", "Connection refused", "start it")]},
            *("failed", "Dagster at http://d does not answer: Connection refused", "start it"),
        ),
        (
            {"is_judge_named": True, "why_no_judge": "no judge endpoint is configured"},
            *("warning", "no judge endpoint is configured", ""),
        ),
    ],
)
def test_what_is_not_well(facts: dict[str, Any], state: str, seen: str, advice: str) -> None:
    (found,) = bad(well(**facts))
    assert found.state == state
    assert seen in found.seen
    assert advice in (found.advice or "")


@pytest.mark.parametrize(
    ("facts", "seen"),
    [
        ({"unread_bytes": 9, "oldest_unread": NOW}, "9 bytes are not read yet"),
        ({"due": 1, "due_since": NOW}, "dates to build: 1"),
        ({"why_no_judge": "no judge is configured"}, "no judge is configured"),
        ({"folders": [Folder("data", "/d", 0o700, "eval")]}, "data: /d is 0700, of eval"),
        ({"folders": [Folder("data", "/d", None, "")]}, "data: /d is not there yet"),
        (
            {"folders": [Folder("landing", "/l", 0o777, "collector", is_shared=True)]},
            "landing: /l is 0777, of collector",
        ),
        ({"answers": [Answer("Dagster", "http://d", None, "")]}, "Dagster at http://d answers"),
        (
            {"answers": [Answer("service", "http://s", "refused", "start", is_expected=False)]},
            "no service at http://s, and the settings name none",
        ),
    ],
)
def test_what_is_well_though_it_is_said(facts: dict[str, Any], seen: str) -> None:
    assert bad(well(**facts)) == []
    assert any(seen == each.seen for each in diagnose(well(**facts)))


def test_sessions_off_the_list_price_are_counted_on_the_line_of_their_agent() -> None:
    off = "; the reported cost of 2 of 5 sessions is more than a tenth off the list price"
    seen = [each.seen for each in diagnose(well(costs={"codex": CostCheck(5, 2)}))]
    assert f"codex: 120 events a day, the newest 60 min ago{off}" in seen
    assert not any(off in each.seen for each in diagnose(well(costs={"codex": CostCheck(5)})))


def test_rows_that_arrived_too_late_are_named_by_day() -> None:
    (check,) = bad(well(late_rows={date(2026, 5, 31): 3}))
    assert check.seen.startswith("3 rows of 2026-05-31 in ClickHouse arrived later")
    # Two days: from the beginning of the day to now are one and a half.
    assert "EVAL_OTEL_LOGS_OVERLAP_MINUTES=2880:" in str(check.advice)


def test_a_gap_says_which_figures_lack_it() -> None:
    gap = Gap("cost", "points per dollar", "a price")
    assert bad(well(arrivals=[arrival(1, gap)])) == [
        Check("telemetry", State.WARNING, "codex: cost not sent; for points per dollar", "a price")
    ]


def test_the_worst_counts() -> None:
    warning, failed = (Check("a", each, "") for each in (State.WARNING, State.FAILED))
    assert worst([warning, failed, warning]) is State.FAILED
    assert worst([warning]) is State.WARNING
