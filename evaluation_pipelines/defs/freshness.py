"""How old what people look at may be; an asset without a policy may be any age.

The tables of a date have none but one: a date is as fresh as its telemetry, and is rebuilt when
that changes.
"""

from datetime import timedelta

import dagster as dg

WITH_TELEMETRY = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=36), fail_window=timedelta(days=4)
)
"""A working day without any session is worth a look, a long weekend without one is an alarm."""

EVERY_HOUR = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=3), fail_window=timedelta(hours=26)
)
"""Made every hour, and by the night: after three hours runs of it fail or wait, after a night and
two hours people read yesterday's figures."""
