"""Versions of data: they tell the interface which dates are older than what they were made from.

Dagster notes them by itself for an asset that a step returns; the daily tables report their
materializations one by one, so that they note them here.
"""

import hashlib
from datetime import date
from pathlib import Path

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    INPUT_DATA_VERSION_TAG_PREFIX,
)


def landed_version(rows: int) -> str:
    """Version of the landed events of a date: they only ever become more."""
    return f"{rows}-rows"


def file_version(path: Path) -> str:
    """Version of a partition: a hash of its file; the same rows give the same file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def version_tags(code_version: str, version: str, upstream: str, used: str) -> dict[str, str]:
    """Tags of a materialization that was made from version ``used`` of ``upstream``."""
    return {
        CODE_VERSION_TAG: code_version,
        DATA_VERSION_TAG: version,
        f"{INPUT_DATA_VERSION_TAG_PREFIX}/{upstream}": used,
    }


def current_version(instance: dg.DagsterInstance, asset: str, day: date) -> str:
    """Version of a partition as last reported; empty when it never was."""
    partition = [day.isoformat()]
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=partition), limit=1
    ).records
    materialization = records[0].asset_materialization if records else None
    tags = (materialization.tags if materialization else None) or {}
    return tags.get(DATA_VERSION_TAG, "")
