"""The whole location, started as ``make dev`` does and driven by files and GraphQL alone."""

import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.records import TouchedDate
from evaluation_pipelines.adapters.ledger.tables import TOUCHED_DATES
from evaluation_pipelines.domain.schemas import AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines_tests.defs.code_location import DAILY_TABLES, day, session_line
from evaluation_pipelines_tests.defs.lake_reader import reading
from evaluation_pipelines_tests.defs.live_location import LiveLocation, start
from evaluation_pipelines_tests.receiver import Receiver, open_receiver
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
LAUNCH = """
mutation ($run: ExecutionParams!) { launchRun(executionParams: $run) {
  ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }
"""
RUNS = """
query ($job: String!) { runsOrError(filter: {pipelineName: $job}) {
  ... on Runs { results { runId status tags { key value } } } } }
"""
FAILURE = """
query ($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
  ... on ExecutionStepFailureEvent { failureMetadata { label description metadataEntries {
    label ... on TextMetadataEntry { text } } } } } } } }
"""
CHECK = """
query ($asset: AssetKeyInput!, $name: String!) {
  assetCheckExecutions(assetKey: $asset, checkName: $name, limit: 1) {
    status evaluation { metadataEntries { label ... on TextMetadataEntry { text } } } } }
"""
PARTITIONS = """
query ($asset: AssetKeyInput!) { assetNodeOrError(assetKey: $asset) {
  ... on AssetNode { assetPartitionStatuses {
    ... on TimePartitionStatuses { ranges { status startKey endKey } } } } } }
"""


@pytest.mark.slow
def test_the_whole_location_as_somebody_runs_it(workplace: Workplace) -> None:
    folder = workplace.settings.data_dir
    lines = [session_line(n, f"h{k}") for n in HISTORY for k in range(SESSIONS_A_DAY)]
    workplace.land("history.jsonl", b"".join(lines))
    (folder / "dagster").mkdir()
    with (
        open_receiver() as receiver,
        start(folder / "dagster", data_dir=folder, alert_webhook_url=receiver.url) as live,
    ):
        live.wait("scores of the history", lambda: scores(workplace).height == len(lines))
        check_that_a_line_shows_as_a_score_within_a_minute(live, workplace)
        backfill = check_that_a_backfill_is_one_run_that_disturbs_no_reader(live, workplace)
        check_that_a_session_resumed_later_updates_its_first_date_only(live, workplace)
        check_that_a_broken_date_stands_alone(live, workplace, receiver)
        check_that_the_backfill_was_one_run(live, backfill)


def check_that_a_line_shows_as_a_score_within_a_minute(
    live: LiveLocation, workplace: Workplace
) -> None:
    taken: list[float] = []
    for number in range(20, 25):
        workplace.land("live.jsonl", session_line(number), "ab")
        shown = partial(is_scored, workplace, f"s-{number}")
        _, seconds = live.wait("score of the new line", shown)
        taken.append(round(seconds, 1))
    print(f"line appended -> score visible, seconds: {taken}")  # noqa: T201 - what -s is for

    assert len(taken) == 5
    assert max(taken) <= 60


def check_that_a_backfill_is_one_run_that_disturbs_no_reader(
    live: LiveLocation, workplace: Workplace
) -> str:
    known = str(workplace.sessions().height)
    before = [modified(workplace, number) for number in HISTORY]
    with reading(workplace.lake.root / AGENT_SESSIONS.name) as counts:
        answer = live.query(
            BACKFILL,
            backfill={
                "assetSelection": [{"path": [each]} for each in DAILY_TABLES],
                "partitionNames": [day(number).isoformat() for number in HISTORY],
                "fromFailure": False,
            },
        )
        identity = answer["launchPartitionBackfill"]["backfillId"]

        def ended() -> Any:
            found = live.query(BACKFILL_STATUS, id=identity)["runsOrError"]["results"]
            return found if found and found[0]["status"] in ("SUCCESS", "FAILURE") else None

        runs, seconds = live.wait("end of the backfill", ended, 120)
    print(f"backfill of 14 days: {seconds:.1f} s, beside it {counts.total()} reads")  # noqa: T201

    assert [each["status"] for each in runs] == ["SUCCESS"]
    assert all(modified(workplace, n) > old for n, old in zip(HISTORY, before, strict=True))
    assert counts.keys() == {known}
    assert counts[known] > 20
    return str(identity)


def check_that_the_backfill_was_one_run(live: LiveLocation, backfill: str) -> None:
    """The daemon looks at backfills only now and then: long after the run it says the same."""
    found = live.query(BACKFILL_STATUS, id=backfill)
    assert found["partitionBackfillOrError"]["status"] == "COMPLETED_SUCCESS"
    assert len(found["runsOrError"]["results"]) == 1


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
    changed = {path.parent.name for path in after if before.get(path) != after[path]}
    assert changed == {f"session_date={day(3)}"}


