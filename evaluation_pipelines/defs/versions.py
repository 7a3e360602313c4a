"""Versions of data: they tell the interface which dates are older than what they were made from.

Dagster notes them by itself for an asset that a step returns; the daily tables report their
materializations one by one, so that they note them here.
"""

import hashlib
from collections.abc import Mapping, Sequence
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

_KIND = dg.DagsterEventType.ASSET_MATERIALIZATION


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
    """What was last reported of the partitions of some dates, looked up for many of them at once.

    ``reported`` must be called with the version of one that is reported.
    """

    instance: dg.DagsterInstance
    days: Sequence[date]
    _versions: dict[str, dict[str, str]] = field(default_factory=dict)
    _events: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, asset: str, day: date) -> tuple[str, str]:
        """Version of a partition and the event that reported it."""
        return self._version(asset, str(day)), self._event(asset, str(day))

    def reported(self, asset: str, day: date, version: str) -> None:
        """A partition was reported just now: which event that is shows when somebody asks."""
        self._versions.setdefault(asset, {})[str(day)] = version
        self._events.get(asset, {}).pop(str(day), None)

    def _version(self, asset: str, day: str) -> str:
        known = self._versions.setdefault(asset, {})
        if day not in known:
            dates = self._unknown(known)
            storage, tag = self.instance.event_log_storage, DATA_VERSION_TAG
            tags = storage.get_latest_tags_by_partition(dg.AssetKey(asset), _KIND, [tag], dates)
            known |= {each: tags.get(each, {}).get(tag, "") for each in dates}
        return known[day]

    def _event(self, asset: str, day: str) -> str:
        known = self._events.setdefault(asset, {})
        if day not in known:
            dates, storage = self._unknown(known), self.instance.event_log_storage
            events = storage.get_latest_storage_id_by_partition(dg.AssetKey(asset), _KIND, {*dates})
            known |= {each: str(events.get(each, NULL_EVENT_POINTER)) for each in dates}
        return known[day]

    def _unknown(self, known: Mapping[str, str]) -> list[str]:
        return [str(day) for day in self.days if str(day) not in known]


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
