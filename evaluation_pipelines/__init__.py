"""Agent telemetry in, evidence out.

One package per feature; docs/architecture.md lists them and what may import what.
"""

import os

# Polars gives memory back half a second after its use, and a build takes the same again for its
# next dates: that is a fifteenth of the time of a large backfill, for a tenth more memory at its
# peak. Read when Polars is loaded.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:10000,muzzy_decay_ms:10000")
