"""Agent telemetry in, evidence out.

One package per feature; docs/architecture.md lists them and what may import what.
"""

import os

# Polars keeps memory that it has used: a build would hold what its last step needed for as long as
# the next one runs. Read when Polars is loaded.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0")

# No matrix here is so large that several threads would multiply it faster; each costs its start.
# Read when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
