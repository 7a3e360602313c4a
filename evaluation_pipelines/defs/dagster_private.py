"""Private names of Dagster; no other module imports them.

A release of Dagster may rename or remove a private name, so ``pyproject.toml`` pins the version.

``ASSET_PARTITION_RANGE_START_TAG``, ``ASSET_PARTITION_RANGE_END_TAG``
    Sensors and the nightly schedule request one run over a range of dates. Replaced by a public
    partition range of ``RunRequest`` and ``DagsterRun``.
``PARTITION_NAME_TAG``
    The date of a run over one date. Replaced by a public property of ``DagsterRun``.
``AUTOMATION_CONDITION_TAG``
    A run that an automation condition requested asks no model for priorities of missing tools.
    Replaced by a public property of the run that says what requested it.
``WILL_RETRY_TAG``
    A failed run that Dagster is about to retry raises no alert. Replaced by a run failure sensor
    that skips such runs.
``IMPLICIT_ASSET_JOB_NAME``
    Alerts do not show the internal job name of runs of selected assets. Replaced by a public
    property of the run that says whether its job was defined by users.
``SerializableErrorInfo``
    Type of the errors in events. Replaced by a public name for it.
``CODE_VERSION_TAG``, ``DATA_VERSION_TAG``, ``INPUT_DATA_VERSION_TAG_PREFIX``,
``INPUT_EVENT_POINTER_TAG_PREFIX``, ``NULL_EVENT_POINTER``
    Daily tables report each date with an ``AssetMaterialization``, which has no data version.
    Replaced by parameters like those of ``MaterializeResult``.
``SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION``
    A step yields an output without a materialization of every date of its run. Replaced by a
    public way to mark an output whose events are already logged.
``ASSET_EVENTS``, ``SqliteEventLogStorage``, ``DagsterSqliteStorage``, ``db_result``
    The event log stores the events of many dates in one transaction. Replaced by a SQLite storage
    of Dagster that stores batches of asset events itself.
"""

from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    INPUT_DATA_VERSION_TAG_PREFIX,
    INPUT_EVENT_POINTER_TAG_PREFIX,
    NULL_EVENT_POINTER,
)
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.events import ASSET_EVENTS
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlalchemy_compat import db_result
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    AUTOMATION_CONDITION_TAG,
    PARTITION_NAME_TAG,
    WILL_RETRY_TAG,
)
from dagster_shared.error import SerializableErrorInfo

__all__ = [
    "ASSET_EVENTS",
    "ASSET_PARTITION_RANGE_END_TAG",
    "ASSET_PARTITION_RANGE_START_TAG",
    "AUTOMATION_CONDITION_TAG",
    "CODE_VERSION_TAG",
    "DATA_VERSION_TAG",
    "IMPLICIT_ASSET_JOB_NAME",
    "INPUT_DATA_VERSION_TAG_PREFIX",
    "INPUT_EVENT_POINTER_TAG_PREFIX",
    "NULL_EVENT_POINTER",
    "PARTITION_NAME_TAG",
    "SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION",
    "WILL_RETRY_TAG",
    "DagsterSqliteStorage",
    "SerializableErrorInfo",
    "SqliteEventLogStorage",
    "db_result",
]
