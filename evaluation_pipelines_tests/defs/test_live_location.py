"""The whole location, started as by ``make dev`` and driven by files and GraphQL only."""

from collections import defaultdict
from functools import partial

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.build import TELEMETRY_TABLES
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines_tests.defs.code_location import day, session_line
from evaluation_pipelines_tests.defs.date_failures import let_time_pass, queued_dates
from evaluation_pipelines_tests.defs.live_interface import (
    backfill_status,
    check_shown,
    click_on_materialize,
    failure_shown,
    latest_build,
    launch_backfill,
    partition_status,
    ranges_of_builds,
)
from evaluation_pipelines_tests.defs.live_location import LiveLocation, start
from evaluation_pipelines_tests.lake_files import folder_of
from evaluation_pipelines_tests.receiver import Receiver, open_receiver
from evaluation_pipelines_tests.workplace import Workplace

HISTORY = range(14)
SESSIONS_A_DAY = 3


@pytest.mark.slow
def test_the_whole_location_as_users_run_it(workplace: Workplace) -> None:
    folder = workplace.settings.data_dir
    lines = [session_line(n, f"h{k}") for n in HISTORY for k in range(SESSIONS_A_DAY)]
    workplace.land("history.jsonl", b"".join(lines))
    (folder / "dagster").mkdir()
    with (
        open_receiver() as receiver,
        start(folder / "dagster", data_dir=folder, alert_webhook_url=receiver.url) as live,
    ):
        live.wait("scores of the history", lambda: scores(workplace).height == len(lines))
        check_that_a_line_is_scored_within_a_minute(live, workplace)
        check_that_a_line_reaches_the_analysts_within_a_minute(live, workplace)
        backfill = check_that_a_backfill_is_one_run(live, workplace)
        check_that_a_session_resumed_later_updates_its_first_date_only(live, workplace)
        check_that_a_broken_date_is_retried_alone(live, workplace, receiver)
        check_that_the_backfill_was_one_run(live, backfill)


def check_that_a_line_is_scored_within_a_minute(live: LiveLocation, workplace: Workplace) -> None:
    taken: list[float] = []
    for number in range(20, 25):
        workplace.land("live.jsonl", session_line(number), "ab")
        shown = partial(is_scored, workplace, f"s-{number}")
        _, seconds = live.wait("score of the new line", shown)
        taken.append(round(seconds, 1))
    print(f"line appended -> score visible, seconds: {taken}")  # noqa: T201 - what -s is for

    assert len(taken) == 5
    assert max(taken) <= 60


def check_that_a_line_reaches_the_analysts_within_a_minute(
    live: LiveLocation, workplace: Workplace
) -> None:
    taken: list[float] = []
    for number in range(25, 28):
        workplace.land("live.jsonl", session_line(number), "ab")
        shown = partial(is_published, workplace, f"s-{number}")
        _, seconds = live.wait("published line", shown, 120)
        taken.append(round(seconds, 1))
    print(f"line appended -> in the analysts' database, seconds: {taken}")  # noqa: T201

    assert len(taken) == 3
    assert max(taken) <= 60


def check_that_a_backfill_is_one_run(live: LiveLocation, workplace: Workplace) -> str:
    before = [written(workplace, number) for number in HISTORY]
    backfill = launch_backfill(live, [day(number) for number in HISTORY])
    _, seconds = live.wait("end of the backfill", partial(has_ended, live, backfill), 120)
    print(f"backfill of 14 days: {seconds:.1f} s")  # noqa: T201

    assert backfill_status(live, backfill)[1] == ["SUCCESS"]
    assert all(written(workplace, n) > old for n, old in zip(HISTORY, before, strict=True))
    return backfill


def check_that_the_backfill_was_one_run(live: LiveLocation, backfill: str) -> None:
    """The daemon updates backfills rarely: the status is final long after the run."""
    assert backfill_status(live, backfill) == ("COMPLETED_SUCCESS", ["SUCCESS"])


