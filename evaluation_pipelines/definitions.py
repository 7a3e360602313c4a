"""The code location: loads ``defs/`` and nothing else."""

import gc
import warnings
from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """Load everything in ``defs/``, without reading environment, data or network."""
    # Dagster 1.13 copies every sensor with a job, and warns about a parameter of the copy.
    warnings.filterwarnings("ignore", "Parameter `owners` of initializer", dg.BetaWarning)
    # Nothing of it is garbage: collections while it is imported take a third of the time.
    gc.disable()
    try:
        found = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    finally:
        gc.enable()
    # A process per step takes seconds, for steps of milliseconds; steps are parallel inside.
    return dg.Definitions.merge(found, dg.Definitions(executor=dg.in_process_executor))
