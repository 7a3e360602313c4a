"""Sensor that loads signals from files of other systems."""

import hashlib
from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import LAST, LATER_RUN
from evaluation_pipelines.defs.reputation.assets import external_signals
from evaluation_pipelines.reputation.external_signals import changed_files
from evaluation_pipelines.reputation.submitted import SubmittedEvaluations
from evaluation_pipelines.schemas import EXTERNAL_SIGNALS
from evaluation_pipelines.storage.stores import Stores

_TAGS = LATER_RUN | LAST


@dg.sensor(
    target=[external_signals],
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts a load when a file of signals or evaluations is new or has changed, or "
    "programs submitted evaluations.",
)
def outside_signals_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | dg.SkipReason:
    """Request one run for each state of the files, and one every hour until it succeeds.

    Evaluations that programs submit are loaded every ten minutes: they count in the service anyway.
    Files that were loaded in a terminal are shown by one run, which loads nothing.
    """
    changed, now = changed_files(stores), datetime.now(UTC)
    if changed:
        states = [(each.path, each.size_bytes, each.modified_at_ns) for each in changed]
        state = hashlib.sha256(repr(states).encode()).hexdigest()
        return dg.RunRequest(f"{state} {now:%Y-%m-%dT%H}", tags=_TAGS)
    if SubmittedEvaluations(stores.ledger).waiting():
        return dg.RunRequest(f"submitted {now:%Y-%m-%dT%H}:{now.minute // 10}", tags=_TAGS)
    key = dg.AssetKey(EXTERNAL_SIGNALS.name)
    is_shown = context.instance.get_latest_materialization_event(key) is not None
    if not (is_shown or stores.lake.read_whole(EXTERNAL_SIGNALS).is_empty()):
        return dg.RunRequest("loaded in a terminal", tags=_TAGS)
    return dg.SkipReason("no file of signals is new or changed, no submitted evaluation waits")