def check_that_a_broken_date_stands_alone(
    live: LiveLocation, workplace: Workplace, receiver: Receiver
) -> None:
    # A folder lies where the file of the sessions should be.
    obstacle = workplace.lake.partition(AGENT_SESSIONS, day(31))
    (obstacle / "in the way").mkdir(parents=True)
    workplace.land("live.jsonl", b"".join(map(session_line, (30, 31, 32))), "ab")
    live.wait("first failure", partial(touched, workplace, 31, attempts=1))
    live.wait("score of the date after it", partial(is_scored, workplace, "s-32"))
    assert [is_scored(workplace, f"s-{n}") for n in (30, 31, 32)] == [True, False, True]
    for attempts in (2, 3, 4):
        let_time_pass(workplace)
        live.wait(f"attempt {attempts}", partial(touched, workplace, 31, attempts))
    live.wait("alert", lambda: receiver.texts)
    live.wait("end of the run", lambda: latest_build(live)["status"] == "FAILURE")

    found = touched(workplace, 31, attempts=4)
    assert found
    assert found.parked
    (alert,) = receiver.texts
    assert alert.startswith(f"session_date {day(31)} is parked after 4 attempts\nagent_sessions: ")
    assert ranges_of_builds(live)[:4] == [(day(31), day(31))] * 3 + [(day(30), day(32))]
    for text in (failure_shown(live), check_shown(live)):
        assert str(obstacle) in text
    assert partition_status(live, 31) == "FAILED"

    shutil.rmtree(obstacle)
    click_on_materialize(live, "agent_sessions", 31)
    live.wait("revived date", lambda: is_built(workplace, 31))
    assert is_scored(workplace, "s-31")
    live.wait("green partition", lambda: partition_status(live, 31) == "MATERIALIZED")
    assert len(receiver.texts) == 1


def scores(workplace: Workplace, session: str | None = None) -> pl.DataFrame:
    """Scores of all sessions, or of one."""
    found = workplace.performance()
    return found if session is None else found.filter(session_id=session)


def is_scored(workplace: Workplace, session: str) -> bool:
    """Whether a session has a score."""
    return not scores(workplace, session).is_empty()


def modified(workplace: Workplace, number: int) -> int:
    """When the scores of a day were written."""
    return workplace.lake.partition(SESSION_PERFORMANCE, day(number)).stat().st_mtime_ns


def contents(workplace: Workplace) -> dict[Path, tuple[bytes, int]]:
    """Content and time of all published files and parts."""
    root = workplace.lake.root
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.glob("*/session_date=*/*.parquet")
    }


def touched(workplace: Workplace, number: int, attempts: int) -> TouchedDate | None:
    """What the ledger knows of a day, once it has failed so often."""
    for each in workplace.ledger.touched.all():
        if each.session_date == day(number) and each.attempts == attempts:
            return each
    return None


def is_built(workplace: Workplace, number: int) -> bool:
    """Whether all data of a day is built."""
    return any(
        each.session_date == day(number) and each.is_built
        for each in workplace.ledger.touched.all()
    )


def let_time_pass(workplace: Workplace) -> None:
    """Make dates that wait for their next attempt due now."""
    waiting = TOUCHED_DATES.c.next_attempt_at.is_not(None)
    # Not earlier: a run that began after it would count as one that noted nothing.
    due = sa.update(TOUCHED_DATES).where(waiting).values(next_attempt_at=datetime.now(UTC))
    with workplace.ledger.engine.begin() as connection:
        connection.execute(due)


def builds(live: LiveLocation) -> list[dict[str, Any]]:
    """Runs that the sensor asked for, the newest first."""
    found: list[dict[str, Any]] = live.query(RUNS, job="build_daily_tables")["runsOrError"][
        "results"
    ]
    return found


def latest_build(live: LiveLocation) -> dict[str, Any]:
    """The newest of them."""
    return builds(live)[0]


def ranges_of_builds(live: LiveLocation) -> list[tuple[Any, Any]]:
    """First and last date of those runs."""
    tags = [{each["key"]: each["value"] for each in run["tags"]} for run in builds(live)]
    keys = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    dates = [[datetime.fromisoformat(each[key]).date() for key in keys] for each in tags]
    return [(first, last) for first, last in dates]


def failure_shown(live: LiveLocation) -> str:
    """What the newest build says of its failure."""
    events = live.query(FAILURE, id=latest_build(live)["runId"])["logsForRun"]["events"]
    return str([each for each in events if each.get("failureMetadata")])


def check_shown(live: LiveLocation) -> str:
    """What the failed check of the sessions says."""
    asset = {"path": ["agent_sessions"]}
    (check,) = live.query(CHECK, asset=asset, name="every_date_was_built")["assetCheckExecutions"]
    assert check["status"] == "FAILED"
    return str(check["evaluation"])


def partition_status(live: LiveLocation, number: int) -> str | None:
    """Colour of a day of the sessions in the interface; None for one that was never tried."""
    asset = live.query(PARTITIONS, asset={"path": ["agent_sessions"]})["assetNodeOrError"]
    for each in asset["assetPartitionStatuses"]["ranges"]:
        if each["startKey"] <= day(number).isoformat() <= each["endKey"]:
            return str(each["status"])
    return None


def click_on_materialize(live: LiveLocation, asset: str, number: int) -> None:
    """What the button of one asset sends for one partition."""
    selector = {
        "repositoryName": "__repository__",
        "repositoryLocationName": "evaluation_pipelines",
        "jobName": "__ASSET_JOB",
        "assetSelection": [{"path": [asset]}],
    }
    tags = [{"key": "dagster/partition", "value": day(number).isoformat()}]
    run = {"selector": selector, "mode": "default", "executionMetadata": {"tags": tags}}
    answer = live.query(LAUNCH, run=run)["launchRun"]
    assert "run" in answer, answer
