"""Dates that cannot be built: skipped, shown, parked and revived."""

from pathlib import Path

import dagster as dg
import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines_tests.defs.code_location import (
    DAILY_TABLES,
    CodeLocation,
    check_texts,
    day,
    failure_of,
)
from evaluation_pipelines_tests.defs.date_failures import (
    break_landed,
    landed_part,
    queued_dates,
    repair_landed,
)
from evaluation_pipelines_tests.receiver import Receiver
from evaluation_pipelines_tests.world.lake_files import folder_of


def double_a_session(location: CodeLocation, number: int) -> None:
    """Write a session twice on a date, which the checks would not allow."""
    lake = location.workplace.lake
    sessions = lake.read(AGENT_SESSIONS, [day(number)])
    lake.write(pl.concat([sessions, sessions]), AGENT_SESSIONS, day(number))


def attempts_and_parked(location: CodeLocation) -> tuple[int, bool]:
    found = queued_dates(location.workplace)[day(1)]
    return found.attempts, found.parked


def park_and_repair(location: CodeLocation) -> None:
    """Land day 1, damage it, let its build fail four times, and repair it."""
    location.land(1)
    content = break_landed(location.workplace, 1)
    for _ in range(4):
        location.build(1)
    assert queued_dates(location.workplace)[day(1)].parked
    repair_landed(location.workplace, 1, content)


def test_a_broken_date_is_skipped_and_the_others_are_scored(location: CodeLocation) -> None:
    location.land(0, 1, 2)
    break_landed(location.workplace, 1)
    damaged = landed_part(location.workplace, 1)
    result = location.build(0, 2)

    assert not result.success
    reason = failure_of(result)
    assert reason.startswith(
        "1 of 3 dates could not be built, the others are published: 2025-02-07: "
    )
    assert str(damaged) in reason
    for asset in DAILY_TABLES:
        assert location.materialized(asset) == [day(0), day(2)]
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-2"]
    assert [queued_dates(location.workplace)[day(n)].is_built for n in range(3)] == [
        True,
        False,
        True,
    ]
    assert queued_dates(location.workplace)[day(1)].attempts == 1
    assert str(damaged) in (queued_dates(location.workplace)[day(1)].last_error or "")


def test_a_broken_date_shows_as_a_failed_check_of_the_table_where_it_failed(
    location: CodeLocation,
) -> None:
    location.land(0, 1, 2)
    break_landed(location.workplace, 1)
    location.build(0, 2)
    events = location.check("agent_events", "every_date_was_built")

    assert (events.passed, events.severity) == (False, dg.AssetCheckSeverity.ERROR)
    shown = check_texts(events)
    assert (shown["dates_checked"], shown["dates_broken"]) == (3, 1)
    assert (shown["date"], shown["expected"]) == ("2025-02-07", "built")
    assert str(landed_part(location.workplace, 1)) in str(shown["found"])
    # Its sessions were never built, and those of the other two dates are correct.
    sessions = location.check("agent_sessions", "every_date_was_built")
    assert sessions.passed
    assert check_texts(sessions)["dates_checked"] == 2


def test_dates_are_built_without_checks_where_none_are_selected(location: CodeLocation) -> None:
    location.land(0, 1)
    break_landed(location.workplace, 0)
    result = location.materialize_without_checks(0, 1)

    assert not result.success
    assert result.get_asset_check_evaluations() == []
    assert [location.materialized(table) for table in DAILY_TABLES] == [[day(1)]] * len(
        DAILY_TABLES
    )