def check_that_a_session_resumed_later_updates_its_first_date_only(
    live: LiveLocation, workplace: Workplace
) -> None:
    before = contents(workplace)
    workplace.land("live.jsonl", session_line(3, "h0", second=3 * 86_400), "ab")

    def resumed() -> bool:
        windows = workplace.sessions().filter(session_id="h0-3")
        return windows["prompts"].to_list() == [2] and is_built(workplace, 3)

    live.wait("resumed session", resumed)
    after = contents(workplace)
    assert {each for each in after if before.get(each) != after[each]} == {str(day(3))}


def check_that_a_broken_date_is_retried_alone(
    live: LiveLocation, workplace: Workplace, receiver: Receiver
) -> None:
    # A file is in the place of the folder of the sessions.
    obstacle = folder_of(workplace.lake, AGENT_SESSIONS, day(31))
    obstacle.write_text("in the way")
    workplace.land("live.jsonl", b"".join(map(session_line, (30, 31, 32))), "ab")
    live.wait("first failure", partial(has_failed, workplace, 31, attempts=1))
    live.wait("score of the date after it", partial(is_scored, workplace, "s-32"))
    assert [is_scored(workplace, f"s-{n}") for n in (30, 31, 32)] == [True, False, True]
    for attempts in (2, 3, 4):
        let_time_pass(workplace)
        live.wait(f"attempt {attempts}", partial(has_failed, workplace, 31, attempts))
    live.wait("alert", lambda: parked_alerts(receiver), 120)  # of a sensor each minute
    live.wait("end of the run", lambda: latest_build(live)["status"] == "FAILURE")

    assert queued_dates(workplace)[day(31)].parked
    (alert,) = parked_alerts(receiver)
    assert alert.startswith(f"Build of {day(31)} failed 4 times and stopped retrying\n")
    assert ranges_of_builds(live)[:4] == [(day(31), day(31))] * 3 + [(day(30), day(32))]
    for text in (failure_shown(live), check_shown(live)):
        assert str(obstacle) in text
    assert partition_status(live, 31) == "FAILED"

    obstacle.unlink()
    click_on_materialize(live, "agent_sessions", 31)
    live.wait("revived date", lambda: is_built(workplace, 31))
    assert is_scored(workplace, "s-31")
    live.wait("green partition", lambda: partition_status(live, 31) == "MATERIALIZED")
    # The books of the date may have been looked at meanwhile: they could not balance either.
    assert len(parked_alerts(receiver)) == 1
    others = set(receiver.texts) - set(parked_alerts(receiver))
    assert all(str(day(31)) in other and "books" in other for other in others)


def parked_alerts(receiver: Receiver) -> list[str]:
    return [text for text in receiver.texts if text.startswith("Build of ")]


def scores(workplace: Workplace, session: str | None = None) -> pl.DataFrame:
    found = workplace.performance()
    return found if session is None else found.filter(session_id=session)


def is_scored(workplace: Workplace, session: str) -> bool:
    return not scores(workplace, session).is_empty()


def is_published(workplace: Workplace, session: str) -> bool:
    database = workplace.settings.data_dir / "analytics.duckdb"
    if not database.exists():
        return False
    with duckdb.connect(str(database), read_only=True) as connection:
        found = connection.execute(
            "select count(*) from session_performance where session_id = ?", [session]
        ).fetchone()
    return found == (1,)


def written(workplace: Workplace, number: int) -> int:
    """Return the id of the part with the scores of a day, which grows with each write."""
    (part,) = Manifest(workplace.ledger).current(SESSION_PERFORMANCE.name, day(number))
    return part.part_id


def contents(workplace: Workplace) -> dict[str, set[str]]:
    """Return the paths of the current parts of each date; the books follow at their own pace."""
    found: dict[str, set[str]] = defaultdict(set)
    for part in (part for table in TELEMETRY_TABLES for part in workplace.lake.parts(table.table)):
        found[str(part.session_date)].add(part.path)
    return found


def has_ended(live: LiveLocation, backfill: str) -> bool:
    return bool({"SUCCESS", "FAILURE"}.intersection(backfill_status(live, backfill)[1]))


def has_failed(workplace: Workplace, number: int, attempts: int) -> bool:
    known = queued_dates(workplace)
    return day(number) in known and known[day(number)].attempts == attempts


def is_built(workplace: Workplace, number: int) -> bool:
    return queued_dates(workplace)[day(number)].is_built
