"""When slow aggregates run: conditions named once, each with its reason."""

import dagster as dg

# Not eager(): that looks only at the newest date, and late telemetry changes older ones.
# Not while a build is under way: its next date would ask for the same work again.
# Every hour in any case: an update that falls into the same tick as the last run counts as handled.
WHEN_INPUTS_SETTLED = (
    (
        dg.AutomationCondition.any_deps_updated().since_last_handled()
        | dg.AutomationCondition.cron_tick_passed("0 * * * *")
    )
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("when_inputs_settled")

# The sensor that Dagster makes by itself starts stopped.
aggregates_sensor = dg.AutomationConditionSensorDefinition(
    "aggregates_sensor",
    target=dg.AssetSelection.all(),
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts the aggregates whose inputs have changed, and all of them every hour.",
)
