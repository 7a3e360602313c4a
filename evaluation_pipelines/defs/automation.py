"""Partitions, code versions and what starts runs by itself."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TypeAlias

import dagster as dg

from evaluation_pipelines.schemas import EVALUATION_BOOKS
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.parts import NewPart, Part

ASSET_PARTITION_RANGE_START_TAG = "dagster/asset_partition_range_start"
ASSET_PARTITION_RANGE_END_TAG = "dagster/asset_partition_range_end"
PARTITION_NAME_TAG = "dagster/partition"

# end_offset=1: today is a partition, too, since telemetry is scored within a minute.
SESSION_DATES = dg.DailyPartitionsDefinition(
    start_date=load_settings().start_date.isoformat(), timezone="UTC", end_offset=1
)


def is_partition(day: date) -> bool:
    """True if a date is a partition; a request for any other date fails the whole sensor tick."""
    return SESSION_DATES.has_partition_key(day.isoformat())


def range_tags(first: date, last: date) -> dict[str, str]:
    """Return the tags of a run over the dates from ``first`` to ``last``."""
    return {
        ASSET_PARTITION_RANGE_START_TAG: first.isoformat(),
        ASSET_PARTITION_RANGE_END_TAG: last.isoformat(),
    }


def tagged_range(tags: Mapping[str, str]) -> tuple[date, date] | None:
    """Return the first and last date of a run by its tags; ``None`` for a run without a range."""
    if ASSET_PARTITION_RANGE_START_TAG not in tags or ASSET_PARTITION_RANGE_END_TAG not in tags:
        return None
    return (
        date.fromisoformat(tags[ASSET_PARTITION_RANGE_START_TAG]),
        date.fromisoformat(tags[ASSET_PARTITION_RANGE_END_TAG]),
    )


def tagged_dates(tags: Mapping[str, str]) -> tuple[date, date] | None:
    """Return the first and last date of a run over a range or one date; ``None`` for others."""
    one = tags.get(PARTITION_NAME_TAG)
    return tagged_range(tags) if one is None else (date.fromisoformat(one),) * 2


NIGHTLY_EVALUATION = "nightly_evaluation"
"""Name of the nightly schedule and of its job."""

NIGHT_RUN = {"evaluation/night": "yes"}
"""Tag of nightly runs; see ``is_nightly``."""

ONLY_DUE = {"evaluation/only_due": "yes"}
"""Tag of runs that leave out dates which another process has built meanwhile."""

# Not eager(), which considers the newest date only: late telemetry changes older dates.
# Updates by a nightly run do not count, since it also builds the assets that depend on them.
# executed_with_root_target(), the rule of Dagster against a second request, considers only one
# date of a run over many.
_ANY_UPDATED = dg.AutomationCondition.any_deps_match(
    (
        dg.AutomationCondition.newly_updated()
        & ~dg.AutomationCondition.executed_with_root_target()
        & ~dg.AutomationCondition.all_new_updates_have_run_tags(tag_values=NIGHT_RUN)
    ).with_label("updated by a run that did not build this asset as well")
    | dg.AutomationCondition.will_be_requested()
)
_UPDATED = _ANY_UPDATED.with_label("an input was updated")

_Condition: TypeAlias = dg.AutomationCondition[dg.AssetKey | dg.AssetCheckKey]


def _until_requested(updated: _Condition) -> _Condition:
    """Return whether an input was updated since the last run was requested.

    since_last_handled() would not do: an update between the tick that requests the run and the
    next tick is newer than the run, but counts as handled by it.
    """
    return updated.since(dg.AutomationCondition.newly_requested() & ~updated).with_label(
        "an input has changed since the last run was requested"
    )


_CHANGED = _until_requested(_UPDATED)

_FULL_HOUR = dg.AutomationCondition.cron_tick_passed("0 * * * *").with_label("a full hour started")
_FAILED = dg.AutomationCondition.execution_failed().with_label("the last run of it failed")

# Not while a build is running: its next date would request the same work again.
_ANY_IN_PROGRESS = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.in_progress())
_SETTLED = (~_ANY_IN_PROGRESS).with_label("no run is building one of its inputs")
_IDLE = (~dg.AutomationCondition.in_progress()).with_label("no run is building it")

# Every hour in any case: for runs that failed, and for dates that were built in a terminal.
WHEN_INPUTS_SETTLED = ((_CHANGED | _FULL_HOUR) & _SETTLED & _IDLE).with_label(
    "when its inputs have changed and settled, and every hour"
)

# Evaluated for each date. A date whose run failed is requested again every hour.
WHEN_DATE_CHANGED = ((_CHANGED | (_FAILED & _FULL_HOUR)) & _SETTLED & _IDLE).with_label(
    "when the inputs of a date have changed and settled. Every hour while that fails"
)

EVERY_5_SECONDS, EVERY_10_SECONDS = 4, 9
"""Intervals of sensors. The daemon looks every five seconds which are due: after 4.9 seconds it
would find one of 5 not due yet, and look again after ten."""

FIRST, SECOND, LAST = ({"dagster/priority": priority} for priority in ("-1", "-2", "-3"))
"""Tags of runs that no person has started, who have 0 and go first. Telemetry leaves the queue
before what analysts see of it and the books, these before all others, which get a slot between two
of them: each kind has one run at a time, which is requested seconds after the one before has ended.
"""

REPUTATION = "reputation"
"""Group of the assets that need ClickHouse."""

LATER_RUN = {"evaluation/later": "yes"}
"""Tag of runs of books and reputation, which follow each build. ``dagster.yaml`` limits them to
one, so that telemetry is processed meanwhile, also while one of them waits for ClickHouse."""

_BOOKS = dg.AssetSelection.assets(EVALUATION_BOOKS.name)
_LATER = dg.AssetSelection.groups(REPUTATION) | _BOOKS

# Runs of books and reputation follow each build, and those after a new line may take a minute.
# Twice negated: Dagster keeps the state of since() under the kinds of its operands, and two of the
# same kinds in one condition would share it.
_SESSIONS_CHANGED = _until_requested(
    (~~_ANY_UPDATED.ignore(_LATER)).with_label("a table of sessions was updated")
)
_SESSIONS_SETTLED = (~_ANY_IN_PROGRESS.ignore(_LATER)).with_label(
    "no run is building a table of sessions"
)
WHEN_SESSIONS_SETTLED = (
    ((_SESSIONS_CHANGED | _FULL_HOUR) & _SESSIONS_SETTLED & _IDLE).with_label(
        "when tables of sessions have changed and settled"
    )
    | WHEN_INPUTS_SETTLED
).with_label(
    "when tables of sessions have changed and settled, and again with the books and reputation"
)

# Explicit, since the sensor that Dagster creates by default is stopped.
aggregates_sensor = dg.AutomationConditionSensorDefinition(
    "aggregates_sensor",
    target=dg.AssetSelection.all() - dg.AssetSelection.groups(REPUTATION) - _BOOKS,
    minimum_interval_seconds=EVERY_5_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    run_tags=SECOND,
    description="Builds the aggregates whose inputs have changed, and all of them every hour.",
)

# Separate runs: books that do not balance do not stop any other asset.
books_sensor = dg.AutomationConditionSensorDefinition(
    "books_sensor",
    target=_BOOKS,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    run_tags=LATER_RUN | SECOND,
    description="Closes the books of dates whose tables have changed.",
)

# Separate runs: in a run with other assets, a failure here would skip the assets after it.
reputation_sensor = dg.AutomationConditionSensorDefinition(
    "reputation_sensor",
    target=dg.AssetSelection.groups(REPUTATION),
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    run_tags=LATER_RUN | LAST,
    description="Sends dates with new scores to ClickHouse, and computes reputation every hour.",
)


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
    hashes = sorted(f"{part.slot} {part.sha256}" for part in parts)
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:32]


def newest_part(parts: Sequence[Part]) -> str:
    """Return what differs after each build of a partition, also one of the same content."""
    return str(max((part.part_id for part in parts), default=0))


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
            known |= {partition: tags.get(partition, {}).get(tag, "") for partition in dates}
        return known[day]

    def _event(self, asset: str, day: str) -> str:
        known = self._events.setdefault(asset, {})
        if day not in known:
            dates, storage = self._unknown(known), self.instance.event_log_storage
            events = storage.get_latest_storage_id_by_partition(dg.AssetKey(asset), _KIND, {*dates})
            known |= {
                partition: str(events.get(partition, NULL_EVENT_POINTER)) for partition in dates
            }
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
