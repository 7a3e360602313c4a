"""The Dagster code location: assets, checks, jobs, sensors and schedules, one module per feature.

Only this folder knows Dagster. An asset reads, calls one function, writes and reports.
"""
