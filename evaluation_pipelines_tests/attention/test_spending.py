"""Alerts on what organizations, teams and people spend."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.checks import check_alerts
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line
from evaluation_pipelines_tests.world.rows import session, sessions_frame

LOG = logging.getLogger("spending")
TODAY = NOW.date()


def put_sessions(workplace: Workplace, *costs: tuple[int, str, str, float | None]) -> None:
    """Write sessions: days ago, team, person and cost of each."""
    for ago in {days for days, *_ in costs}:
        day = TODAY - timedelta(days=ago)
        rows = [
            session(
                session_key=f"s{number}#baseline-1",
                session_id=f"s{number}",
                team=team,
                person_id=person,
                model="m",
                cost_usd=cost,
                started_at=NOW - timedelta(days=days),
                ended_at=NOW - timedelta(days=days),
                session_date=day,
            )
            for number, (days, team, person, cost) in enumerate(costs)
            if days == ago
        ]
        workplace.lake.write(sessions_frame(rows), AGENT_SESSIONS, day)


def requests(session: str, *costs: tuple[float, float | None]) -> bytes:
    """A line with requests of a session: days after 2026-06-01, 12:00, and cost of each."""
    return line(
        *(
            claude("api_request", days * 86_400, session__id=session, model="m", cost_usd=cost)
            for days, cost in costs
        )
    )


def found(workplace: Workplace, now: datetime = NOW) -> set[str]:
    """Run the check; return the titles of all alerts."""
    check_alerts(workplace.stores, now, LOG)
    return {row.alert.title for row in AlertStore(workplace.ledger).all()}


@pytest.mark.parametrize(
    ("view", "shown"),
    [("off", ["organization"]), ("team", ["organization", "team"]), ("person", None)],
)
def test_whoever_passes_the_limit_of_a_day_is_named_as_the_settings_allow(
    tmp_path: Path, view: str, shown: list[str] | None
) -> None:
    limits = {"alert_cost_per_day_usd": 10.0, "people_view": view}
    with open_workplace(tmp_path, **limits) as workplace:
        # oak: 6 + 4.5 = 10.5, of which ada 10.5; elm: 10, which is not more than 10.
        put_sessions(
            workplace,
            *[(0, "oak", "ada", 6.0), (0, "oak", "ada", 4.5), (0, "elm", "bo", 10.0)],
            *[(0, "elm", "bo", None), (2, "elm", "bo", 99.0)],
        )
        titles = {
            "organization": "organization default spent $20.50 in 2026-12-01",
            "team": "team oak of default spent $10.50 in 2026-12-01",
            "person": "person ada spent $10.50 in 2026-12-01",
        }
        assert found(workplace) == {titles[title] for title in shown or titles}


def test_what_a_session_spends_counts_on_the_day_of_each_request(tmp_path: Path) -> None:
    day = datetime(2026, 6, 1, 20, tzinfo=UTC)
    with open_workplace(tmp_path, alert_cost_per_day_usd=10.0) as workplace:
        workplace.land("late.jsonl", requests("late", (-3, 90.0), (0, 7.0), (0.1, 2.0), (1, 50.0)))
        workplace.land("part.jsonl", requests("part", (0, 4.0), (0.1, None), (0.2, None)))
        workplace.ingest()
        workplace.build()
        check_alerts(workplace.stores, day, LOG)
        (alert,) = [
            row.alert
            for row in AlertStore(workplace.ledger).all()
            if row.alert.kind == "spending" and "2026-06-01" in row.alert.title
        ]
        # 7 + 2 + 4
        assert alert.title == "organization default spent at least $13.00 in 2026-06-01"
        assert alert.text.splitlines() == [
            "The limit is $10.00. The most expensive sessions:",
            "late#baseline-1: $9.00 (model m)",
            "part#baseline-1: $4.00 (model m)",
            "Requests without a known price: 2",
        ]


def test_an_alert_says_what_for_is_raised_once_and_ends_with_its_day(tmp_path: Path) -> None:
    with open_workplace(tmp_path, alert_cost_per_day_usd=1.0) as workplace:
        put_sessions(workplace, (0, "oak", "ada", 0.5), (0, "oak", "ada", 0.75))
        assert check_alerts(workplace.stores, NOW, LOG) == {"spending": 2}
        assert check_alerts(workplace.stores, NOW, LOG) == {}
        assert AlertStore(workplace.ledger).all()[0].alert.text.splitlines() == [
            "The limit is $1.00. The most expensive sessions:",
            "s1#baseline-1: $0.75 (model m)",
            "s0#baseline-1: $0.50 (model m)",
        ]
        check_alerts(workplace.stores, NOW + timedelta(days=1), LOG)
        assert [row.ended_at for row in AlertStore(workplace.ledger).all()] == [None, None]
        check_alerts(workplace.stores, NOW + timedelta(days=2), LOG)
        assert all(row.ended_at for row in AlertStore(workplace.ledger).all())


def test_a_month_is_reported_from_four_fifths_of_its_limit(tmp_path: Path) -> None:
    with open_workplace(tmp_path, alert_cost_per_month_usd=100.0) as workplace:
        # 2026-12-01: the day before is of another month.
        put_sessions(workplace, (0, "oak", "ada", 80.0), (1, "oak", "ada", 50.0))
        assert found(workplace) == set()
        put_sessions(workplace, (0, "oak", "ada", 80.5))
        assert found(workplace) == {
            "organization default spent $80.50 in 2026-12",
            "team oak of default spent $80.50 in 2026-12",
        }
