"""Queries and clicks in the interface of a running location, sent as GraphQL."""

from collections.abc import Iterable
from datetime import date
from typing import Any

from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from evaluation_pipelines_tests.defs.code_location import DAILY_TABLES, day
from evaluation_pipelines_tests.defs.live_location import LiveLocation

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
  ... on AssetNode { materializeds {
    ... on TimePartitionStatuses { ranges { status startKey endKey } } } } } }
"""


def launch_backfill(live: LiveLocation, days: Iterable[date]) -> str:
    backfill = {
        "assetSelection": [{"path": [table]} for table in DAILY_TABLES],
        "partitionNames": [each.isoformat() for each in days],
        "fromFailure": False,
    }
    return str(live.query(BACKFILL, backfill=backfill)["launchPartitionBackfill"]["backfillId"])


def backfill_status(live: LiveLocation, backfill: str) -> tuple[str, list[str]]:
    found = live.query(BACKFILL_STATUS, id=backfill)
    runs = [result["status"] for result in found["runsOrError"]["results"]]
    return found["partitionBackfillOrError"]["status"], runs


def builds(live: LiveLocation) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = live.query(RUNS, job="build_daily_tables")["runsOrError"][
        "results"
    ]
    return runs


def latest_build(live: LiveLocation) -> dict[str, Any]:
    return builds(live)[0]


def ranges_of_builds(live: LiveLocation) -> list[tuple[date, date]]:
    """Return the first and last date of each build, newest first."""
    tags = [{tag["key"]: tag["value"] for tag in run["tags"]} for run in builds(live)]
    return [
        (
            date.fromisoformat(tag[ASSET_PARTITION_RANGE_START_TAG]),
            date.fromisoformat(tag[ASSET_PARTITION_RANGE_END_TAG]),
        )
        for tag in tags
    ]


def failure_shown(live: LiveLocation) -> str:
    events = live.query(FAILURE, id=latest_build(live)["runId"])["logsForRun"]["events"]
    return str([event for event in events if event.get("failureMetadata")])


def check_shown(live: LiveLocation) -> str:
    asset = {"path": ["agent_sessions"]}
    (check,) = live.query(CHECK, asset=asset, name="every_date_was_built")["assetCheckExecutions"]
    assert check["status"] == "FAILED"
    return str(check["evaluation"])


def partition_status(live: LiveLocation, number: int) -> str | None:
    """Return the status of a day of the sessions; ``None`` if it was never materialized."""
    asset = live.query(PARTITIONS, asset={"path": ["agent_sessions"]})["assetNodeOrError"]
    for materialized in asset["assetPartitionStatuses"]["ranges"]:
        if materialized["startKey"] <= day(number).isoformat() <= materialized["endKey"]:
            return str(materialized["status"])
    return None


def click_on_materialize(live: LiveLocation, asset: str, number: int) -> None:
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
