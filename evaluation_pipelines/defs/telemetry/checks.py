"""Asset checks of landed events: quarantined lines and parked dates."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches

_WINDOW = timedelta(days=1)


@dg.asset_check(
    asset=AGENT_EVENTS_LANDED.name, description="Few lines of the last day were unreadable."
)
def quarantine_share_is_low(stores: dg.ResourceParam[Stores]) -> dg.AssetCheckResult:
    """Fail if the share of quarantined lines is above EVAL_QUARANTINE_MAX_SHARE."""
    return _quarantine_share(stores)


@dg.asset_check(asset=AGENT_EVENTS_LANDED.name, description="No date is parked.")
def no_date_is_parked(stores: dg.ResourceParam[Stores]) -> dg.AssetCheckResult:
    """Fail if a date failed so often that it is not retried automatically."""
    return _parked_dates(stores)


def report_checks(instance: dg.DagsterInstance, stores: Stores) -> None:
    """Run the checks now, since no run materializes landed events and checks them afterwards."""
    for check, result in (
        (quarantine_share_is_low, _quarantine_share(stores)),
        (no_date_is_parked, _parked_dates(stores)),
    ):
        key = check.check_key
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=result.passed,
                metadata=result.metadata,
            )
        )


def _quarantine_share(stores: Stores) -> dg.AssetCheckResult:
    totals = IngestBatches(stores.ledger).totals(since=datetime.now(UTC) - _WINDOW)
    share = totals.quarantined / totals.lines if totals.lines else 0.0
    limit = stores.settings.quarantine_max_share
    return dg.AssetCheckResult(
        passed=share <= limit,
        metadata={
            "expected": f"at most {limit:.2%} of the lines read in the last 24 hours",
            "found": f"{share:.2%}: {totals.quarantined} of {totals.lines}",
            "where": stores.lake.where("quarantine"),
        },
    )


def _parked_dates(stores: Stores) -> dg.AssetCheckResult:
    parked = [
        each for each in RebuildQueue(stores.ledger).all() if each.parked and not each.is_built
    ]
    return dg.AssetCheckResult(
        passed=not parked,
        metadata={
            "expected": "no parked date",
            "found": f"{len(parked)} parked dates",
            **{each.session_date.isoformat(): each.last_error or "" for each in parked},
        },
    )
