"""Versions of data: they tell the interface which dates are older than what they were made from.

Dagster notes them by itself for an asset that a step returns; the daily tables report their
materializations one by one, so that they note them here.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class LastReports:
    """What was last reported of the partitions of some dates, looked up for all of them at once.

    ``reported`` must be called when one more is reported: what is known of that asset is old then.
    """

    instance: dg.DagsterInstance
    days: Sequence[date]
    _known: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)

    def of(self, asset: str, day: date) -> tuple[str, str]:
        """Version of a partition and the event that reported it."""
        if asset not in self._known:
            self._known[asset] = self._look_up(dg.AssetKey(asset))
        return self._known[asset].get(day.isoformat(), ("", NULL_EVENT_POINTER))

    def reported(self, asset: str) -> None:
        """A partition of the asset was reported just now."""
        self._known.pop(asset, None)

    def _look_up(self, asset: dg.AssetKey) -> dict[str, tuple[str, str]]:
        storage, kind = self.instance.event_log_storage, dg.DagsterEventType.ASSET_MATERIALIZATION
        dates = [day.isoformat() for day in self.days]
        events = storage.get_latest_storage_id_by_partition(asset, kind, set(dates))
        tags = storage.get_latest_tags_by_partition(asset, kind, [DATA_VERSION_TAG], dates)
        return {
            day: (tags.get(day, {}).get(DATA_VERSION_TAG, ""), str(event))
            for day, event in events.items()
        }


def version_tags(
    reports: LastReports, code_version: str, version: str, upstream: Sequence[str], day: date
) -> dict[str, str]:
    """Tags of a materialization of ``day`` that was made from ``upstream`` as last reported."""
    tags = {CODE_VERSION_TAG: code_version, DATA_VERSION_TAG: version}
    for asset in upstream:
        used, pointer = reports.of(asset, day)
        tags[f"{INPUT_DATA_VERSION_TAG_PREFIX}/{asset}"] = used
        tags[f"{INPUT_EVENT_POINTER_TAG_PREFIX}/{asset}"] = pointer
    return tags
