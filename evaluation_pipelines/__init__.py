"""Agent telemetry in, evidence out.

domain/    what things mean: decoding, windows' scores, formulas. Pure.
adapters/  how systems are spoken to: landing folder, lake, ledger, SQL files, prices.
stages/    the steps as plain functions: ingest, build, score.
defs/      when things run: the Dagster code location.
cli/       the same steps for a terminal.
"""
