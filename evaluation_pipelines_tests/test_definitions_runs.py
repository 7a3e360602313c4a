"""Jobs, sensors, conditions and runs of the code location as Dagster loads it."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.definitions import data_version, source_asset
from dagster._core.definitions.assets.job import asset_job
from dagster._core.storage import tags

from evaluation_pipelines.definitions import defs
from evaluation_pipelines.defs import alerts, automation, metadata
from evaluation_pipelines.defs.automation import LATER_RUN
from evaluation_pipelines_tests.expected_assets import CHECKS, COMPARED, DAILY
from evaluation_pipelines_tests.test_definitions import graph, repository

NEEDS_CLICKHOUSE = (
    "reputation_events",
    "external_signals",
    "reputation_scores",
    "agent_scores",
)

OWN_STEPS = {"judge_scores", "evaluation_books"}


OF_NO_DATE = {
    "agent_events_landed",
    "judge_changes",
    *OWN_STEPS,
    *COMPARED,
    *NEEDS_CLICKHOUSE,
}
"""Assets that a build of dates does not make."""


OF_THE_WHOLE_LAKE = {"scores_match_sessions", "profiles_are_calibrated"}


JOBS = {
    "ingest_landing",
    "build_daily_tables",
    "check_lake",
    "collect_judge_batches",
    "draw_audit_samples",
    "first_look",
    "expire",
    "judge_due",
    "judge_session_now",
    "nightly_evaluation",
}


# Sensor -> seconds between two ticks.
SENSORS = {
    "otel_landing_sensor": 9,
    "otel_logs_sensor": 60,
    "touched_dates_sensor": 4,
    "failed_build_sensor": 30,
    "failed_run_sensor": 30,
    "alerts_sensor": 60,
    "aggregates_sensor": 4,
    "books_sensor": 30,
    "fresh_sessions_sensor": 30,
    "judge_batches_sensor": 60,
    "reputation_sensor": 30,
    "outside_signals_sensor": 30,
    "terminal_builds_sensor": 30,
}


LOAD_WITHOUT_NETWORK = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        raise ConnectionError(f"loading the code location used the network: {event} {arguments}")

sys.addaudithook(refuse)
import dagster as dg
from evaluation_pipelines.definitions import defs
dg.Definitions.validate_loadable(defs())
"""


def test_the_code_location_has_exactly_these_jobs_with_descriptions() -> None:
    jobs = [each for each in repository().get_all_jobs() if not each.name.startswith("__")]

    assert {each.name for each in jobs} == JOBS
    assert all(each.description for each in jobs)


def test_a_build_runs_the_checks_of_its_tables_and_no_check_of_the_whole_lake() -> None:
    layer = repository().get_job("build_daily_tables").asset_layer

    assert {key.to_user_string() for key in layer.selected_asset_keys} == (
        DAILY.keys() - {"agent_events_landed", *OWN_STEPS}
    )
    daily = {
        (key.asset_key.to_user_string(), key.name) for key in layer.asset_graph.asset_check_keys
    }
    assert daily == {
        (asset, name)
        for asset, names in CHECKS.items()
        for name in names
        if asset not in OF_NO_DATE and name not in OF_THE_WHOLE_LAKE
    }


def test_the_code_location_has_exactly_these_sensors_running_by_default() -> None:
    sensors = repository().sensor_defs

    assert {each.name: each.minimum_interval_seconds for each in sensors} == SENSORS
    assert {each.default_status for each in sensors} == {dg.DefaultSensorStatus.RUNNING}
    assert all(each.description for each in sensors)


def test_the_nightly_run_builds_every_asset_with_a_condition() -> None:
    # The conditions ignore updates by the nightly run: an asset outside of it would stay outdated.
    built = repository().get_job("nightly_evaluation").asset_layer.selected_asset_keys
    automated = {
        key for key in graph().get_all_asset_keys() if graph().get(key).automation_condition
    }

    assert automated <= built
    assert {key.to_user_string() for key in built - automated} == {
        "judge_scores",
        "scorecards",
        "session_evaluations",
    }


def labels_of(condition: dg.AutomationCondition[dg.AssetKey]) -> list[str]:
    """Return the label, if any, of each operand of "and" and "or"."""
    if condition.name not in {"AND", "OR"}:
        return [condition.get_label() or ""]
    return [label for part in condition.children for label in labels_of(part)]


def test_every_condition_has_a_label_in_words() -> None:
    conditions = {
        condition
        for key in graph().get_all_asset_keys()
        if (condition := graph().get(key).automation_condition)
    }

    assert len(conditions) == 3
    for condition in conditions:
        assert " " in (condition.get_label() or "")
        assert all(" " in label for label in labels_of(condition))


def test_checks_judging_samples_and_expiry_run_every_night() -> None:
    schedules = repository().schedule_defs

    assert {(each.job_name, each.cron_schedule) for each in schedules} == {
        ("check_lake", "0 3 * * *"),
        ("nightly_evaluation", "0 2 * * *"),
        ("draw_audit_samples", "30 2 * * *"),
        ("expire", "30 4 * * *"),
    }
    assert {each.execution_timezone for each in schedules} == {"UTC"}
    assert {each.default_status for each in schedules} == {dg.DefaultScheduleStatus.RUNNING}


