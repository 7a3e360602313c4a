"""The whole location, started as by ``make dev`` and driven by files and GraphQL only."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from functools import partial

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.build import TELEMETRY_TABLES
from evaluation_pipelines.schemas import SESSION_PERFORMANCE
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines_tests.defs.code_location import DAILY_TABLES, day, session_line
from evaluation_pipelines_tests.defs.date_failures import queued_dates
from evaluation_pipelines_tests.defs.live_location import LiveLocation, start
from evaluation_pipelines_tests.workplace import Workplace

HISTORY = range(14)
SESSIONS_A_DAY = 3
BACKFILL = """
mutation ($backfill: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $backfill) {
  ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
BACKFILL_STATUS = """
query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status } }
  runsOrError(filter: {tags: [{key: "dagster/backfill", value: $id}]}) {
    ... on Runs { results { runId status } } } }
"""


@pytest.mark.slow
def test_the_whole_location_as_users_run_it(workplace: Workplace) -> None:
    folder = workplace.settings.data_dir
    lines = [session_line(n, f"h{k}") for n in HISTORY for k in range(SESSIONS_A_DAY)]
    workplace.land("history.jsonl", b"".join(lines))
    (folder / "dagster").mkdir()
    with start(folder / "dagster", data_dir=folder) as live:
        live.wait("scores of the history", lambda: scores(workplace).height == len(lines))
        check_that_a_line_is_scored_within_a_minute(live, workplace)
        check_that_a_line_reaches_the_analysts_within_a_minute(live, workplace)
        backfill = check_that_a_backfill_is_one_run(live, workplace)
        check_that_a_session_resumed_later_updates_its_first_date_only(live, workplace)
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
    live.wait("final status", lambda: backfill_status(live, backfill)[0] != "REQUESTED", 180)
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
    assert {event for event in after if before.get(event) != after[event]} == {str(day(3))}


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


def launch_backfill(live: LiveLocation, days: Iterable[date]) -> str:
    backfill = {
        "assetSelection": [{"path": [table]} for table in DAILY_TABLES],
        "partitionNames": [partition.isoformat() for partition in days],
        "fromFailure": False,
    }
    return str(live.query(BACKFILL, backfill=backfill)["launchPartitionBackfill"]["backfillId"])


def backfill_status(live: LiveLocation, backfill: str) -> tuple[str, list[str]]:
    found = live.query(BACKFILL_STATUS, id=backfill)
    runs = [result["status"] for result in found["runsOrError"]["results"]]
    return found["partitionBackfillOrError"]["status"], runs


def has_ended(live: LiveLocation, backfill: str) -> bool:
    return bool({"SUCCESS", "FAILURE"}.intersection(backfill_status(live, backfill)[1]))


def is_built(workplace: Workplace, number: int) -> bool:
    return queued_dates(workplace)[day(number)].is_built
