"""When slow aggregates run: conditions named once, each with its reason.

The labels are what the interface shows of each evaluation.
"""

import dagster as dg

from evaluation_pipelines.schemas import EVALUATION_BOOKS

NIGHTLY_EVALUATION = "nightly_evaluation"
"""Name of the schedule of the night, and of its job."""

NIGHT_RUN = {"evaluation/night": "yes"}
"""Tag of runs of the night: they go on with what there is, see ``is_of_the_night``."""

# Not eager(): that looks only at the newest date, and late telemetry changes older ones.
# What the night made does not count: it made what follows from it, too. Dagster's own rule against
# asking twice, executed_with_root_target(), knows only one date of a run over many.
_UPDATED = dg.AutomationCondition.any_deps_match(
    (
        dg.AutomationCondition.newly_updated()
        & ~dg.AutomationCondition.executed_with_root_target()
        & ~dg.AutomationCondition.all_new_updates_have_run_tags(tag_values=NIGHT_RUN)
    ).with_label("updated by a run that did not make this asset as well")
    | dg.AutomationCondition.will_be_requested()
).with_label("an input was updated")

# Remembered until a run has been asked for. since_last_handled() would not do: an update between
# the tick that asks and the next one is newer than the run, yet counts as handled by it.
_CHANGED = _UPDATED.since(dg.AutomationCondition.newly_requested() & ~_UPDATED).with_label(
    "an input has changed since the last run was asked for"
)

_FULL_HOUR = dg.AutomationCondition.cron_tick_passed("0 * * * *").with_label("a full hour began")
_FAILED = dg.AutomationCondition.execution_failed().with_label("the last run of it failed")

# Not while a build is under way: its next date would ask for the same work again.
_SETTLED = (~dg.AutomationCondition.any_deps_in_progress()).with_label(
    "no run is making one of its inputs"
)
_IDLE = (~dg.AutomationCondition.in_progress()).with_label("no run is making it")

# Every hour in any case: for runs that failed, and for dates that were built in a terminal.
WHEN_INPUTS_SETTLED = ((_CHANGED | _FULL_HOUR) & _SETTLED & _IDLE).with_label(
    "when its inputs have changed and settled, and every hour"
)

# Date by date, whichever date it is. A date whose run failed is asked for again every hour.
WHEN_DATE_CHANGED = ((_CHANGED | (_FAILED & _FULL_HOUR)) & _SETTLED & _IDLE).with_label(
    "when the inputs of a date have changed and settled; every hour while that fails"
)

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
