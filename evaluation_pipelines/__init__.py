"""Agent telemetry in, evidence out.

domain/    what things mean: decoding, windows' scores, formulas. Pure.
adapters/  how systems are spoken to: landing folder, lake, ledger, SQL files, prices.
stages/    the steps as plain functions: ingest, build, score.
defs/      when things run: the Dagster code location.
cli/       the same steps for a terminal.
"""

import os

# Polars gives memory back half a second after its use, and a build takes the same again for its
# next dates: that is a fifteenth of the time of a large backfill, for a tenth more memory at its
# peak. Read when Polars is loaded.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:10000,muzzy_decay_ms:10000")