def test_a_second_judge_run_waits_and_one_session_on_demand_does_not() -> None:
    (due,) = repository().get_job("judge_due").nodes
    (one,) = repository().get_job("judge_session_now").nodes

    assert (due.definition.pools, one.definition.pools) == ({"judge"}, set())


@pytest.mark.parametrize("name", NEEDS_CLICKHOUSE)
def test_steps_that_need_clickhouse_run_one_by_one_and_are_retried(name: str) -> None:
    step = repository().assets_defs_by_key[dg.AssetKey(name)].op

    assert step.pools == {"clickhouse"}
    policy = step.retry_policy
    assert policy is not None
    # Seconds: 15 times 1, 3 and 7. Each attempt also waits as long as the settings say.
    assert [policy.calculate_delay(attempt) for attempt in (1, 2, 3)] == [15, 45, 105]
    assert policy.max_retries == 3


def test_assets_that_need_clickhouse_are_built_in_separate_runs() -> None:
    chosen = {}
    for name in ("aggregates_sensor", "reputation_sensor"):
        selection = repository().get_sensor_def(name).asset_selection
        assert selection is not None
        chosen[name] = selection.resolve(repository().asset_graph)

    assert {key.to_user_string() for key in chosen["reputation_sensor"]} == set(NEEDS_CLICKHOUSE)
    assert not chosen["reputation_sensor"] & chosen["aggregates_sensor"]
    limits = yaml.safe_load(
        (Path(__file__).parents[1] / "dagster.yaml").read_text(encoding="utf-8")
    )["concurrency"]["runs"]
    assert {"key": next(iter(LATER_RUN)), "limit": 1} in limits["tag_concurrency_limits"]


def test_runs_of_people_leave_the_queue_first() -> None:
    """Theirs have no tag, which is 0: not of a job, which they may launch as well."""
    assert not [
        each.name for each in repository().get_all_jobs() if "dagster/priority" in each.tags
    ]
    aggregates, books, reputation = (
        run_tags(each) for each in ("aggregates_sensor", "books_sensor", "reputation_sensor")
    )
    assert aggregates == {"dagster/priority": "-2"}
    assert books == {"dagster/priority": "-2", **LATER_RUN}
    assert reputation == {"dagster/priority": "-3", **LATER_RUN}
    nightly = ("nightly_audit_sample", "nightly_lake_check", "nightly_retention")
    schedules = [repository().get_schedule_def(each) for each in nightly]
    assert [each.tags for each in schedules] == [{"dagster/priority": "-3"}] * 3


def run_tags(sensor: str) -> Mapping[str, str]:
    """Return the tags of the runs that a sensor of conditions requests."""
    found = repository().get_sensor_def(sensor)
    assert isinstance(found, dg.AutomationConditionSensorDefinition)
    return found.run_tags


def test_a_second_ingest_waits_for_the_first() -> None:
    (step,) = repository().get_job("ingest_landing").nodes

    assert step.definition.pools == {"ingest"}


def test_steps_run_in_the_process_of_their_run() -> None:
    assert defs().executor is dg.in_process_executor


def test_no_private_name_of_dagster_is_imported() -> None:
    package = Path(__file__).parents[1] / "evaluation_pipelines"
    private = re.compile(r"\b(dagster\._|dagster_shared\b|dagster_duckdb\._)")
    using = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if private.search(path.read_text(encoding="utf-8"))
    ]

    assert using == []


def test_names_that_dagster_stores_are_spelled_as_it_does() -> None:
    assert automation.ASSET_PARTITION_RANGE_START_TAG == tags.ASSET_PARTITION_RANGE_START_TAG
    assert automation.ASSET_PARTITION_RANGE_END_TAG == tags.ASSET_PARTITION_RANGE_END_TAG
    assert automation.PARTITION_NAME_TAG == tags.PARTITION_NAME_TAG
    assert alerts.WILL_RETRY_TAG == tags.WILL_RETRY_TAG
    assert alerts.IMPLICIT_ASSET_JOB_NAME == asset_job.IMPLICIT_ASSET_JOB_NAME
    assert (
        metadata.SOURCE_ASSET_OBSERVATION
        == source_asset.SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
    )
    for name in (
        *("CODE_VERSION_TAG", "DATA_VERSION_TAG", "INPUT_DATA_VERSION_TAG_PREFIX"),
        *("INPUT_EVENT_POINTER_TAG_PREFIX", "NULL_EVENT_POINTER"),
    ):
        assert getattr(automation, name) == getattr(data_version, name)


def test_loading_needs_no_environment_file_or_network_and_warns_of_no_judge_only(
    tmp_path: Path,
) -> None:
    loading = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOAD_WITHOUT_NETWORK],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    warning = (
        "no session is scored by a judge: no judge is configured: "
        "set EVAL_JUDGE_MODEL to the name of a model\n"
    )
    assert (loading.returncode, loading.stdout, loading.stderr) == (0, "", warning)
    assert list(tmp_path.iterdir()) == []
