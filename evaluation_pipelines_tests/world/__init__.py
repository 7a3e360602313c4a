"""The worlds of tests: a test gives what matters to it, and the rest is plain.

``world`` itself tells sessions in the telemetry that agents send. ``world.rows`` holds rows of any
table, ``world.runs`` those of comparisons, ``world.scorecards`` those of profiles and evaluations,
``world.ledger`` values of the ledger, and ``world.lake_files`` files of a lake.
"""

from evaluation_pipelines_tests.world.telemetry import (
    DAY_S,
    NOON_NS,
    SESSION,
    any_value,
    attributes,
    claude,
    line,
    request,
    session,
)

__all__ = [
    "DAY_S",
    "NOON_NS",
    "SESSION",
    "any_value",
    "attributes",
    "claude",
    "line",
    "request",
    "session",
]
