"""Data versions, by which the interface shows dates that are older than their inputs.

Dagster records the versions itself for an asset that a step returns. The daily tables report
their materializations one by one, and add the versions here.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import dagster as dg

from evaluation_pipelines.storage.parts import NewPart, Part

CODE_VERSION_TAG, DATA_VERSION_TAG = "dagster/code_version", "dagster/data_version"
INPUT_DATA_VERSION_TAG_PREFIX = "dagster/input_data_version"
INPUT_EVENT_POINTER_TAG_PREFIX = "dagster/input_event_pointer"
NULL_EVENT_POINTER = "NULL"
PART_TAG = "evaluation/newest_part"
"""Tag of an event: which parts it is about, see ``newest_part``."""

_KIND = dg.DagsterEventType.ASSET_MATERIALIZATION


def landed_version(rows: int) -> str:
    """Return the version of the landed events of a date, whose number only grows."""
    return f"{rows}-rows"


def parts_version(parts: Sequence[NewPart]) -> str:
    """Return the version of a partition: a hash of its parts, which depend on its rows only."""
    hashes = sorted(f"{each.slot} {each.sha256}" for each in parts)
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:32]


def newest_part(parts: Sequence[Part]) -> str:
    """Return what differs after each build of a partition, also one of the same content."""
    return str(max((each.part_id for each in parts), default=0))


@dataclass(slots=True)
class LatestVersions:
    """Latest reported versions of the partitions of some dates, looked up for all dates together.

    Call ``update`` after reporting a partition.
    """

    instance: dg.DagsterInstance
    days: Sequence[date]
    _versions: dict[str, dict[str, str]] = field(default_factory=dict)
    _events: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, asset: str, day: date) -> tuple[str, str]:
        """Return the version of a partition and the id of the event that reported it."""
        return self._version(asset, str(day)), self._event(asset, str(day))

    def update(self, asset: str, day: date, version: str) -> None:
        """Note that a partition was reported; its event is looked up when it is needed."""
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
    latest: LatestVersions, code_version: str, version: str, upstream: Sequence[str], day: date
) -> dict[str, str]:
    """Return the tags of a materialization of ``day`` built from the latest ``upstream``."""
    tags = {CODE_VERSION_TAG: code_version, DATA_VERSION_TAG: version}
    for asset in upstream:
        used, pointer = latest.of(asset, day)
        tags[f"{INPUT_DATA_VERSION_TAG_PREFIX}/{asset}"] = used
        tags[f"{INPUT_EVENT_POINTER_TAG_PREFIX}/{asset}"] = pointer
    return tags
