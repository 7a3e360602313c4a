"""Freshness policies of the assets that people open.

An asset without a policy may have any age. The tables of a date have none, except one: a date is
as fresh as its telemetry, and is rebuilt when that changes.
"""

from datetime import timedelta

import dagster as dg

WITH_TELEMETRY = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=36), fail_window=timedelta(days=4)
)
"""Warns after a working day without any session, fails after a long weekend without one."""

EVERY_HOUR = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=3), fail_window=timedelta(hours=26)
)
"""For assets built hourly and by the nightly run. Three hours without a build mean that runs fail
or wait; a night and two hours mean that people read yesterday's data."""
