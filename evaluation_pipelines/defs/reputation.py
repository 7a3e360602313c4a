"""Assets and sensors of reputation, which ClickHouse keeps."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import partial

import dagster as dg
import polars as pl

from evaluation_pipelines.defs.automation import (
    LAST,
    LATER_RUN,
    REPUTATION,
    SESSION_DATES,
    WHEN_DATE_CHANGED,
    WHEN_INPUTS_SETTLED,
)
from evaluation_pipelines.defs.metadata import (
    EVERY_HOUR,
    asset_check_result,
    column_schema,
    frame_metadata,
)
from evaluation_pipelines.reputation.domain.agent_rating import (
    agent_scores_are_in_range,
    reputation_is_in_range,
)
from evaluation_pipelines.reputation.external_signals import (
    changed_files,
    load_external_signals,
    skipped_files,
)
from evaluation_pipelines.reputation.submitted import SubmittedEvaluations, load_submitted
from evaluation_pipelines.reputation.updates import (
    BridgeResult,
    bridge_sessions,
    change_reputation,
    export_agent_ratings,
    export_reputation,
    signals_without_session,
    with_agents,
)
from evaluation_pipelines.schemas import (
    AGENT_SCORES,
    EXTERNAL_SIGNALS,
    REPUTATION_EVENTS,
    REPUTATION_SCORES,
    SESSION_EVALUATIONS,
    SESSION_OUTCOMES,
    Table,
)
from evaluation_pipelines.schemas.table import CheckResult
from evaluation_pipelines.storage.stores import Stores

_EXAMPLES = 10
_SIGNALS_SHOWN = ("timestamp", "reference_id", "event_type", "score_delta", "confidence")
_SCORES_SHOWN = ("organization_id", "agent_id", "identity_id", "overall_score", "total_events")
_AGENTS_SHOWN = ("organization_id", "agent_id", "score", "lifecycle", "eval_count", "pass_rate")
_FILES_SHOWN = ("path", "lines", "accepted", "repeated", "rejected", "unfinished")


def _check(table: Table, name: str, description: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(name, asset=table.name, description=description)


def _columns(table: Table) -> dict[str, dg.TableSchema]:
    return {"dagster/column_schema": column_schema(table)}


# A server that restarts is back within minutes; each attempt waits EVAL_CLICKHOUSE_PATIENCE_S.
PATIENCE = dg.RetryPolicy(max_retries=3, delay=15, backoff=dg.Backoff.EXPONENTIAL)

_asset = partial(
    dg.asset,
    group_name=REPUTATION,
    owners=["team:evaluation"],
    code_version="1",
    # One step at a time: an embedded engine can be open in one process only.
    pool="clickhouse",
    retry_policy=PATIENCE,
)


@_asset(
    deps=[SESSION_EVALUATIONS.name, SESSION_OUTCOMES.name],
    partitions_def=SESSION_DATES,
    backfill_policy=dg.BackfillPolicy.single_run(),
    automation_condition=WHEN_DATE_CHANGED,
    kinds={"clickhouse"},
    metadata=_columns(REPUTATION_EVENTS),
    check_specs=[
        _check(
            REPUTATION_EVENTS,
            "every_signal_has_its_session",
            "No signal is left of a session without a score, or of an outcome taken back.",
        )
    ],
)
def reputation_events(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> Iterator[dg.MaterializeResult[None]]:
    """One row per signal about an identity: every evaluated session is one."""
    days, now = [date.fromisoformat(key) for key in context.partition_keys], datetime.now(UTC)
    with change_reputation(stores, now) as store:
        bridged = bridge_sessions(stores, store, days, now)
        orphans = signals_without_session(stores, store, days)
    check = CheckResult(
        REPUTATION_EVENTS.name,
        "every_signal_has_its_session",
        not orphans,
        "a session with a score, or an outcome, for every signal",
        f"{len(orphans):,} signals without one",
        tuple(orphans[:_EXAMPLES]),
    )
    for day in days:
        context.add_asset_metadata(_date_metadata(bridged, day), partition_key=day.isoformat())
    yield dg.MaterializeResult(
        metadata={
            "dates of this run": len(days),
            "signals of this run": bridged.signals.height,
            "new or changed in this run": bridged.written,
            "taken back in this run": bridged.retired,
        },
        check_results=[asset_check_result(check)],
    )


@_asset(
    kinds={"clickhouse", "parquet"},
    metadata=_columns(EXTERNAL_SIGNALS),
    check_specs=[
        _check(
            EXTERNAL_SIGNALS,
            "every_line_is_usable",
            "No line of a file of signals or evaluations was rejected.",
        )
    ],
)
def external_signals(
    context: dg.AssetExecutionContext, stores: dg.ResourceParam[Stores]
) -> Iterator[dg.MaterializeResult[None]]:
    """One row per file of signals or evaluations of other systems."""
    now = datetime.now(UTC)
    for skipped in skipped_files(stores):
        context.log.warning("%s is not read: %s", skipped.path, skipped.reason)
    with change_reputation(stores, now) as store:
        files = load_external_signals(stores, store, now)
        submitted = load_submitted(stores, store, now)
    rejected = files.filter(pl.col("rejected") > 0).explode("rejects").unnest("rejects")
    yield dg.MaterializeResult(
        metadata={
            "dagster/row_count": files.height,
            "accepted lines": int(files["accepted"].sum()),
            "rejected lines": int(files["rejected"].sum()),
            "evaluations that programs submitted": submitted,
            "files, those loaded last first": frame_metadata(
                files.sort("loaded_at", descending=True).select(_FILES_SHOWN).head(_EXAMPLES)
            ),
        },
        check_results=[
            dg.AssetCheckResult(
                passed=rejected.is_empty(),
                check_name="every_line_is_usable",
                severity=dg.AssetCheckSeverity.WARN,
                metadata={
                    "rejected lines": int(files["rejected"].sum()),
                    "examples": frame_metadata(
                        rejected.select("path", "line", "reason").head(_EXAMPLES)
                    ),
                },
            )
        ],
    )


@_asset(
    deps=[reputation_events, external_signals],
    automation_condition=WHEN_INPUTS_SETTLED,
    freshness_policy=EVERY_HOUR,
    kinds={"clickhouse", "parquet"},
    metadata=_columns(REPUTATION_SCORES),
    check_specs=[
        _check(
            REPUTATION_SCORES,
            "reputation_is_in_range",
            "Scores are from -1 to 1, confidence is from 0 to 1.",
        )
    ],
)
def reputation_scores(stores: dg.ResourceParam[Stores]) -> Iterator[dg.MaterializeResult[None]]:
    """One row per identity: its reputation over 90 days."""
    with change_reputation(stores, datetime.now(UTC)) as store:
        scores = export_reputation(stores, store)
        named = with_agents(store, scores)
    best = named.sort("overall_score", descending=True).select(_SCORES_SHOWN)
    yield _materialized(scores.height, best, reputation_is_in_range(scores))


@_asset(
    deps=[reputation_events, external_signals],
    automation_condition=WHEN_INPUTS_SETTLED,
    freshness_policy=EVERY_HOUR,
    kinds={"clickhouse", "polars", "parquet"},
    metadata=_columns(AGENT_SCORES),
    check_specs=[
        _check(
            AGENT_SCORES,
            "agent_scores_are_in_range",
            "Scores are from 0 to 1000, and withheld below 50 evaluations.",
        )
    ],
)
def agent_scores(stores: dg.ResourceParam[Stores]) -> Iterator[dg.MaterializeResult[None]]:
    """One row per agent: 0 to 1000 over its last 500 evaluations."""
    now = datetime.now(UTC)
    with change_reputation(stores, now) as store:
        scores = export_agent_ratings(stores, store, now)
    best = scores.sort("score", descending=True, nulls_last=True).select(_AGENTS_SHOWN)
    yield _materialized(scores.height, best, agent_scores_are_in_range(scores))


def _date_metadata(bridged: BridgeResult, day: date) -> dict[str, dg.MetadataValue]:
    """Return the number of signals of the sessions of a date, and some of them."""
    signals = bridged.signals.filter(pl.col("session_date") == day)
    examples = signals.sort(REPUTATION_EVENTS.order).select(_SIGNALS_SHOWN).head(_EXAMPLES)
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(signals.height),
        "preview": frame_metadata(examples),
    }


def _materialized(rows: int, best: pl.DataFrame, check: CheckResult) -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(
        metadata={"dagster/row_count": rows, "preview": frame_metadata(best.head(_EXAMPLES))},
        check_results=[asset_check_result(check)],
    )


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
        states = [(file.path, file.size_bytes, file.modified_at_ns) for file in changed]
        state = hashlib.sha256(repr(states).encode()).hexdigest()
        return dg.RunRequest(f"{state} {now:%Y-%m-%dT%H}", tags=_TAGS)
    if SubmittedEvaluations(stores.ledger).waiting():
        return dg.RunRequest(f"submitted {now:%Y-%m-%dT%H}:{now.minute // 10}", tags=_TAGS)
    key = dg.AssetKey(EXTERNAL_SIGNALS.name)
    is_shown = context.instance.get_latest_materialization_event(key) is not None
    if not (is_shown or stores.lake.read_whole(EXTERNAL_SIGNALS).is_empty()):
        return dg.RunRequest("loaded in a terminal", tags=_TAGS)
    return dg.SkipReason("no file of signals is new or changed, no submitted evaluation waits")
