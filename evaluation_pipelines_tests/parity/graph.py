"""The graph of Dagster definitions, as Dagster itself writes it down for its web server."""

import json
from collections.abc import Iterator
from typing import Any

from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value

from evaluation_pipelines.definitions import defs
from evaluation_pipelines_tests.parity.surfaces import Surface

_PARTS = {
    "external_asset_graph_data": "assets",
    "external_asset_checks": "checks",
    "external_pipeline_datas": "jobs",
    "external_partition_set_datas": "partition_sets",
    "external_sensor_datas": "sensors",
    "external_schedule_datas": "schedules",
}
_OF_CONFIGURATION = ("config_schema_snapshot", "dagster_type_namespace_snapshot")


def definitions() -> Iterator[Surface]:
    """Yield assets with their partitions, checks, jobs, sensors and schedules."""
    snapshot = json.loads(serialize_value(RepositorySnap.from_def(defs().get_repository_def())))
    for part, surface in _PARTS.items():
        yield surface, [(_name(row), row) for row in snapshot[part]]


def _name(row: dict[str, Any]) -> str:
    for each in _OF_CONFIGURATION:  # thousands of lines about types of configuration
        row.get("pipeline_snapshot", {}).pop(each, None)
    asset = row.get("asset_key") or {"path": []}
    return " ".join([*asset["path"], row.get("name") or ""])
