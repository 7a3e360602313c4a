"""Versions of data: they tell the interface which dates are older than what they were made from.

Dagster notes them by itself for an asset that a step returns; the daily tables report their
materializations one by one, so that they note them here.
"""

import hashlib
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    INPUT_DATA_VERSION_TAG_PREFIX,
    INPUT_EVENT_POINTER_TAG_PREFIX,
    NULL_EVENT_POINTER,
)


def landed_version(rows: int) -> str:
    """Version of the landed events of a date: they only ever become more."""
    return f"{rows}-rows"


def file_version(paths: Sequence[Path]) -> str:
    """Version of a partition: a hash of its files; the same rows give the same files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def version_tags(
    instance: dg.DagsterInstance,
    code_version: str,
    version: str,
    upstream: Sequence[str],
    day: date,
) -> dict[str, str]:
    """Tags of a materialization of ``day`` that was made from ``upstream`` as last reported."""
    tags = {CODE_VERSION_TAG: code_version, DATA_VERSION_TAG: version}
    for asset in upstream:
        used, pointer = _last_report(instance, asset, day)
        tags[f"{INPUT_DATA_VERSION_TAG_PREFIX}/{asset}"] = used
        tags[f"{INPUT_EVENT_POINTER_TAG_PREFIX}/{asset}"] = pointer
    return tags


def _last_report(instance: dg.DagsterInstance, asset: str, day: date) -> tuple[str, str]:
    """Version of a partition and the event that reported it."""
    partition = dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[day.isoformat()])
    for record in instance.fetch_materializations(partition, limit=1).records:
        materialization = record.asset_materialization
        tags = (materialization.tags if materialization else None) or {}
        return tags.get(DATA_VERSION_TAG, ""), str(record.storage_id)
    return "", NULL_EVENT_POINTER
