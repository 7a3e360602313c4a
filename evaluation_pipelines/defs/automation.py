"""Automation conditions and the sensors that evaluate them.

The interface shows the label of each condition with its evaluation.
"""

from typing import TypeAlias

import dagster as dg

from evaluation_pipelines.schemas import EVALUATION_BOOKS

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

_FULL_HOUR = dg.AutomationCondition.cron_tick_passed("0 * * * *").with_label("a full hour began")
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
    "when the inputs of a date have changed and settled; every hour while that fails"
)

EVERY_5_SECONDS, EVERY_10_SECONDS = 4, 9
"""Intervals of sensors. The daemon looks every five seconds which are due: after 4.9 seconds it
would find one of 5 not due yet, and look again after ten."""

FIRST, SECOND, LAST = ({"dagster/priority": each} for each in ("-1", "-2", "-3"))
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
