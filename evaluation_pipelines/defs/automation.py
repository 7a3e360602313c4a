"""When slow aggregates run: conditions named once, each with its reason."""

import dagster as dg

from evaluation_pipelines.domain.schemas import EVALUATION_BOOKS

# Not eager(): that looks only at the newest date, and late telemetry changes older ones.
_UPDATED = dg.AutomationCondition.any_deps_updated()

# Remembered until a run has been asked for. since_last_handled() would not do: an update between
# the tick that asks and the next one is newer than the run, yet counts as handled by it.
_CHANGED = _UPDATED.since(dg.AutomationCondition.newly_requested() & ~_UPDATED)

# Not while a build is under way: its next date would ask for the same work again.
# Every hour in any case: for runs that failed, and for dates that were built in a terminal.
WHEN_INPUTS_SETTLED = (
    (_CHANGED | dg.AutomationCondition.cron_tick_passed("0 * * * *"))
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("when_inputs_settled")

# Date by date, whichever date it is. A date whose run failed is asked for again every hour.
WHEN_DATE_CHANGED = (
    (
        _CHANGED
        | (
            dg.AutomationCondition.execution_failed()
            & dg.AutomationCondition.cron_tick_passed("0 * * * *")
        )
    )
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("when_date_changed")

REPUTATION = "reputation"
"""Group of the assets that need ClickHouse."""

CLICKHOUSE_RUN = {"evaluation/clickhouse": "yes"}
"""Tag of runs that need ClickHouse; dagster.yaml lets one at a time run, so that telemetry goes on
while they wait for it."""

_BOOKS = dg.AssetSelection.assets(EVALUATION_BOOKS.name)

# The sensor that Dagster makes by itself starts stopped.
aggregates_sensor = dg.AutomationConditionSensorDefinition(
    "aggregates_sensor",
    target=dg.AssetSelection.all() - dg.AssetSelection.groups(REPUTATION) - _BOOKS,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts the aggregates whose inputs have changed, and all of them every hour.",
)

# In runs of their own: books that do not balance keep nothing else from being made.
books_sensor = dg.AutomationConditionSensorDefinition(
    "books_sensor",
    target=_BOOKS,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Closes the books of dates whose tables have changed.",
)

# In runs of their own: in one run with the others, those after a failed one would be skipped.
reputation_sensor = dg.AutomationConditionSensorDefinition(
    "reputation_sensor",
    target=dg.AssetSelection.groups(REPUTATION),
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    run_tags=CLICKHOUSE_RUN,
    description="Brings dates with new scores to ClickHouse, and computes reputation every hour.",
)
