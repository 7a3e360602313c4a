"""The worlds of tests: a test gives what matters to it, and the rest is plain.

``world`` itself tells sessions in the telemetry that agents send. ``world.rows`` has rows of any
table, ``world.runs`` those of comparisons, ``world.scorecards`` those of profiles and evaluations,
``world.stored`` puts them into a lake, ``world.ledger`` has values of the ledger, and
``world.lake_files`` files of a lake.
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