def test_a_date_that_fails_a_check_is_skipped_and_its_rows_are_shown(
    location: CodeLocation,
) -> None:
    location.land(0, 1, 2)
    location.build(0, 2)
    scores = Path(location.workplace.lake.place(SESSION_PERFORMANCE, day(1)))
    before = scores.read_bytes()
    double_a_session(location, 1)
    result = location.materialize_range(0, 2, "session_performance")

    assert not result.success
    assert failure_of(result) == (
        "1 of 3 dates could not be built, the others are published: 2025-02-07: CheckFailedError: "
        "session_performance: keys_are_unique: expected one row per organization_id, session_key, "
        "found 1 keys that several rows share"
    )
    made = [
        materialization.partition
        for materialization in result.asset_materializations_for_node("daily_tables")
    ]
    assert made == ["2025-02-06", "2025-02-08"]
    assert scores.read_bytes() == before  # the previous scores stay

    check = location.check("session_performance", "keys_are_unique")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert check_texts(check) == {
        "dates_checked": 3,
        "dates_broken": 1,
        "date": "2025-02-07",
        "expected": "one row per organization_id, session_key",
        "found": "1 keys that several rows share",
        "examples": "default, s-1#baseline-1, 2",
    }
    assert not location.check("session_performance", "every_date_was_built").passed
    assert location.check("session_performance", "scores_are_in_range").passed


def test_several_broken_dates_are_all_listed(location: CodeLocation) -> None:
    location.land(0, 1, 2)
    location.build(0, 2)
    double_a_session(location, 0)
    double_a_session(location, 2)
    location.materialize_range(0, 2, "session_performance")
    shown = check_texts(location.check("session_performance", "keys_are_unique"))

    assert (shown["dates_checked"], shown["dates_broken"], shown["date"]) == (3, 2, "2025-02-08")
    assert str(shown["all_broken_dates"]).splitlines() == [
        "| date | found | examples |",
        "|---|---|---|",
        r"| 2025\-02\-06 | 1 keys that several rows share | default, s\-0\#baseline\-1, 2 |",
        r"| 2025\-02\-08 | 1 keys that several rows share | default, s\-2\#baseline\-1, 2 |",
    ]


def test_the_fourth_failure_parks_a_date_and_raises_one_alert(
    location: CodeLocation, receiver: Receiver
) -> None:
    location.land(1)
    break_landed(location.workplace, 1)
    damaged = landed_part(location.workplace, 1)
    for attempt in range(1, 4):
        assert not location.build(1).success
        assert attempts_and_parked(location) == (attempt, False)
    assert receiver.texts == []
    assert location.check("agent_events_landed", "no_date_is_parked").passed

    assert not location.build(1).success
    assert attempts_and_parked(location) == (4, True)
    location.tick("alerts_sensor")
    location.tick("alerts_sensor")
    parked = "Build of 2025-02-07 failed 4 times and stopped retrying"
    (alert,) = [text for text in receiver.texts if text.startswith(parked)]
    _, reason, advice = alert.splitlines()
    assert str(damaged) in reason
    assert advice.endswith("Run: evaluation-pipelines build --date 2025-02-07")
    check = location.check("agent_events_landed", "no_date_is_parked")
    assert not check.passed
    assert check_texts(check)["found"] == "1 parked dates"
    assert str(damaged) in str(check_texts(check)["2025-02-07"])


def test_one_table_alone_makes_a_parked_date_due_again(location: CodeLocation) -> None:
    """As when the asset that shows the failure is materialized by hand."""
    park_and_repair(location)
    assert location.materialize(1, "agent_events").success

    now = queued_dates(location.workplace)[day(1)]
    assert (now.is_built, now.parked, now.attempts) == (False, False, 0)
    assert location.requested_ranges("touched_dates_sensor") == [(day(1), day(1))]


def test_a_table_of_a_parked_date_that_has_no_inputs_is_built_with_all_others(
    location: CodeLocation,
) -> None:
    """As when the first build failed at the sessions, so that there are no events either."""
    location.land(0, 1)
    location.build(0)
    obstacle = folder_of(location.workplace.lake, AGENT_SESSIONS, day(1))
    obstacle.write_text("in the way")
    for _ in range(4):
        assert not location.build(1).success
    assert attempts_and_parked(location) == (4, True)
    obstacle.unlink()
    before = location.workplace.lake.parts(AGENT_EVENTS, [day(0)])
    assert location.materialize_range(0, 1, "agent_sessions").success

    assert queued_dates(location.workplace)[day(1)].is_built
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-1"]
    assert location.materialized("session_performance") == [day(0), day(1)]
    assert location.workplace.lake.parts(AGENT_EVENTS, [day(0)]) == before
