"""What the code location holds, as Dagster loads it, in one page of text.

``python -m evaluation_pipelines_tests.definitions_snapshot`` writes it; its changes are read in the
difference of the commit.
"""

from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from evaluation_pipelines.definitions import defs

_ONE_RUN = dg.BackfillPolicy.single_run()
SNAPSHOT = Path(__file__).parent / "data" / "definitions.yaml"


@cache
def repository() -> dg.RepositoryDefinition:
    """Return the repository of the code location."""
    return defs().get_repository_def()


def described() -> dict[str, Any]:
    """Return assets with their checks, jobs, sensors and schedules, by name."""
    found = repository()
    jobs = [job for job in found.get_all_jobs() if not job.name.startswith("__")]
    return {
        "assets": {key.to_user_string(): _asset(key) for key in sorted(_keys())},
        "jobs": {job.name: _job(job) for job in jobs},
        "sensors": {sensor_def.name: _sensor(sensor_def) for sensor_def in found.sensor_defs},
        "schedules": {
            schedule_def.name: _schedule(schedule_def) for schedule_def in found.schedule_defs
        },
    }


def text() -> str:
    """Return the snapshot as text."""
    return yaml.safe_dump(described(), default_flow_style=None, width=140)


def _keys() -> set[dg.AssetKey]:
    return set(repository().asset_graph.get_all_asset_keys())


def _asset(key: dg.AssetKey) -> dict[str, Any]:
    asset = repository().asset_graph.get(key)
    condition = asset.automation_condition
    shown = {
        "group": asset.group_name,
        "kinds": sorted(asset.kinds),
        "code version": asset.code_version,
        "owners": list(asset.owners),
        "description": (asset.description or "").splitlines()[0],
        "inputs": _names(asset.parent_keys),
        "partitions": type(asset.partitions_def).__name__ if asset.partitions_def else None,
        "backfill": "one run" if asset.backfill_policy == _ONE_RUN else None,
        "freshness": _freshness(asset.freshness_policy_or_from_metadata),
        "condition": condition.get_label() if condition else None,
        "materializable": asset.is_materializable,
        "checks": _checks(key),
        **_step(key),
    }
    return {name: value for name, value in shown.items() if value not in (None, [], {})}


def _freshness(policy: Any) -> str | None:
    if policy is None:
        return None
    warn, fail = (window.to_timedelta() for window in (policy.warn_window, policy.fail_window))
    return f"warns after {warn}, fails after {fail}"


def _checks(key: dg.AssetKey) -> dict[str, str]:
    graph = repository().asset_graph
    found = {}
    for check_key in graph.asset_check_keys:
        if check_key.asset_key == key:
            spec = graph.get_check_spec(check_key)
            found[check_key.name] = f"{'blocks: ' if spec.blocking else ''}{spec.description}"
    return found


def _step(key: dg.AssetKey) -> dict[str, Any]:
    definition = repository().assets_defs_by_key[key]
    if not definition.is_executable:
        return {}
    policy = (
        definition.op.retry_policy if isinstance(definition.node_def, dg.OpDefinition) else None
    )
    pools = {pool for op in definition.node_def.iterate_op_defs() for pool in op.pools}
    delays = [policy.calculate_delay(n + 1) for n in range(policy.max_retries)] if policy else None
    return {"pools": sorted(pools), "retried after s": delays}


def _job(job: dg.JobDefinition) -> dict[str, Any]:
    layer = job.asset_layer
    checks = {f"{check.asset_key.to_user_string()}: {check.name}" for check in _checks_of(job)}
    steps = [op for node in job.nodes for op in node.definition.iterate_op_defs()]
    shown = {
        "description": job.description,
        "assets": _names(layer.selected_asset_keys),
        "checks": sorted(checks),
        "pools": sorted({pool for op in steps for pool in op.pools}),
        "tags": dict(job.tags),
    }
    return {name: value for name, value in shown.items() if value}


def _checks_of(job: dg.JobDefinition) -> set[dg.AssetCheckKey]:
    layer = job.asset_layer
    return set(layer.asset_graph.asset_check_keys) if layer.selected_asset_keys else set()


def _sensor(sensor: dg.SensorDefinition) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "description": sensor.description,
        "seconds": sensor.minimum_interval_seconds,
        "status": sensor.default_status.value,
    }
    if isinstance(sensor, dg.AutomationConditionSensorDefinition):
        chosen = sensor.asset_selection
        assert chosen is not None
        shown["assets"] = _names(chosen.resolve(repository().asset_graph))
        shown["tags"] = dict(sensor.run_tags)
    else:
        shown["jobs"] = sorted(job.name for job in sensor.jobs) if sensor.has_jobs else []
    return {name: value for name, value in shown.items() if value}


def _schedule(schedule: dg.ScheduleDefinition) -> dict[str, Any]:
    return {
        "job": schedule.job_name,
        "cron": schedule.cron_schedule,
        "time zone": schedule.execution_timezone,
        "status": schedule.default_status.value,
        "tags": dict(schedule.tags),
    }


def _names(keys: Any) -> list[str]:
    return sorted(key.to_user_string() for key in keys)


if __name__ == "__main__":
    SNAPSHOT.write_text(text(), encoding="utf-8")
